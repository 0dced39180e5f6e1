"""LoRA slots: memory for adapters that is taken when the model is loaded.

Every linear layer that vLLM can wrap gets matrices A (rank x inputs) and B (outputs x rank) for
each slot, whatever an adapter really changes (vllm/lora/layers). Towers get none.
"""

from __future__ import annotations

from model_cards.card import Layer, ModelCard
from model_cards.modules import Experts, Linear, Module, Shard
from planner.engine.defaults import ResolvedConfig
from planner.engine.lora import LoraSlots
from planner.memory.parallel import divide, local_experts, local_linear
from planner.memory.weights import Layout


def lora_bytes(
    card: ModelCard,
    layers: tuple[Layer, ...],
    config: ResolvedConfig,
    layout: Layout,
    *,
    first: bool,
    last: bool,
) -> int:
    """Slots of one rank of the pipeline stage with these layers."""
    slots = config.lora
    if slots is None:
        return 0
    elements, flags = 0, 0
    for module in (*(module for layer in layers for module in layer.modules), *card.beside):
        elements += _elements(module, slots, layout)
        if isinstance(module, Experts):
            flags += 4 * (slots.max_loras + 1)  # int32: which slots are in use
    # Embedding and head are looked up and applied whole on every rank.
    ends = (first + last) if slots.embeddings else 0
    elements += ends * slots.max_lora_rank * (card.vocab_size + card.hidden_size)
    return slots.max_loras * elements * config.dtype_bytes + flags


def _elements(module: Module, slots: LoraSlots, layout: Layout) -> int:
    """Elements of A and B of one slot on one rank."""
    rank, ranks = slots.max_lora_rank, layout.tensor_parallel_size
    split = ranks if slots.fully_sharded else 1
    match module:
        case Linear():
            inputs, outputs = local_linear(module, ranks)
            matrices = 1 if module.fused else len(outputs)
            a, b = matrices * rank * inputs, sum(outputs) * rank
            if module.shard is Shard.COLUMN:
                a = divide("LoRA's rank", a, split)
            elif module.shard is Shard.ROW:
                b = divide("LoRA's outputs", b, split)
            return a + b
        case Experts():
            count, inner = local_experts(
                module,
                layout.expert_ranks,
                spread=layout.expert_parallel,
                redundant=layout.redundant_experts,
            )
            ups = len(module.up_outputs)
            up_a = (1 if slots.fused_experts else ups) * module.hidden * rank // split
            down_b = module.hidden * rank // split
            return count * (up_a + ups * inner * rank + inner * rank + down_b)
        case _:
            return 0
