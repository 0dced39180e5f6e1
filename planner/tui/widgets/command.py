"""The command that starts the plan."""

from __future__ import annotations

from textual.content import Content

from planner.command.render import Command
from planner.tui.outcome import Outcome
from planner.tui.show import DIM, columns, plain
from planner.tui.widgets.panel import Panel


class CommandPanel(Panel):
    """One option a line, with why it is there."""

    BORDER_TITLE = "Command"

    def draw(self, outcome: Outcome, width: int) -> None:
        """Show the command."""
        command = outcome.command
        self.border_title = f"Command for vLLM {outcome.inputs.release.name}"
        if command is None:
            self.update(Content.assemble((plain(outcome.no_command), DIM)))
            return
        lines = [Content(f"{name}={plain(value)} \\") for name, value in outcome.settings.environ]
        self.update(Content("\n").join([*lines, _lines(command, width), _KEYS]))


_KEYS = Content.assemble("\n", (" c ", "bold reverse"), " copy")


def _lines(command: Command, width: int) -> Content:
    """As `Command.shell` writes it, with a reason beside every option."""
    written = command.shell().split("\n")
    reasons = ["", *(flag.reason for flag in command.flags)]
    if len(written) != len(reasons):  # a value with line breaks of its own
        return Content(plain(command.shell()))
    first, *rest = (
        ((plain(line), "bold" if not reason else ""), (f"# {reason}" if reason else "", DIM))
        for line, reason in zip(written, reasons, strict=True)
    )
    head = Content.assemble(first[0])
    return Content("\n").join([head, columns(rest, gap=3, width=width)]) if rest else head
