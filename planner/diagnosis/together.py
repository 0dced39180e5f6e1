"""Several commands on the same GPUs, started one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from hardware_db import Rig
from planner.command.parse import ServeCommand
from planner.diagnosis.check import Check, check_command
from planner.findings import Finding, Severity
from planner.memory.instances import beside, held, shared_out
from planner.memory.plan import MemoryPlan
from planner.memory.verdict import Answer
from planner.quantity import Quantity


class Neighbour(Struct, frozen=True):
    """A command that is started before, and what it holds of each GPU; None without a budget."""

    check: Check
    held: Quantity | None


class Together(Struct, frozen=True):
    """The verdict on a command beside others that run."""

    check: Check
    neighbours: tuple[Neighbour, ...]
    shares: tuple[float, ...] | None  # utilizations with which all start, the command's last


def check_together(
    command: ServeCommand, others: Sequence[ServeCommand], rig: Rig, *, offline: bool = False
) -> Together:
    """Judge a command that is started after `others`. Raises as `check_command`."""
    neighbours: list[Neighbour] = []
    running: list[MemoryPlan] = []
    for other in others:
        check = check_command(other, beside(rig, running), offline=offline)
        neighbours.append(Neighbour(check, held(check.memory) if check.memory else None))
        if check.memory is not None:
            running.append(check.memory)
    check = check_command(command, beside(rig, running), offline=offline)
    checks = [*(neighbour.check for neighbour in neighbours), check]
    shares = None
    if any(each.answer is not Answer.YES for each in checks):
        shares = _working_shares(checks, rig, offline)
    found = [_about(neighbour) for neighbour in neighbours]
    findings = (*(each for each in found if each is not None), *check.findings)
    return Together(replace(check, findings=findings), tuple(neighbours), shares)


def _about(neighbour: Neighbour) -> Finding | None:
    """That what is started before does not start itself."""
    check = neighbour.check
    if check.answer is Answer.YES:
        return None
    severity = Severity.ERROR if check.answer is Answer.NO else Severity.WARNING
    word = "does not start" if check.answer is Answer.NO else "may not start"
    reasons = [each.text for each in check.findings if each.severity is severity]
    why = f": {reasons[0]}" if reasons else ""
    return Finding("beside", severity, f"{check.card.model_id}, started before, {word}{why}")


def _working_shares(checks: Sequence[Check], rig: Rig, offline: bool) -> tuple[float, ...] | None:
    """Utilizations that the planner finds to work, one command after the other."""
    plans = [check.memory for check in checks if check.memory is not None]
    if len(plans) < len(checks) or any(memory.refusals for memory in plans):
        return None
    shares = shared_out(plans)
    if shares is None:
        return None
    running: list[MemoryPlan] = []
    for check, share in zip(checks, shares, strict=True):
        config = replace(check.command.config, gpu_memory_utilization=share)
        trial = check_command(
            replace(check.command, config=config), beside(rig, running), offline=offline
        )
        if trial.answer is not Answer.YES or trial.memory is None:
            return None
        running.append(trial.memory)
    return shares
