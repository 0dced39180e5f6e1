"""The command that starts the plan, in the formats that people deploy."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from planner.command.exports import FORMATS, export
from planner.command.render import Command
from planner.errors import PlanError
from planner.memory.verdict import Answer
from planner.tui.outcome import Outcome
from planner.tui.show import DIM, columns, plain
from planner.tui.widgets.panel import Panel

_FORMATS: Final = tuple(FORMATS)
_SHELL: Final = "command"  # shown with a reason for every option


class CommandPanel(Panel):
    """One option a line, with why it is there; or the text of a file."""

    BORDER_TITLE = "Command"

    format = _SHELL

    def next_format(self) -> None:
        """Show the next format."""
        self.format = _FORMATS[(_FORMATS.index(self.format) + 1) % len(_FORMATS)]
        self.redraw()

    @property
    def text(self) -> str | None:
        """What is shown, to copy or to save; None where there is none."""
        if self.outcome is None or self.outcome.command is None:
            return None
        if self.format == _SHELL:
            return self.outcome.command_text
        try:
            return _exported(self.outcome, self.format)
        except PlanError:
            return None

    def draw(self, outcome: Outcome, width: int) -> None:
        """Show the command."""
        command = outcome.command
        self.entitle(f"Command for vLLM {outcome.inputs.release.name}")
        if command is None:
            self.update(Content.assemble((plain(outcome.no_command), DIM)))
            return
        lines = [_formats(self.format), self._body(outcome, command, width)]
        if outcome.answer is Answer.NO:
            lines.insert(0, Content.assemble(("✘ it does not start as it is", "$text-error")))
        self.update(Content("\n").join(lines))

    def _body(self, outcome: Outcome, command: Command, width: int) -> Content:
        if self.format == _SHELL:
            given = [f"{name}={plain(value)} \\" for name, value in outcome.settings.environ]
            return Content("\n").join([*map(Content, given), explained(command, width)])
        try:
            text = _exported(outcome, self.format)
        except PlanError as error:
            return Content.assemble((plain(str(error)), DIM))
        return Content("\n".join(plain(line) for line in text.rstrip("\n").split("\n")))


def _exported(outcome: Outcome, format: str) -> str:
    assert outcome.memory is not None
    return export(outcome.memory, format, command=outcome.command, environ=outcome.settings.environ)


def _formats(shown: str) -> Content:
    """The keys, and the formats with the one that is shown."""
    keys = (" c ", "bold reverse"), " copy  ", (" ^e ", "bold reverse"), " save  "
    names = [(f"[{each}] ", "bold") if each == shown else (f"{each} ", DIM) for each in _FORMATS]
    return Content.assemble(*keys, (" e ", "bold reverse"), " format\n", *names)


def explained(command: Command, width: int) -> Content:
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
