"""What stands below the knobs where there is room: the command, or the keys."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from planner.memory.verdict import Answer
from planner.tui.outcome import Outcome
from planner.tui.screens.help import rows
from planner.tui.show import DIM, columns, plain
from planner.tui.widgets.panel import Panel


class ShortCommand(Panel):
    """The command that starts the plan, always in sight."""

    BORDER_TITLE = "Command"

    def draw(self, outcome: Outcome, width: int) -> None:
        """Show it, or why there is none."""
        text = outcome.command_text
        refused = outcome.answer is Answer.NO
        self.entitle("Command: does not start as it is" if refused else "Command")
        if text is None:
            self.update(Content.assemble((plain(outcome.no_command), DIM)))
        else:
            self.update(Content("\n".join(map(plain, text.split("\n")))))


class KeysCard(Static):
    """The keys of the screen."""

    BORDER_TITLE = "Keys"

    def on_resize(self) -> None:
        """Draw for the width there is."""
        keys = rows(getattr(self.screen, "KEYS", {}))
        self.update(columns(list(keys), width=self.content_size.width))
