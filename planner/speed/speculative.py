"""How much faster a launch gets by speculative decoding, and where that ends.

    speed-up = acceptance length x plain step / (verification + drafting)

Verification is a decode step with 1 + k tokens for each request: the cache is read once, all tokens
are computed, and they visit more experts. Reading weights and computing are added, not the longer
of the two taken: that is what published batch sweeps show (5 to 7 % mean error, against 19 to 23).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, hypot, log
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from planner.errors import PlanError
from planner.memory.plan import MemoryPlan
from planner.quantity import Basis, Quantity
from planner.speed.acceptance import (
    Acceptance,
    ExpectedAcceptance,
    expected_acceptance,
)
from planner.speed.amounts import Amount
from planner.speed.drafting import DraftModel, drafting_costs, drafting_kind
from planner.speed.step import MissingFact, StepModel, StepTime
from planner.turns import give_way

WORTH_IT: Final = 1.1  # a gain below this is not worth a draft's memory and risks
LARGEST_BATCH: Final = 1024  # as far as a break-even is looked for
_BATCHES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768)


class SpeculativeModel(Struct, frozen=True):
    """A plan with speculation: its steps, plain and speculative."""

    step: StepModel
    draft: DraftModel
    time_band: float  # share by which the ratio of the steps may be off
    basis: Basis

    @classmethod
    def of(cls, memory: MemoryPlan) -> SpeculativeModel:
        """The speculation of a plan.

        Raises `PlanError` for a plan without, `MissingFact` where there is no step to time
        (`StepModel.of`) or no compute rate: what verifying costs is not known then.
        """
        if memory.config.speculation is None:
            raise PlanError("the plan has no speculative decoding")
        step = StepModel.of(memory)
        if not step.compute_seconds(1.0):
            name = memory.rig.smallest.gpu.name
            raise MissingFact(f"the compute rate of {name} is not known: no speed of verification")
        card, bands = memory.card, drafting_costs()["time_bands"]
        kind = "recurrent" if card.states else "sparse" if card.is_moe else "dense"
        # Of dense models many launches were measured, of others few.
        basis = Basis.CALIBRATED if kind == "dense" else Basis.ESTIMATED
        return cls(step, DraftModel.of(memory, step), bands[kind], basis)

    def plain_seconds(self, batch: Amount, context: Amount) -> Amount:
        """A step without drafts."""
        return _added(self.step.seconds(batch, context))

    def seconds(self, batch: Amount, context: Amount, tokens: Amount, first: float = 1.0) -> Amount:
        """A step that drafts and verifies `tokens` for each of `batch` requests.

        `first` is the rate of the first token: where a match is found less often, less is verified.
        """
        drafted = tokens * self.draft.proposed(first)
        verified = self.step.seconds(batch, context, 1 + drafted)
        # Tokens of one text choose much the same experts.
        draws = batch * (1 + drafting_costs()["own_experts"] * drafted)
        total = _added(replace(verified, weights=self.step.weight_seconds(draws)))
        if self.draft.plain_share:
            total = total + self.draft.plain_share * self.plain_seconds(batch, context)
        return total + self.draft.seconds(self.step, batch, context, tokens)

    def speedup(
        self, batch: Amount, context: Amount, tokens: Amount, acceptance: Acceptance
    ) -> Amount:
        """Times faster than the same launch without drafts, for users and in total.

        Batch, context and tokens may be arrays that broadcast; `tokens` are whole numbers.
        """
        give_way()
        plain = self.plain_seconds(batch, context)
        speculative = self.seconds(batch, context, tokens, acceptance.first)
        return acceptance.length(tokens) * plain / speculative

    def gain(
        self, batch: float, context: float, tokens: int, expected: ExpectedAcceptance
    ) -> Quantity:
        """The speed-up with its band: what acceptance and the step's time leave open."""
        value, least, most = (
            float(self.speedup(batch, context, tokens, each))
            for each in (expected.likely, expected.low, expected.high)
        )
        off = log(1 + self.time_band)
        low = value * exp(-hypot(log(value / least), off))
        high = value * exp(hypot(log(most / value), off))
        basis = max(self.basis, expected.basis)
        return Quantity(value, low, high, basis, expected.source)

    def best_tokens(
        self, batch: float, context: float, acceptance: Acceptance, choices: Sequence[int]
    ) -> int:
        """The number of drafted tokens with the largest speed-up."""
        return max(choices, key=lambda k: float(self.speedup(batch, context, k, acceptance)))

    def break_even(
        self, context: float, tokens: int, acceptance: Acceptance, largest: int = LARGEST_BATCH
    ) -> int:
        """The largest batch up to `largest` that is no slower with drafts; 0 if none is."""

        def pays(batch: int) -> bool:
            return float(self.speedup(batch, context, tokens, acceptance)) >= 1

        steps = [batch for batch in _BATCHES if batch < largest] + [largest]
        paying = [place for place, batch in enumerate(steps) if pays(batch)]
        if not paying:
            return 0
        if paying[-1] == len(steps) - 1:
            return largest
        low, high = steps[paying[-1]], steps[paying[-1] + 1]
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if pays(middle) else (low, middle)
        return low

    def schedule(
        self, context: float, acceptance: Acceptance, choices: Sequence[int], largest: int
    ) -> tuple[tuple[int, int, int], ...]:
        """(fewest requests, most requests, tokens) from 1 to `largest`: the best by batch size.

        No tokens where none gains anything. More requests never get more tokens.
        """
        ranges: list[tuple[int, int, int]] = []
        fewest, most_tokens = 1, max(choices)
        for batch in [*(each for each in _BATCHES if each < largest), largest]:
            allowed = [k for k in choices if k <= most_tokens]
            best = self.best_tokens(batch, context, acceptance, allowed) if allowed else 0
            if best and float(self.speedup(batch, context, best, acceptance)) < 1:
                best = 0
            if ranges and ranges[-1][2] == best:
                ranges[-1] = (ranges[-1][0], batch, best)
            else:
                ranges.append((fewest, batch, best))
            fewest, most_tokens = batch + 1, best
        return tuple(ranges)


def acceptance_for(memory: MemoryPlan, task: str, temperature: float = 0.0) -> ExpectedAcceptance:
    """What the draft of a plan is accepted on a kind of text."""
    found, given = memory.config.speculation, memory.config.given.speculative_config
    assert found is not None
    assert given is not None
    return expected_acceptance(
        drafting_kind(found.method, found.parallel_drafting),
        task,
        temperature=temperature,
        parameters=memory.card.parameters,
        draft=given.model,
        target=memory.card.model_id,
    )


def _added(time: StepTime) -> Amount:
    return time.weights + time.compute + time.kv + time.fixed + time.communication
