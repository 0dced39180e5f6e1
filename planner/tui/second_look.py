"""What the planner makes of a log: its plan beside what was measured, and what would start."""

from __future__ import annotations

from msgspec import Struct

from planner.command.parse import read_command
from planner.diagnosis.check import check_command
from planner.engine.releases import find_release
from planner.launch.facts import LaunchFacts
from planner.launch.fixes import Fixes, concerns_memory, fixes, logged_words
from planner.launch.probe import Probe
from planner.launch.terms import Term, compare
from planner.tui.library import Library
from planner.tui.widgets.knob_list import WRONG_INPUT


class SecondLook(Struct, frozen=True):
    """On which hardware, the terms that the log tells, fixes of a failure, and why one is not."""

    rig: str
    terms: tuple[Term, ...] = ()
    fixes: Fixes | None = None
    why_not: str = ""


def second_look(facts: LaunchFacts, gpu: str, library: Library) -> SecondLook:
    """Plan the launch on the hardware that is planned for. May ask the Hub for its model."""
    if facts.model is None:
        return SecondLook(gpu, why_not="the log does not say which model was launched")
    try:
        rig = library.rig(gpu)
        release = find_release(facts.release).name if facts.release else None
        command = read_command(logged_words(facts), release)
        memory = check_command(command, rig, offline=library.offline).memory
        nothing_asked = Probe(facts.model, None, None, ())
        terms = compare(memory, facts, nothing_asked) if memory is not None else ()
        failure = facts.failure
        tried = None
        if failure is not None and concerns_memory(failure):
            tried = fixes(facts, rig)
    except WRONG_INPUT as error:
        return SecondLook(gpu, why_not=str(error))
    return SecondLook(rig.describe(), terms, tried)
