"""Where the time of a validation went."""

from __future__ import annotations

from msgspec import Struct


class Spent(Struct, frozen=True):
    """Seconds of its parts; None for those that it did not get to.

    `load` is all of sending a load, with the program that sends it; the requests themselves are in
    `levels`.
    """

    start: float | None = None
    requests: float | None = None
    load: float | None = None
    levels: float | None = None
    stop: float | None = None

    @property
    def beside_the_start(self) -> float:
        """What validating took beyond vLLM's own start."""
        return sum(part for part in (self.requests, self.load, self.stop) if part is not None)

    def __str__(self) -> str:
        if self.start is self.requests is None:  # of a failed start there is nothing to split
            return ""
        told = []
        if self.start is not None:
            told.append(f"vLLM's start {self.start:.0f} s")
        if self.requests is not None:
            told.append(f"first requests {self.requests:.0f} s")
        if self.load is not None:
            of_which = ""
            if self.levels is not None:
                of_which = f" ({max(0.0, self.load - self.levels):.0f} s until it sent any)"
            told.append(f"load {self.load:.0f} s{of_which}")
        if self.stop is not None:
            told.append(f"stop {self.stop:.0f} s")
        return ", ".join(told)
