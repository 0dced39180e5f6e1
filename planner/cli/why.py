"""`vplan recommend --gpu --why MODEL`: where a model stands in the ranking, or why it does not."""

from __future__ import annotations

from hardware_db import Rig
from planner.cli.console import fail, print_json, say, say_item
from planner.cli.plan_text import print_header
from planner.cli.reasons import rejected_line
from planner.cli.status import Status
from planner.engine.releases import Release
from planner.recommendation.placing import Placing, placing
from planner.recommendation.requirements import Requirements


def print_why(
    model_id: str, rig: Rig, requirements: Requirements, release: Release, as_json: bool
) -> int:
    """The model's place, or what keeps it out; the exit status."""
    found = placing(model_id, rig, requirements, release)
    status = Status.YES if found.choice is not None else Status.NO
    if as_json:
        from planner.report.placing import PlacingReport

        print_json(PlacingReport.of(found))
        return status
    print_header(rig, requirements, release)
    say(_line(found))
    for rejected in found.rejected:
        say_item(rejected_line(rejected))
    if found.choice is None:
        fail(
            f"{found.model_id} is not in the ranking of {rig.spec}; what would serve it says "
            f"vplan recommend --gpu {rig.spec} --model {found.model_id}"
        )
    return status


def _line(found: Placing) -> str:
    if found.choice is None:
        return f"{found.model_id} is not in the ranking: {found.reason}"
    return f"{found.model_id} is number {found.place} of {found.ranked}: {found.reason}"
