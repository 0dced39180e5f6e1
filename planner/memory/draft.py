"""Weights of a draft: built whole on the last pipeline stage, split over the target's ranks.

vLLM shares the target's vocabulary matrices with a head that has none of its own, and one rotary
table between models whose tables are the same.
"""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.card import ModelCard
from planner.engine.refusal import RefusalKind, Unloadable
from planner.engine.speculative import Speculation
from planner.memory.parallel import stage_layers
from planner.memory.weights import (
    Layout,
    expert_map_bytes,
    module_bytes,
    rotary_bytes,
    rotary_tables,
)


class Unreadable(Unloadable):
    """A draft that vLLM's class cannot read."""

    kind = RefusalKind.SPECULATION


def draft_bytes(card: ModelCard, speculation: Speculation | None, layout: Layout) -> int:
    """Weights and buffers of the draft on one rank of the last stage.

    Raises `Unreadable` where vLLM cannot load it.
    """
    if speculation is None or speculation.draft is None:
        return 0
    draft = speculation.draft
    if draft.unreadable is not None:
        raise Unreadable(f"vLLM cannot load the draft: {draft.unreadable}")
    if speculation.ranks is not None:
        layout = replace(layout, tensor_parallel_size=speculation.ranks)
    modules = [module for layer in draft.layers for module in layer.modules]
    modules += [*draft.modules, *(module for tower in draft.towers for module in tower.modules)]
    if draft.own_embedding and draft.embedding is not None:
        modules.append(draft.embedding)
    apart = layout.pipeline_parallel_size > 1 and not _embeds_on_last_stage(card)
    if apart and speculation.shares_embedding:
        if not card.embedding_for_drafts and not draft.own_embedding:
            raise Unreadable("the draft needs the model's embedding, on the first pipeline stage")
        modules.append(card.embedding)  # the target's own is on the first stage
    if draft.own_lm_head and draft.lm_head is not None:
        modules.append(draft.lm_head)
    tables = set(draft.rotary) | {table for tower in draft.towers for table in tower.rotary}
    tables |= {table for layer in draft.layers for table in layer.rotary}
    last = stage_layers(card, layout.pipeline_parallel_size)[-1]
    tables -= set(rotary_tables(card, last))
    tables -= {table for tower in card.towers for table in tower.rotary}
    total = sum(module_bytes(module, layout) for module in modules)
    total += expert_map_bytes(draft.layers, layout)
    return total + sum(rotary_bytes(table, layout) for table in tables)


def _embeds_on_last_stage(card: ModelCard) -> bool:
    return card.embedding_on_every_stage or card.tied
