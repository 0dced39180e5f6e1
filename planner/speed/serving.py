"""What a workload gets of a launch: TPOT, TTFT, tokens per second, at the load that was asked.

The physical ceiling, bytes over bandwidth, is given beside it and bounds every band.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from planner.errors import PlanError
from planner.memory.plan import MemoryPlan
from planner.quantity import Quantity
from planner.speed.bands import first_token_band, time_band
from planner.speed.load import Load, LoadModel
from planner.speed.measured import measured_times
from planner.turns import give_way
from planner.workload import Workload

_SOURCE = "step-time model"


class SpeedEstimate(Struct, frozen=True):
    """Speed of a launch under a workload. Times in seconds, rates in tokens per second."""

    workload: Workload
    tpot: Quantity
    ttft: Quantity | None  # with an empty queue; None where the compute rate is not known
    ttft_loaded: Quantity | None  # at the load that was asked for
    per_user: Quantity
    total: Quantity
    ceiling_per_user: float  # bytes over bandwidth: no step can be faster
    bound_by: str  # what takes most of a step
    admitted: float  # requests of this length that the cache holds at once
    running: float  # requests that run at once, on all replicas together
    preemption_risk: float  # chance that the cache is too small for them at any moment
    notes: tuple[str, ...]


def predict_speed(memory: MemoryPlan, workload: Workload, *, task: str = "chat") -> SpeedEstimate:
    """Speed of a planned launch; `task` says what its drafts, if it has any, have to guess.

    Raises `MissingFact` where there is no step to time (`StepModel.of`), and `PlanError` for a
    request rate that the launch cannot answer. Where the cache holds fewer requests than the
    workload sends at once, the rest wait: speed is that of those that run.
    """
    give_way()
    drafts = Drafting.of(memory, workload, task)
    model = LoadModel.of(memory, workload, gain=drafts.value)
    load = load_of(model, workload, replicas(memory))
    return estimate(memory, model, load, workload, drafts)


class Drafting(Struct, frozen=True):
    """What speculative decoding does to a launch's steps; nothing without."""

    gain: Callable[[float], Quantity] | None = None  # times faster, with so many running
    most_tokens: int = 1  # that one step can emit for a request
    about: tuple[str, str] = ("", "")  # what drafts, what is guessed

    @classmethod
    def of(cls, memory: MemoryPlan, workload: Workload, task: str) -> Drafting:
        """The drafting of a plan. Raises `MissingFact` where verifying cannot be timed."""
        found = memory.config.speculation
        if found is None:
            return cls()
        from planner.speed.speculative import SpeculativeModel, acceptance_for  # few launches do

        tokens, expected = found.num_speculative_tokens, acceptance_for(memory, task)
        model = SpeculativeModel.of(memory)

        def gain(running: float) -> Quantity:
            return model.gain(running, workload.decode_context, tokens, expected)

        return cls(gain, 1 + tokens, (f"{found.method} with {tokens} tokens drafted a step", task))

    @property
    def value(self) -> Callable[[float], float] | None:
        """The gain without its band."""
        gain = self.gain
        return None if gain is None else lambda running: gain(running).value

    def at(self, running: float) -> Quantity:
        """The gain with so many running."""
        return Quantity.exact(1.0) if self.gain is None else self.gain(running)

    def notes(self, running: float) -> tuple[str, ...]:
        """What the reader must know."""
        if self.gain is None:
            return ()
        gain, (what, task) = self.gain(running), self.about
        return (
            f"{what} is {gain.value:.2f} [{gain.low:.2f}-{gain.high:.2f}] times as fast as no "
            f"drafts, on {task}",
        )


_NO_DRAFTS = Drafting()


def replicas(memory: MemoryPlan) -> int:
    """Data-parallel replicas of a launch."""
    return memory.config.given.data_parallel_size


def load_of(model: LoadModel, workload: Workload, count: int) -> Load:
    """The load of one of `count` replicas. Raises `PlanError` for a rate that is too high."""
    if workload.request_rate is None:
        return model.at(max(1.0, workload.concurrency / count))
    load = model.at_rate(workload.request_rate / count)
    if load is None:
        most = count * model.at(model.most_running).requests
        raise PlanError(
            f"{workload.request_rate:g} requests a second are more than the {most:.3g} that this "
            "launch can answer: they would pile up"
        )
    return load


def estimate(
    memory: MemoryPlan,
    model: LoadModel,
    load: Load,
    workload: Workload,
    drafts: Drafting = _NO_DRAFTS,
) -> SpeedEstimate:
    """What a replica's load means for users, with bands."""
    count = float(replicas(memory))
    if workload.request_rate is None:  # more replicas than users: the others are idle
        count = min(count, workload.concurrency)
    ceiling = float(load.step.ceiling) / drafts.most_tokens
    gain = drafts.at(load.running)
    band = time_band(memory, load.running).widened(gain)
    predicted = band.around(load.tpot, ceiling, _SOURCE)
    alone = _first_token(memory, model.at(1.0).ttft, 1.0)
    loaded = _first_token(memory, load.ttft, load.users)
    tpot, alone = measured_times(memory, predicted, alone, ceiling)
    _, loaded = measured_times(memory, predicted, loaded, ceiling)
    per_user = inverse(tpot)
    # While a user waits for the first token, nothing of the answer comes.
    answering = load.requests * model.workload.output_tokens * load.tpot
    return SpeedEstimate(
        workload=workload,
        tpot=tpot,
        ttft=alone,
        ttft_loaded=loaded,
        per_user=per_user,
        total=per_user.times(count * answering),
        ceiling_per_user=1 / ceiling,
        bound_by=bound_by(load),
        admitted=replicas(memory) * memory.expected_requests_at(workload.total_tokens),
        running=load.running * count,
        preemption_risk=load.preemption_risk,
        notes=(*_notes(load, count), *drafts.notes(load.running)),
    )


def inverse(time: Quantity) -> Quantity:
    """A rate of a time, or the other way round, with its band."""
    return Quantity(1 / time.value, 1 / time.high, 1 / time.low, time.basis, time.source)


def _first_token(memory: MemoryPlan, seconds: float | None, users: float) -> Quantity | None:
    if seconds is None:
        return None
    return first_token_band(memory, users).around(seconds, 0.0, _SOURCE)


def bound_by(load: Load) -> str:
    """What takes most of the time between tokens."""
    step = load.step
    times = {
        "reading weights": step.weights,
        "compute": step.compute,
        "reading the KV cache": step.kv,
        "fixed time per layer": step.fixed,
        "communication": step.communication,
        "prefill of other requests": load.prompts_share * load.tpot,
    }
    return max(times, key=lambda name: float(times[name]))


def _notes(load: Load, count: float) -> tuple[str, ...]:
    notes = []
    if load.running < load.users:
        running, users = int(load.running * count), round(load.users * count)
        notes.append(f"only {running} of {users} requests run at once; the rest wait")
    if load.ttft is None:
        notes.append("compute rate not known: no time to first token, no compute limit")
    return tuple(notes)
