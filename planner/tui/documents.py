"""Plans saved; plans, commands and logs opened, whichever way they come."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from textual.app import App

from planner.errors import PlanError
from planner.files import named_path, write_file
from planner.plan_file import write_plan
from planner.tui.background import Running, in_background
from planner.tui.screens.plan import PlanScreen
from planner.tui.show import plain
from planner.tui.widgets.command import CommandPanel
from planner.tui.widgets.knob_list import WRONG_INPUT

if TYPE_CHECKING:  # most of it is needed for nothing but opening, and takes time to import
    from planner.launch.facts import LaunchFacts
    from planner.tui.dropped import Dropped, Pasted

_USUAL_NAME: Final = "plan.yaml"
# Names for a format of the command; other formats are YAML.
_FILES: Final = {"command": "serve.sh", "docker": "serve.sh", "systemd": "vllm.service"}

Write = Callable[[Path, bool], None]  # to a path; over what is there, or not


class Documents:
    """What the plan screen is opened from and saved to."""

    def __init__(self, app: App[None], plan: PlanScreen) -> None:
        self._app, self._plan = app, plan

    def save(self) -> None:
        """Save the plan, asking where the first time."""
        if self._plan.path is not None:
            self._try(self._write_plan, self._plan.path, force=True)
            return

        def named(path: Path) -> None:
            self._ask_to_write(path, self._write_plan)

        self._ask_path("Save the plan", _USUAL_NAME, named)

    def _write_plan(self, path: Path, force: bool) -> None:
        write_plan(path, self._plan.settings, force=force)
        self._plan.path = path
        self._plan.show_settings()

    def _ask_to_write(self, path: Path, write: Write) -> None:
        """Write to a path that was named, asking before another file is lost."""
        if not os.path.exists(path):  # which no name is too long for
            self._try(write, path)
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self._try(write, path, force=True)

        from planner.tui.screens.confirm import ConfirmScreen

        question = f"{path} exists. Overwrite it?"
        self._app.push_screen(ConfirmScreen(question, "overwrite"), answered)

    def _try(self, write: Write, path: Path, *, force: bool = False) -> None:
        try:
            write(path, force)
        except (OSError, ValueError, PlanError) as error:
            reason = getattr(error, "strerror", None) or error
            self._plan.hint(f"Cannot write {path}: {reason}", wrong=True)
        else:
            self._app.notify(f"Saved {plain(str(path))}")

    def export(self) -> None:
        """Write the command to a file, in the format that is shown."""
        panel = self._plan.query_one(CommandPanel)
        text = panel.text
        if text is None:
            self._app.notify("There is no command to save", severity="warning")
            return

        def named(path: Path) -> None:
            self._ask_to_write(path, partial(self._write, text))

        name = _FILES.get(panel.format, f"{panel.format}.yaml")
        self._ask_path("Save the command", name, named)

    def _write(self, text: str, path: Path, force: bool) -> None:
        write_file(path, text if text.endswith("\n") else f"{text}\n", force=force)

    def open(self) -> None:
        """Ask for a plan file or a log, and open it."""
        start = str(self._plan.path or _USUAL_NAME)
        self._ask_path("Open a plan, or a log of vLLM", start, self._read_path)

    def _ask_path(self, title: str, start: str, named: Callable[[Path], None]) -> None:
        from planner.tui.screens.path import PathScreen

        def answered(path: str | None) -> None:
            if path is not None:
                named(named_path(path))

        self._app.push_screen(PathScreen(title, start), answered)

    def paste(self) -> None:
        """Ask for a command, and open it."""
        from planner.tui.screens.paste import PasteScreen

        self._app.push_screen(PasteScreen(), lambda text: self.take(text or ""))

    def take(self, text: str) -> None:
        """Open what was pasted or dropped."""
        if any(isinstance(each, Running) and each.running for each in self._app.screen_stack):
            self._app.notify("A validation runs; escape ends it", severity="warning")
        elif text.strip():
            from planner.tui.dropped import read_dropped

            self._plan.hint("reading …")
            settings, library = self._plan.settings, self._plan.library
            work = in_background(lambda: read_dropped(text, settings, library))
            self._app.run_worker(self._show(work), group="open", exclusive=True)

    def _read_path(self, path: Path) -> None:
        from planner.tui.dropped import read_path

        work = in_background(lambda: read_path(path))
        self._app.run_worker(self._show(work), group="open", exclusive=True)

    async def _show(self, reading: Awaitable[Dropped]) -> None:
        from planner.tui.dropped import OpenedLog, OpenedPlan, Pasted
        from planner.tui.screens.diagnosis import DiagnosisScreen

        try:
            dropped = await reading
        except WRONG_INPUT as error:
            self._plan.hint(str(error), wrong=True)
            return
        match dropped:
            case OpenedLog():
                self._plan.hint(f"read {dropped.name}")
                plan = self._plan
                screen = DiagnosisScreen(dropped, plan.settings.gpu, plan.library)
                self._app.push_screen(screen, self._open_launch)
            case OpenedPlan():
                self._show_plan()
                self._plan.hint(f"opened {dropped.path}")
                self._plan.open(dropped.settings, dropped.path)
            case Pasted():
                self._show_plan()
                self._plan.open(dropped.settings, findings=dropped.findings)
                self._say_findings(dropped)

    def _say_findings(self, pasted: Pasted) -> None:
        if not pasted.errors:
            self._plan.hint("opened the command")
            return
        wrong = "one option" if pasted.errors == 1 else f"{pasted.errors} options"
        self._plan.hint(f"vLLM refuses {wrong} of the command as it is: see Why", wrong=True)
        self._plan.action_tab("why")

    def _open_launch(self, facts: LaunchFacts | None) -> None:
        """Open the launch that a log tells of as a plan."""
        from planner.tui.dropped import settings_of

        if facts is not None:
            self._plan.open(settings_of(facts, self._plan.settings))

    def _show_plan(self) -> None:
        """Close what lies above the plan."""
        while self._app.screen is not self._plan:
            self._app.pop_screen()
