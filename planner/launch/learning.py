"""What a launch teaches: its measured terms beside what the fitted constants alone would say."""

from __future__ import annotations

from collections.abc import Iterator

from planner.calibration import Observation, Term, calibrated_by, formula
from planner.diagnosis.check import Check, check_command
from planner.engine.device import Platform
from planner.launch.facts import LaunchFacts, RankFacts
from planner.launch.probe import Probe
from planner.memory.free_memory import context
from planner.memory.plan import MemoryPlan, RankMemory, non_torch_name
from planner.speed.measured import subject_of
from planner.speed.serving import predict_speed
from planner.speed.step import MissingFact


def observe(check: Check, facts: LaunchFacts, probe: Probe | None) -> tuple[Observation, ...]:
    """The terms of a launch that were measured, each of the rank that has most of it."""
    with calibrated_by(None):
        fitted = check_command(check.command, check.rig).memory
        return tuple(_observations(fitted, facts, probe)) if fitted is not None else ()


def _observations(
    fitted: MemoryPlan, facts: LaunchFacts, probe: Probe | None
) -> Iterator[Observation]:
    def seen(term: Term, subject: str, measured: float | None, planned: float) -> Observation:
        assert measured is not None
        return Observation(term, subject, measured, planned, formula())

    rank = max(fitted.ranks, key=lambda rank: rank.weights.value)
    beside = facts.largest(lambda told: _beside_the_model(told, rank))
    if fitted.device.platform is Platform.CPU:
        process = facts.largest(lambda told: _beside_everything(told, rank))
        if process is not None and process > 0:
            yield seen(Term.CPU_PROCESS, "", process, rank.non_torch.value)
        return
    said = facts.largest(lambda told: told.non_torch)
    outside = said if said is not None else beside
    if (
        outside is not None
        and outside > 0
        and not fitted.release.fact("context_inside_utilization")
    ):
        yield seen(
            Term.OUTSIDE_TORCH,
            non_torch_name(fitted.rig, fitted.device, fitted.config.given),
            outside,
            rank.non_torch.value,
        )
    activation = facts.largest(lambda told: told.activation)
    planned = max(rank.activation.value for rank in fitted.ranks)
    if activation is not None and planned > 0:
        yield seen(Term.ACTIVATION, fitted.card.architecture, activation, planned)
    graphs = facts.largest(lambda told: told.graphs_estimated)
    planned = max(rank.cuda_graphs.value for rank in fitted.ranks)
    if graphs is not None and planned > 0:
        yield seen(Term.CUDA_GRAPHS, "", graphs, planned)
    yield from _context(fitted, facts)
    yield from _speed(fitted, probe)


def _beside_the_model(told: RankFacts, rank: RankMemory) -> int | None:
    """Outside torch, where only its sum with the weights is said."""
    if told.consumed is None or told.weights is None:
        return None
    return told.consumed - told.weights - (rank.buffers.total - rank.buffers.model)


def _beside_everything(told: RankFacts, rank: RankMemory) -> int | None:
    if told.consumed is None:
        return None
    return told.consumed - round(rank.weights.value) - rank.buffers.total


def _context(fitted: MemoryPlan, facts: LaunchFacts) -> Iterator[Observation]:
    """What was free by NVML before, less what vLLM then found; other programs keep still."""
    slot, ranks = fitted.rig.smallest, fitted.config.given.tensor_parallel_size
    found = facts.smallest(lambda told: told.free)
    if not slot.live or slot.free_bytes is None or found is None or found >= slot.free_bytes:
        return
    planned = context(fitted.release, ranks, slot.gpu.slug).value
    subject = "one rank" if ranks == 1 else "several ranks"
    yield Observation(Term.CONTEXT, subject, slot.free_bytes - found, planned, formula())


def _speed(fitted: MemoryPlan, probe: Probe | None) -> Iterator[Observation]:
    """One user's times."""
    levels = probe.levels if probe is not None else ()
    alone = next((each for each in levels if each.level.concurrency == 1), None)
    if alone is None:
        return
    try:
        speed = predict_speed(fitted, alone.level.workload)
    except MissingFact:
        return
    subject = subject_of(fitted)
    if alone.median_tpot is not None:
        yield Observation(Term.TPOT, subject, alone.median_tpot, speed.tpot.value, formula())
    if speed.ttft is not None:
        yield Observation(Term.TTFT, subject, alone.median_ttft, speed.ttft.value, formula())
