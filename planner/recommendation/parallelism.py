"""Why a pick runs as replicas, or as one engine over all its GPUs: what each comes to."""

from __future__ import annotations

from planner.recommendation.requirements import Objective
from planner.recommendation.search import Candidate, Search
from planner.recommendation.settle import Settled, Unfit
from planner.speed.load import LoadModel
from planner.speed.step import StepTime

# Parts of a step that take less than this share of it explain nothing.
_WORTH_A_WORD = 0.1
_ALIKE = 1.01  # times as many tokens a second, up to which two are equally fast


def replicas_or_not(found: Search) -> tuple[str, ...]:
    """Data parallelism against the best layout without it: a sentence, then what each comes to.

    Empty where there is no choice: on one GPU, or where the objective knows no replicas.
    """
    pick, aim = found.pick, found.requirements.aim
    if pick is None or pick.settled.memory.rig.gpu_count == 1:
        return ()
    if aim in (Objective.LATENCY, Objective.CONTEXT):
        return ()
    mine = [one for one in found.candidates if one.variant is pick.variant]
    replicas = _quickest([one for one in mine if one.settled.layout.data > 1])
    single = _quickest([one for one in mine if one.settled.layout.data == 1])
    if pick.settled.layout.data > 1:
        replicas = pick
    elif pick.settled.speed is not None:
        single = pick
    if replicas is None:
        return _none(found)
    if single is None:
        return (f"Only replicas do as asked, not one engine over {replicas.settled.gpus} GPUs.",)
    faster, slower = sorted((replicas, single), key=_total, reverse=True)
    ratio = _total(faster) / _total(slower)
    if ratio < _ALIKE:
        head = f"{faster.settled.layout} and {slower.settled.layout} are equally fast"
        return f"{head}:", _said(faster.settled), _said(slower.settled)
    more = f"{100 * (ratio - 1):.0f} % more" if ratio < 2 else f"{ratio:.1f} times as many"
    than = "than" if ratio < 2 else "as"
    head = f"{faster.settled.layout} writes {more} tokens a second {than} {slower.settled.layout}"
    if faster is replicas and pick is not replicas and replicas.settled.layout.expert:
        head += ", too little to trust an estimate that no measurement backs"
    wait = "; replicas that share experts wait for any that reads a prompt"
    shared = wait if replicas.settled.layout.expert else ""
    return f"{head}{shared}:", _said(faster.settled), _said(slower.settled)


def _none(found: Search) -> tuple[str, ...]:
    """Why no replicas were among the candidates."""
    assert found.pick is not None
    unfit = [one for one in found.unfit if one.layout is not None and one.layout.data > 1]
    if unfit:
        nearest: Unfit = min(unfit, key=lambda one: (one.nearest is None, one.excess_bytes))
        return (f"No replicas: {nearest.layout} {nearest.shortage}.",)
    wanted, gpus = found.requirements.workload.concurrency, found.pick.settled.gpus
    if wanted == 1 and gpus > 1:
        return ("No replicas (--data-parallel-size): they answer no single request sooner.",)
    return ()


def _total(candidate: Candidate) -> float:
    speed = candidate.settled.speed
    return speed.total.value if speed is not None else 0.0


def _quickest(candidates: list[Candidate]) -> Candidate | None:
    """The one that writes the most tokens a second."""
    return max((one for one in candidates if one.settled.speed), key=_total, default=None)


def _said(settled: Settled) -> str:
    """A layout, what it serves, and where the time of its steps goes."""
    speed, layout = settled.speed, settled.layout
    assert speed is not None
    load = LoadModel.of(settled.memory, speed.workload).at(
        max(1.0, speed.workload.concurrency / layout.data)
    )
    running = load.running / layout.pipeline  # the stages work on different requests
    requests = f"{running:.0f} request{'s' if round(running) != 1 else ''}"
    each = " of each replica" if layout.data > 1 else ""
    return (
        f"{layout}: {speed.total.value:,.0f} tok/s in total; a step with {requests}"
        f"{each} takes {1e3 * float(load.step.total):.1f} ms ({_parts(load.step)}); "
        f"{settled.tokens_held:,} tokens in cache"
    )


def _parts(step: StepTime) -> str:
    parts = {
        "weights": step.weights,
        "compute": step.compute,
        "cache": step.kv,
        "layers": step.fixed,
        "exchange between GPUs": step.communication,
    }
    total = float(step.total)
    large = [(float(time), name) for name, time in parts.items() if time > _WORTH_A_WORD * total]
    return ", ".join(f"{name} {1e3 * time:.1f}" for time, name in sorted(large, reverse=True))
