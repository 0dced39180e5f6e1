"""A replica under load: what one user and all users get at any concurrency.

The batch-level model of continuous batching. In the long run the engine's time goes into decode
steps and into prompts that are processed beside them, in chunks under the token budget:

    a request's cycle = answer x decode step + running requests x what a prompt adds to steps

A user waits part of the cycle for the first token (prompts ahead in the queue, the own prompt); the
rest is spread over the answer. tests/planner/speed holds it against vLLM's scheduler, simulated.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf, sqrt
from typing import Final

from msgspec import Struct

from planner.memory.plan import MemoryPlan
from planner.speed.constants import Constants
from planner.speed.step import StepModel, StepTime
from planner.workload import Workload

_FULL: Final = 0.98  # share of a cycle that prompts can take before the queue is all there is
_APART: Final = 0.25  # spread of answers from which on their ends do not come in bunches
_ROUNDS: Final = 40  # of halving, where a load is searched for


class Load(Struct, frozen=True):
    """A replica with so many users. Times in seconds, rates per second; averages all."""

    users: float  # requests at a time: running and waiting
    running: float
    tpot: float
    ttft: float | None  # None where the compute rate is not known
    requests: float  # finished per second
    step: StepTime  # of decoding alone, without drafts
    prompts_share: float  # of the time between tokens, spent on others' prompts
    preemption_risk: float  # chance that the cache is too small for those that run, at any moment

    @property
    def per_user(self) -> float:
        """Tokens per second that a user sees once the answer has begun."""
        return 1 / self.tpot


class LoadModel(Struct, frozen=True):
    """One data-parallel replica of a launch under one kind of request."""

    step: StepModel
    workload: Workload
    token_budget: int  # max_num_batched_tokens
    most_running: float  # what cache and max_num_seqs allow
    cache_tokens: float  # that the KV cache holds of requests of this length
    prefix_caching: bool
    gain: Callable[[float], float] | None = None  # of drafts, with so many running; None: no drafts

    @classmethod
    def of(
        cls,
        memory: MemoryPlan,
        workload: Workload,
        constants: Constants | None = None,
        *,
        legacy: bool = False,
        gain: Callable[[float], float] | None = None,
    ) -> LoadModel:
        """The launch under a workload. Raises `MissingFact` as `StepModel.of` does."""
        held = max(1, round(workload.decode_context))
        fitting = memory.expected_requests_at(held)
        budget = memory.config.max_num_batched_tokens
        if not memory.config.chunked_prefill:
            budget = max(budget, workload.prompt_tokens)
        return cls(
            StepModel.of(memory, constants, legacy=legacy),
            workload,
            budget,
            max(1.0, min(fitting, memory.config.max_num_seqs)),
            fitting * held,
            memory.config.prefix_caching,
            gain,
        )

    def decode_step(self, running: float) -> StepTime:
        """A step of so many requests that only decode; each pipeline stage has its part of them."""
        batch = max(1.0, running / self.step.stages)
        return self.step.seconds(batch, self.workload.decode_context)

    @property
    def new_tokens(self) -> float:
        """Tokens of a prompt that must be processed."""
        workload = self.workload
        return workload.new_prompt_tokens if self.prefix_caching else float(workload.prompt_tokens)

    def prompt_seconds(self, running: float) -> float:
        """Seconds that a prompt adds to the steps of `running` other requests; alone with 0."""
        workload, step = self.workload, self.step
        decoding = running / step.stages
        chunk = min(self.new_tokens, max(self.token_budget - decoding, 1.0))
        steps = self.new_tokens / chunk
        cached = workload.prompt_tokens - self.new_tokens
        # Attention grows with the square: long prompts weigh more than short ones.
        spread = 1 + workload.prompt_spread**2
        flops = spread * step.demand.prompt_attention_flops(workload.prompt_tokens, cached)
        mixed = step.seconds(
            decoding, workload.decode_context, 1, chunk, 1 / steps, flops / steps
        ).total
        without = self.decode_step(running).total if running else 0.0
        # Chunks follow each other through the stages of a pipeline.
        overlapped = 1.0 if not running else 1 / step.stages
        return float(steps * (mixed - without) * overlapped)

    def at(self, users: float, *, at_random: bool = False) -> Load:
        """The steady state with that many users, each of whom asks again once answered.

        Answers of like length end together, so that prompts come in bunches; not if requests come
        `at_random`.
        """
        running = min(users, self.most_running)
        answer = self.workload.output_tokens
        decode = self.decode_step(running)
        token = float(decode.total) / (self.gain(running) if self.gain is not None else 1.0)
        added = self.prompt_seconds(running)
        added *= self._in_lockstep(running * added / (answer * token + running * added))
        cycle = answer * token + running * added
        busy = min(_FULL, running * added / cycle)
        ahead = max(0.0, running - 1)
        spread = min(1.0, self.workload.output_spread / _APART)
        bunching = 0.0 if at_random else self.step.constants["bunching"] * (1 - spread)
        # Of one server with a fixed time for each, or on average half of all who came together.
        queue = min(busy / (2 * (1 - busy)), ahead) * (1 - bunching) * added
        queue += bunching * ahead / 2 * added
        others = max(0.0, ahead * added - queue)
        tpot = token + others / answer
        ttft = None
        waiting = 0.0
        if self.step.hardware.rates:
            waiting = queue + decode.total / 2 if running > 1 else 0.0
            overhead = self.step.constants["first_token_seconds"]
            ttft = self.prompt_seconds(0.0) + waiting + overhead
            if users > running:
                ttft += (users / running - 1) * cycle
        return Load(
            users,
            running,
            tpot,
            ttft,
            running / cycle,
            decode,
            others / answer / tpot,
            self.preemption_risk(running),
        )

    def _in_lockstep(self, busy: float) -> float:
        """How much longer prompts hold up a replica whose experts others use, too.

        All step together, so each waits for any that processes a prompt: if every one does for a
        share b of its time, at random, one of n does for 1 - (1 - b)^n. The work of the experts is
        spread over all of them as it is.
        """
        demand = self.step.demand
        if demand.replicas == 1 or busy <= 0:
            return 1.0
        flops = sum(matrices.flops_per_token for matrices in demand.matrices)
        spread = sum(m.flops_per_token for m in demand.matrices if m.part == "experts") / flops
        any_busy = 1 - (1 - busy) ** demand.replicas
        return spread + (1 - spread) * any_busy / busy

    def at_rate(self, rate: float) -> Load | None:
        """The steady state when `rate` requests come each second; None if they pile up.

        Little's law: those inside are the rate times how long a request takes.
        """
        if self.at(self.most_running, at_random=True).requests <= rate:
            return None

        def short(users: float) -> bool:
            return self.at(users, at_random=True).requests < rate

        return self.at(_crossing(short, 1e-6, self.most_running), at_random=True)

    def most_users(self, tpot: float | None, ttft: float | None) -> float:
        """The largest number of users with which both times are kept; 0 if none can."""

        def kept(users: float) -> bool:
            load = self.at(users)
            slow = tpot is not None and load.tpot > tpot
            late = ttft is not None and (load.ttft is None or load.ttft > ttft)
            return not slow and not late

        if not kept(1):
            return 0.0
        most = 1.0
        while kept(2 * most) and 2 * most <= self.most_running:
            most *= 2
        return _crossing(kept, most, min(2 * most, self.most_running))

    def preemption_risk(self, running: float) -> float:
        """Chance that requests at random points of their answers need more than the cache holds."""
        workload = self.workload
        mean = running * workload.decode_context
        answer, prompt = workload.output_tokens, workload.prompt_tokens
        # Uniform progress through answers that vary, on prompts that vary.
        second = answer**2 * (1 + workload.output_spread**2) / 3
        progress = second - (answer * (1 + workload.output_spread**2) / 2) ** 2
        variance = running * (max(0.0, progress) + (prompt * workload.prompt_spread) ** 2)
        margin = self.cache_tokens - mean
        if variance <= 0 or running <= 1:
            return 0.0 if margin >= 0 else 1.0
        most = running * (prompt + answer) if not workload.output_spread else float("inf")
        if not workload.prompt_spread and most <= self.cache_tokens:
            return 0.0
        return 0.5 * (1 - erf(margin / sqrt(2 * variance)))


def _crossing(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest value between the two for which `holds`, which it does at `low`."""
    if holds(high):
        return high
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
