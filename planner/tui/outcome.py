"""Outcome: what the planner says of settings, ready to be shown."""

from __future__ import annotations

import shlex

from msgspec import Struct
from msgspec.structs import replace

from planner.command.render import Command, render_command
from planner.diagnosis.messages import own_message
from planner.diagnosis.remedies import Remedy, is_about_memory, remedies
from planner.engine.rules import is_emulated
from planner.errors import PlanError
from planner.findings import Finding, Severity
from planner.memory.plan import MemoryPlan, Refused, plan_memory
from planner.memory.verdict import Answer
from planner.recommendation.requirements import Requirements
from planner.settings import Settings
from planner.speed.acceptance import task_of
from planner.speed.serving import SpeedEstimate, predict_speed
from planner.tui.library import Inputs


class Outcome(Struct, frozen=True):
    """A plan, its speed, its command, or why there is none of each."""

    settings: Settings
    inputs: Inputs
    memory: MemoryPlan | None  # None: vLLM refuses before there is a budget
    speed: SpeedEstimate | None
    alone: SpeedEstimate | None  # with one request at a time, where several are asked for
    no_speed: str  # why, where there is none
    command: Command | None
    no_command: str
    findings: tuple[Finding, ...]

    @property
    def answer(self) -> Answer:
        """Will it start?"""
        return self.memory.starts.answer if self.memory is not None else Answer.NO

    @property
    def chance_of_refusal(self) -> float:
        """Probability that vLLM refuses."""
        return self.memory.starts.chance_of_refusal if self.memory is not None else 1.0

    @property
    def reason(self) -> str:
        """The first reason for the answer."""
        if self.memory is not None:
            return self.memory.starts.reason
        return self.findings[0].text

    @property
    def command_text(self) -> str | None:
        """The command for a shell, with the variables that the plan depends on."""
        if self.command is None:
            return None
        variables = [f"{name}={shlex.quote(value)} " for name, value in self.settings.environ]
        return "".join(variables) + self.command.shell()

    @property
    def can_be_mended(self) -> bool:
        """Whether it makes sense to look for a change that makes it start."""
        memory = self.memory
        return memory is not None and self.answer is not Answer.YES and not memory.refusals


def judge(settings: Settings, inputs: Inputs) -> Outcome:
    """Ask the planner. What it refuses is an outcome too; nothing is raised."""
    memory: MemoryPlan | None = None
    try:
        memory = plan_memory(
            inputs.card,
            inputs.rig,
            settings.config,
            draft=inputs.draft,
            environ=dict(settings.environ),
            vllm=inputs.release,
        )
    except Refused as error:
        found = [Finding(r.kind.value, Severity.ERROR, r.reason) for r in error.refusals]
    except PlanError as error:
        found = [Finding("no_plan", Severity.ERROR, str(error))]
    if memory is None:
        why = "no plan"
        return Outcome(settings, inputs, None, None, None, why, None, why, tuple(found))
    speed, alone, no_speed = _speed(memory, settings)
    command, no_command = _command(memory)
    findings = tuple(_findings(memory, inputs))
    return Outcome(settings, inputs, memory, speed, alone, no_speed, command, no_command, findings)


def mend(outcome: Outcome) -> tuple[Remedy, ...]:
    """Changes that make it start, the best first. Takes longer than a plan."""
    if outcome.memory is None or not outcome.can_be_mended:
        return ()
    return remedies(outcome.memory, outcome.inputs.draft)


def _speed(
    memory: MemoryPlan, settings: Settings
) -> tuple[SpeedEstimate | None, SpeedEstimate | None, str]:
    """The speed as asked and that of one request at a time, or why there is none."""
    if memory.starts.answer is Answer.NO:
        return None, None, "it does not start: no speed"
    if is_emulated(memory.card, memory.device):
        return None, None, f"vLLM only emulates {memory.card.format_kind} on this GPU"
    load, task = settings.workload, task_of(settings.use_case)
    try:
        if memory.card.converses:  # requests longer than the context are refused
            Requirements(load, settings.use_case, memory.config.max_model_len)
        speed = predict_speed(memory, load, task=task)
        alone = None
        if load.concurrency > 1:
            alone = predict_speed(memory, replace(load, concurrency=1), task=task)
    except PlanError as error:
        return None, None, str(error)
    return speed, alone, ""


def _command(memory: MemoryPlan) -> tuple[Command | None, str]:
    try:
        return render_command(memory), ""
    except PlanError as error:
        return None, str(error)


def _findings(memory: MemoryPlan, inputs: Inputs) -> list[Finding]:
    found = [Finding(r.kind.value, Severity.ERROR, r.reason) for r in memory.refusals]
    starts = memory.starts
    if starts.refusal is not None and is_about_memory(starts.refusal.kind):
        severity = Severity.ERROR if starts.answer is Answer.NO else Severity.WARNING
        own = own_message(memory)
        says = f"vLLM says: {own}" if own else None
        found.append(Finding(starts.refusal.kind.value, severity, starts.reason, says))
    notes = [*inputs.rig.notes, inputs.release.note, *memory.card.notes, *memory.notes]
    found += [Finding("note", Severity.INFO, note) for note in dict.fromkeys(notes) if note]
    return found
