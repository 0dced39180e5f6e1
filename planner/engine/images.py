"""The container images of vLLM's releases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.engine.device import Platform
from planner.engine.releases import Release, read_data
from planner.errors import PlanError

# `ENV` of docker/Dockerfile, in the images of all releases.
_SET: Final = {"VLLM_USAGE_SOURCE": "production-docker-image"}


def image_of(release: Release, platform: Platform) -> str:
    """The official image with its tag; raises `PlanError` where none is known."""
    for since, image in reversed(read_data("images.json")["images"][platform.value]):
        if release.at_least(since):
            return str(image).format(release=release.name)
    raise PlanError(
        f"no official image of vLLM {release.name} for {platform.value} is known; the other "
        "formats (command, yaml, systemd) need none"
    )


def variables_set_by(image: str) -> dict[str, str]:
    """The variables that vLLM finds set in an image, with or without a tag: none if not official.

    A registry in front of the name may be a mirror of the official one.
    """
    name = image.partition("@")[0]
    repository = name.rpartition("/")[2].partition(":")[0]
    owner = name.rpartition("/")[0].rpartition("/")[2]
    official = {
        str(known).partition(":")[0]
        for images in read_data("images.json")["images"].values()
        for _, known in images
    }
    return dict(_SET) if f"{owner}/{repository}" in official else {}


def is_in_official_image(environ: Mapping[str, str]) -> bool:
    """Whether these are the variables of a server in an official image."""
    return all(environ.get(name) == value for name, value in _SET.items())
