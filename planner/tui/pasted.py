"""A pasted `vllm serve` command as settings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.command.invocation import read_invocation, split_text
from planner.command.parse import read_command
from planner.diagnosis.check import check_command
from planner.findings import Finding, Severity
from planner.tui.library import Library
from planner.tui.settings import PLANNED_VARIABLES, Settings


@dataclass(frozen=True, slots=True)
class Pasted:
    """What a command asks for, and what is wrong with how it is written."""

    settings: Settings
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        """How many of its options vLLM would refuse."""
        return sum(finding.severity is Severity.ERROR for finding in self.findings)


def read_pasted(text: str, settings: Settings, library: Library) -> Pasted:
    """The command on the hardware of `settings`, for their release unless it names an image.

    Opens its model, which may ask the Hub. Raises `PlanError` or `CardError`.
    """
    image = read_invocation(split_text(text)).release
    command = read_command([text], image or settings.vllm)
    config = command.config
    if command.infers_method:
        rig = library.rig(settings.gpu)
        config = check_command(command, rig, offline=library.offline).config
    opened = replace(
        settings,
        model=command.model,
        vllm=command.release.name,
        config=config,
        environ=tuple(pair for pair in command.environ if pair[0] in PLANNED_VARIABLES),
    )
    return Pasted(opened, command.findings)
