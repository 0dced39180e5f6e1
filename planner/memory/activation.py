"""The activation peak of vLLM's profile run: the largest of the passes it makes.

vLLM runs a dummy batch of `max_num_batched_tokens` tokens through the layers, then samples one
row for each of `max_num_seqs` requests, or pools the whole batch. On most launches the sampler is
the peak: its buffers are requests x vocabulary, not split over ranks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from model_cards.card import ModelCard
from model_cards.modules import Experts
from planner.engine.defaults import ResolvedConfig
from planner.engine.releases import Release
from planner.memory.constants import constant
from planner.quantity import Basis, Quantity, total

_FP32_BYTES: Final = 4
_POOLER_BAND: Final = 0.5  # not measured


def activation_peak(
    card: ModelCard, config: ResolvedConfig, release: Release, *, last_stage: bool
) -> Quantity:
    """Bytes of transient activations at the peak of the profile run."""
    text = text_pass(card, config, release)
    if not last_stage:  # no sampler before the last pipeline stage
        return text
    last = pooler_pass(card, config) if config.pooling else sampler_pass(card, config, release)
    return last if last.value >= text.value else text


def sampler_pass(card: ModelCard, config: ResolvedConfig, release: Release) -> Quantity:
    """Logits of one row per request over the whole vocabulary, with the sampler's copies.

    The workspaces of an MoE model's fused kernel are still allocated then.
    """
    name = "sampler_bytes_per_logit_v2" if config.model_runner_v2 else "sampler_bytes_per_logit"
    rows = min(config.max_num_seqs, config.max_num_batched_tokens)
    logits = constant(name, release).times(rows * card.vocab_size)
    hidden = config.max_num_batched_tokens * card.hidden_size * config.dtype_bytes
    peak = total((logits, Quantity.exact(hidden), moe_workspaces(card, config, release)))
    return replace(peak, source="sampler: max_num_seqs x vocabulary")


def pooler_pass(card: ModelCard, config: ResolvedConfig) -> Quantity:
    """The hidden states of a batch, with an fp32 copy that is pooled and one that is projected."""
    elements = config.max_num_batched_tokens * card.hidden_size
    size = elements * (config.dtype_bytes + 2 * _FP32_BYTES)
    source = "pooler: max_num_batched_tokens x hidden size"
    return Quantity.within(size, _POOLER_BAND, Basis.ESTIMATED, source)


def text_pass(card: ModelCard, config: ResolvedConfig, release: Release) -> Quantity:
    """The widest layer for a full batch: gate, up and their product, and hidden-size copies."""
    width = config.max_num_batched_tokens * config.dtype_bytes
    copies = constant("layer_hidden_copies", release).times(width * card.hidden_size)
    if card.is_moe:
        inside = moe_workspaces(card, config, release)
    else:
        ranks = config.given.tensor_parallel_size
        inner = 3 * card.max_intermediate_size // ranks * width
        inside = Quantity.exact(inner)
    return replace(inside + copies, source="text pass: max_num_batched_tokens x widest layer")


def moe_workspaces(card: ModelCard, config: ResolvedConfig, release: Release) -> Quantity:
    """Workspaces of the fused MoE kernel: every token once for each expert it visits."""
    experts = _routed(card)
    if experts is None:
        return Quantity.exact(0)
    given = config.given
    share = experts.intermediate
    if not given.enable_expert_parallel:
        share //= given.tensor_parallel_size
    width = config.max_num_batched_tokens * config.dtype_bytes
    size = experts.active * (2 * share + experts.hidden) * width
    return constant("moe_workspaces", release).times(size)


def _routed(card: ModelCard) -> Experts | None:
    """The routed experts of the first MoE layer."""
    for layer in card.layers:
        for module in layer.modules:
            if isinstance(module, Experts):
                return module
    return None
