"""What drafting costs: passes of the draft, and what each pass reads, computes and waits for.

Small drafts do not run at the speed of memory: every pass launches kernels, samples, and prepares
the next one. Constants and their source: data/speculation.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from model_cards.card import Draft, Layer, count_elements, module_bytes
from model_cards.modules import Experts, Module
from planner.engine.speculative import WITHOUT_DRAFT, Speculation
from planner.memory.plan import MemoryPlan
from planner.speed.amounts import Amount
from planner.speed.constants import speed_constants
from planner.speed.demand import CacheReads, DrawnWeights, cache_reads
from planner.speed.step import StepModel

# Methods that find tokens in the text so far: they propose only where they find a match.
MATCHING: Final = WITHOUT_DRAFT


class DraftModel(Struct, frozen=True):
    """A draft at work on one rank. Seconds, bytes and operations of one pass, unless named."""

    kind: str  # the method, with how it drafts: `peagle`, `pard`
    parallel: bool  # one pass writes all tokens; else one pass for each
    always_read: float  # bytes of weights
    drawn: DrawnWeights | None  # routed experts of an MTP layer
    caches: tuple[CacheReads, ...]
    flops_per_token: float
    fixed: float  # seconds of launches, sampling and collectives
    step_fixed: float  # seconds that every speculative step takes longer, whatever is drafted
    request_fixed: float  # and more for every request
    plain_share: float  # and this share of a plain step: states of recurrent layers are kept apart

    @classmethod
    def of(cls, memory: MemoryPlan, step: StepModel) -> DraftModel:
        """The draft of a plan with speculation."""
        found = memory.config.speculation
        assert found is not None
        costs = drafting_costs()
        kind = drafting_kind(found.method, found.parallel_drafting)
        fixed = costs["step_seconds"].get(kind, costs["step_seconds"]["default"])
        overlapped = "asynchronous" if memory.config.async_scheduling else "synchronous"
        per_request = costs["request_seconds"][overlapped]
        share = costs["recurrent_share"] if memory.card.states else 0.0
        if found.draft is None:
            return cls(kind, True, 0.0, None, (), 0.0, 0.0, fixed, per_request, share)
        weights = _Weights.of(memory, found.draft)
        passes = _modules(found)
        return cls(
            kind,
            found.parallel_drafting or found.writes_blocks,
            weights.dense / passes + weights.head,
            DrawnWeights(weights.experts / passes, weights.active) if weights.experts else None,
            tuple(cache_reads(_one_of(found.attention_layers(), passes), memory)),
            2.0 * weights.elements / passes / memory.config.given.tensor_parallel_size,
            _pass_seconds(memory, step, found, kind, passes),
            fixed,
            per_request,
            share,
        )

    def proposed(self, first: float) -> float:
        """Share of steps in which it proposes anything, accepted at that rate over all steps."""
        if self.kind not in MATCHING:
            return 1.0
        return min(1.0, first / float(drafting_costs()["accepted_where_matched"]))

    def seconds(self, step: StepModel, batch: Amount, context: Amount, tokens: Amount) -> Amount:
        """Seconds of drafting `tokens` for each of `batch` requests of mean length `context`."""
        constants = speed_constants()
        passes = 1.0 if self.parallel else tokens
        at_once = batch * tokens if self.parallel else batch
        read: Amount = self.always_read
        if self.drawn is not None:
            read = read + self.drawn.bytes * self.drawn.touched(
                at_once, constants["expert_draw_exponent"]
            )
        cached: Amount = 0.0
        for reads in self.caches:
            cached = cached + batch * reads.bytes(context)
        one = (
            read / (constants["weight_efficiency"]["16bit"] * step.bandwidth)
            + cached / (constants["kv_efficiency"] * step.bandwidth)
            + step.compute_seconds(self.flops_per_token * at_once)
            + self.fixed
        )
        drafting = passes * one if self.always_read else 0.0
        return drafting + self.step_fixed + self.request_fixed * batch


def drafting_kind(method: str, parallel: bool) -> str:
    """The method by the name that tells heads and models trained to draft in parallel apart."""
    return {"eagle3": "peagle", "draft_model": "pard"}.get(method, method) if parallel else method


@cache
def drafting_costs() -> dict[str, Any]:
    """The constants as fitted."""
    path = Path(__file__).parent / "data" / "speculation.json"
    table: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return table


class _Weights(Struct, frozen=True):
    """A draft's weights on one rank that its passes read, and the parameters of a token."""

    dense: float
    head: float
    experts: float
    active: float
    elements: float

    @classmethod
    def of(cls, memory: MemoryPlan, draft: Draft) -> _Weights:
        parts, width = memory.ranks[-1].parts, memory.config.dtype_bytes
        ranks = memory.config.given.tensor_parallel_size
        modules = [*_of_layers(draft.layers), *draft.modules]
        experts = [module for module in modules if isinstance(module, Experts)]
        others = [module for module in modules if not isinstance(module, Experts)]
        routed = sum(module_bytes(module, width) for module in experts)
        whole = routed + sum(module_bytes(module, width) for module in others)
        held = float(parts.draft)
        head_elements = 0
        head = 0.0
        # The vocabulary matrices: one that is embedded with is not read, that of the output is.
        if draft.own_embedding and draft.embedding is not None:
            held -= module_bytes(draft.embedding, width) / ranks
        if draft.lm_head is not None and draft.own_lm_head:
            head = module_bytes(draft.lm_head, width) / ranks
            head_elements = draft.lm_head.elements
            held -= head
        elif draft.own_embedding and draft.embedding is not None:  # tied
            head = module_bytes(draft.embedding, width) / ranks
            head_elements = draft.embedding.elements
        else:
            head = float(parts.lm_head or parts.embedding)
            head_elements = (memory.card.lm_head or memory.card.embedding).elements
        held = max(0.0, held)
        share = routed / whole if whole else 0.0
        active = experts[0].active / experts[0].count if experts else 0.0
        return cls(
            dense=held * (1 - share),
            head=head,
            experts=held * share,
            active=active,
            elements=count_elements(others) + active * count_elements(experts) + head_elements,
        )


def _of_layers(layers: Iterable[Layer]) -> list[Module]:
    return [module for layer in layers for module in layer.modules]


def _modules(found: Speculation) -> int:
    """MTP modules that take turns, each in a pass of its own; 1 where a pass runs all layers."""
    chained = found.method == "mtp" and found.draft is not None and found.retained_tokens > 0
    return len(found.draft.layers) if chained and found.draft is not None else 1


def _one_of(layers: tuple[Any, ...], passes: int) -> tuple[Any, ...]:
    """The layers that a pass attends in."""
    return layers[: max(1, len(layers) // passes)]


def _pass_seconds(
    memory: MemoryPlan, step: StepModel, found: Speculation, kind: str, passes: int
) -> float:
    """Launches of a pass: its layers as the target's, then sampling and the next pass's inputs."""
    assert found.draft is not None
    constants, costs = speed_constants(), drafting_costs()
    layers = max(1, len(found.draft.layers) // passes)
    per_layer = float(constants["layer_seconds"])
    # Model Runner V2 runs a draft that is a model of its own without CUDA graphs.
    apart = found.method == "draft_model" and memory.config.model_runner_v2
    if apart or not memory.config.cudagraph_sizes:
        per_layer += constants["eager_layer_seconds"]
    collectives = step.collective_start * layers / memory.card.num_layers
    overhead: float = costs["pass_seconds"].get(kind, costs["pass_seconds"]["default"])
    return layers * per_layer + collectives + overhead
