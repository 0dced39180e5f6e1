"""Medusa and MLP speculators: a head for each drafted token, up to vLLM 0.32.0.

Both read the target's last hidden states. vLLM builds as many heads as tokens are drafted,
whatever the checkpoint holds (`num_lookahead_tokens` in config/speculative.py), and stops where a
parameter finds nothing to load.
"""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.card import Draft, Layer, ModelCard
from model_cards.modules import Embedding
from planner.engine.releases import Release
from planner.engine_config import SpeculativeConfig


def built_heads(draft: Draft, target: ModelCard, tokens: int, release: Release) -> Draft:
    """The heads as vLLM builds them; those of Medusa for the target's vocabulary."""
    draft = replace(draft, layers=draft.layers[:tokens])
    if draft.method != "medusa" or not release.fact("medusa_first_version"):
        return draft
    if draft.vocab_size == target.vocab_size:
        return draft
    layers = tuple(_with_rows(layer, target.vocab_size) for layer in draft.layers)
    return replace(draft, layers=layers, vocab_size=target.vocab_size)


def heads_problem(
    draft: ModelCard, target: ModelCard, given: SpeculativeConfig, release: Release
) -> str | None:
    """Why vLLM cannot draft with these heads, None if it can."""
    tokens, held = given.num_speculative_tokens, draft.num_layers
    if draft.head is None or draft.head.method != given.method:
        return f"{draft.model_id} is no draft for the speculative method {given.method!r}"
    if not draft.model_type and not release.fact("medusa_first_version"):
        return f"vLLM {release.name} cannot read a draft's config without model_type"
    if draft.hidden_size != target.hidden_size:
        return (
            f"the draft reads hidden states of {draft.hidden_size} features; the target's have "
            f"{target.hidden_size}"
        )
    if tokens <= held:
        return None
    if given.method == "mlp_speculator" and tokens % held:
        return f"num_speculative_tokens ({tokens}) must be divisible by n_predict ({held})"
    if given.method == "mlp_speculator" and _stages_are_tied(draft):
        return None
    return f"num_speculative_tokens ({tokens}) is more than the draft's {held} heads"


def ranks_with_heads(given: SpeculativeConfig) -> int | None:
    """Tensor-parallel ranks that the V0 engine splits heads over, the first ones; None: all."""
    if given.draft_tensor_parallel_size is None and given.method == "mlp_speculator":
        return 1
    return given.draft_tensor_parallel_size


def _with_rows(layer: Layer, rows: int) -> Layer:
    modules = (replace(m, rows=rows) if isinstance(m, Embedding) else m for m in layer.modules)
    return replace(layer, modules=tuple(modules))


def _stages_are_tied(draft: ModelCard) -> bool:
    """Whether stages after the first have no vocabulary matrix of their own."""
    further = [module for layer in draft.layers[1:] for module in layer.modules]
    return draft.num_layers > 1 and not any(isinstance(m, Embedding) for m in further)
