"""One validation in a thread: what it tells is kept until it is asked for."""

from __future__ import annotations

from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event as Flag

from planner.calibration_store import StoreError
from planner.launch.history import remember
from planner.launch.preflight import Preflight
from planner.launch.progress import Event
from planner.launch.run_files import new_folder, write_files
from planner.launch.validation import validate
from planner.report.validation import ValidationReport
from planner.tui.background import in_background


class ValidationRun:
    """Runs once; however it ends, nothing of the server is left then."""

    def __init__(self, preflight: Preflight) -> None:
        self.preflight = preflight
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._cancel = Flag()
        self._over = Flag()

    @property
    def is_ending(self) -> bool:
        """Whether it was told to end."""
        return self._cancel.is_set()

    async def report(self) -> ValidationReport:
        """Run it. Raises `Cancelled` if it was told to end, `PlanError` or `OSError`."""
        return await in_background(self._run)

    def events(self) -> list[Event]:
        """What it told since it was asked last."""
        told: list[Event] = []
        try:
            while True:
                told.append(self._events.get_nowait())
        except Empty:
            return told

    def cancel(self) -> None:
        """Tell it to end; it does within seconds."""
        self._cancel.set()

    def wait(self, seconds: float) -> bool:
        """Wait for its end; False if that takes longer."""
        return self._over.wait(seconds)

    def _run(self) -> ValidationReport:
        try:
            folder = new_folder(self.preflight.check.command.model)
            run = validate(self.preflight, folder, observer=self._events.put, cancel=self._cancel)
            write_files(run)
            with suppress(StoreError):  # the report is there all the same
                remember(run)
            return ValidationReport.of(run)
        finally:
            self._over.set()
