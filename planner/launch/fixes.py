"""What would have made a launch start, tried through the planner: from its log and its hardware.

The plan of the launch is corrected by what the log says was measured; what is then missing is
mended as `vplan check` mends a command.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hardware_db import Rig
from planner.calibration import Calibration, Lesson, Observation, Term, calibrated_by, formula
from planner.command.parse import ServeCommand, read_command
from planner.diagnosis.check import Check, check_command
from planner.diagnosis.remedies import Remedy
from planner.engine.device import Platform
from planner.engine.releases import find_release
from planner.errors import PlanError
from planner.launch.facts import Failure, FailureKind, LaunchFacts
from planner.launch.learning import observe
from planner.memory.free_memory import context
from planner.memory.plan import MemoryPlan, non_torch_name

_ABOUT_MEMORY: Final = (
    FailureKind.KV_ROOM, FailureKind.FREE_MEMORY, FailureKind.OUT_OF_MEMORY
)  # fmt: skip
_TINY: Final = 2**20  # bytes: a term is never less


class Fixes(Struct, frozen=True):
    """The launch as the planner sees it after its log, and the changes that make it start."""

    check: Check
    remedies: tuple[Remedy, ...]


def concerns_memory(failure: Failure) -> bool:
    """Whether settings of the plan may mend it."""
    return failure.kind in _ABOUT_MEMORY


def fixes(facts: LaunchFacts, rig: Rig) -> Fixes:
    """Changes that make a failed launch start on a rig, by the plan that its log corrects.

    Raises `PlanError` where the log does not tell what was launched, or the failure is not about
    memory; `CardError` for a model that is not known here.
    """
    check = corrected(_command(facts), facts, facts.failure, rig)
    return Fixes(check, check.remedies)


def corrected(
    command: ServeCommand, facts: LaunchFacts, failure: Failure | None, rig: Rig
) -> Check:
    """A command by a plan that knows what its failed launch told. `PlanError`, `CardError`."""
    if failure is None or not concerns_memory(failure):
        raise PlanError("the failure is not about memory: no setting of the plan changes it")
    with calibrated_by(None):
        first = check_command(command, rig)
    if first.memory is None:
        raise PlanError("; ".join(finding.text for finding in first.findings))
    rig = _as_found(rig, first.memory, failure)
    observed = (*observe(first, facts, None), *_missing(first.memory, failure))
    lesson = Lesson(rig.smallest.gpu.slug, command.release.name, observed)
    with calibrated_by(Calibration([lesson], certain=True)):
        return check_command(command, rig)


def _command(facts: LaunchFacts) -> ServeCommand:
    if facts.model is None:
        raise PlanError("the log does not say which model was launched")
    words = logged_words(facts)
    return read_command(words, find_release(facts.release).name if facts.release else None)


def logged_words(facts: LaunchFacts) -> list[str]:
    """The command of a launch, as far as its log tells it; it must name the model."""
    assert facts.model is not None
    words = ["vllm", "serve", facts.model, *facts.options]
    if facts.max_model_len is not None and "--max-model-len" not in words:
        words += ["--max-model-len", str(facts.max_model_len)]
    ranks = facts.tensor_parallel_size
    if ranks is not None and ranks > 1 and "--tensor-parallel-size" not in words:
        words += ["--tensor-parallel-size", str(ranks)]
    return words


def _as_found(rig: Rig, memory: MemoryPlan, failure: Failure) -> Rig:
    """The rig with what the failure says was free: that is without vLLM's own context."""
    if failure.kind is not FailureKind.FREE_MEMORY or failure.available is None:
        return rig
    slug, ranks = rig.smallest.gpu.slug, memory.config.given.tensor_parallel_size
    taken = 0.0
    if memory.device.platform is not Platform.CPU:
        with calibrated_by(None):
            taken = context(memory.release, ranks, slug).value
    free = failure.available + int(taken)
    devices = tuple(replace(device, free_bytes=free) for device in rig.devices)
    return replace(rig, devices=devices)


def _missing(memory: MemoryPlan, failure: Failure) -> Iterator[Observation]:
    """That the pool was smaller than planned, as memory outside torch; so it comes out as it was.

    Of a GPU that ran out, that more than what was free was needed.
    """
    rank = memory.tightest
    on_cpu = memory.device.platform is Platform.CPU
    term = Term.CPU_PROCESS if on_cpu else Term.OUTSIDE_TORCH
    name = "" if on_cpu else non_torch_name(memory.rig, memory.device, memory.config.given)
    planned = rank.non_torch.value
    if memory.given_size_check is not None:
        if failure.kind is not FailureKind.OUT_OF_MEMORY or failure.needed is None:
            return
        more = memory.given_size_check.margin.value + failure.needed - (failure.available or 0)
    elif failure.kind is FailureKind.KV_ROOM and failure.available is not None:
        more = rank.kv_cache.value - failure.available
    elif failure.kind is FailureKind.OUT_OF_MEMORY and failure.needed is not None:
        more = failure.needed - (failure.available or 0)
    else:
        return
    yield Observation(term, name, max(_TINY, planned + more), planned, formula())
