"""Undo and redo."""

from __future__ import annotations

from planner.settings import Settings

_LONGEST = 500


class History:
    """The settings now, those before, and those that were undone."""

    def __init__(self, now: Settings) -> None:
        self.now = now
        self._before: list[Settings] = []
        self._undone: list[Settings] = []

    def change(self, settings: Settings) -> bool:
        """Take new settings; False if they are the ones there are."""
        if settings == self.now:
            return False
        self._before = [*self._before[-_LONGEST:], self.now]
        self._undone.clear()
        self.now = settings
        return True

    def undo(self) -> bool:
        """Go one change back; False if there is none."""
        return self._move(self._before, self._undone)

    def redo(self) -> bool:
        """Go forward again; False if nothing was undone."""
        return self._move(self._undone, self._before)

    def _move(self, source: list[Settings], target: list[Settings]) -> bool:
        if not source:
            return False
        target.append(self.now)
        self.now = source.pop()
        return True
