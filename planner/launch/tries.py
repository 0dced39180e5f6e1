"""Launching until it runs: after a failure the corrected command, up to so many times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from planner.launch.corrections import Correction, correct_failure, correct_plan
from planner.launch.explain import explain
from planner.launch.preflight import Preflight
from planner.launch.validation import Validation, Verdict


class Try(Struct, frozen=True):
    """One of several launches. `change` is None for the command as given; `run` for one that was
    not started, because the plan forbids it."""

    change: str | None
    preflight: Preflight
    run: Validation | None

    @property
    def runs(self) -> bool:
        """Whether the server came up and answered."""
        return self.run is not None and self.run.verdict is not Verdict.FAILED

    @property
    def reason(self) -> str:
        """Why it did not, or that it did."""
        if self.run is None:
            return f"the plan says no: {_why(self.preflight)}"
        if self.run.failure is not None:
            return explain(self.run.failure).sentence
        return "runs"


def tries(
    words: Sequence[str],
    retries: int,
    prepare: Callable[[Sequence[str]], Preflight],
    launch: Callable[[Preflight, str | None, int], Validation],
) -> Iterator[Try]:
    """The command, and while it fails and a change is known, corrected ones.

    `prepare` examines a command, `launch` runs one: with the change that was made, and the number
    of the try, from 1.
    """
    correction: Correction | None = Correction("", tuple(words))
    changes: list[str] = []
    for number in range(1, retries + 2):
        assert correction is not None
        change = correction.change or None
        preflight = prepare(correction.words)
        if preflight.forbidden:
            this = Try(change, preflight, None)
            correction = correct_plan(preflight, changes)
        else:
            run = launch(preflight, change, number)
            this = Try(change, preflight, run)
            correction = _after(run, changes)
        yield this
        if correction is None:
            return
        changes.append(correction.change)


def _after(run: Validation, changes: Sequence[str]) -> Correction | None:
    if run.failure is None:
        return None
    return correct_failure(run.preflight, run.facts, run.failure, changes)


def _why(preflight: Preflight) -> str:
    errors = [
        finding.text
        for finding in (*preflight.findings, *preflight.check.findings)
        if finding.severity.value == "error"
    ]
    return errors[0] if errors else "it does not start"
