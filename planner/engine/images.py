"""The container images of vLLM's releases."""

from __future__ import annotations

from planner.engine.device import Platform
from planner.engine.releases import Release, read_data
from planner.errors import PlanError


def image_of(release: Release, platform: Platform) -> str:
    """The official image with its tag; raises `PlanError` where none is known."""
    for since, image in reversed(read_data("images.json")["images"][platform.value]):
        if release.at_least(since):
            return str(image).format(release=release.name)
    raise PlanError(
        f"no official image of vLLM {release.name} for {platform.value} is known; the other "
        "formats (command, yaml, systemd) need none"
    )
