"""How vLLM splits a model: tensor-parallel shares and pipeline stages."""

from __future__ import annotations

from functools import lru_cache

from model_cards.card import Layer, ModelCard, count_same
from model_cards.modules import Embedding, Experts, HostTable, Linear, Output, Shard
from planner.engine.refusal import RefusalKind, Unloadable
from planner.engine.speculative import Speculation

_VOCABULARY_PADDING = 64  # VocabParallelEmbedding pads the vocabulary to a multiple of this


class Indivisible(Unloadable):
    """A dimension that the parallel size does not divide."""

    kind = RefusalKind.DIVISIBLE


class Inseparable(Unloadable):
    """Layers that must be on one pipeline stage."""

    kind = RefusalKind.PIPELINE


def divide(what: str, size: int, ranks: int) -> int:
    """`size / ranks`; `Indivisible` in vLLM's sense if it leaves a rest."""
    if size % ranks:
        raise Indivisible(f"{what} ({size}) must be divisible by tensor parallel size ({ranks})")
    return size // ranks


def local_output(output: Output, ranks: int) -> int:
    """Output features of one rank; KV heads are replicated where ranks outnumber them."""
    if output.replicable and ranks > output.units:
        if ranks % output.units:
            raise Indivisible(
                f"tensor parallel size ({ranks}) must be a multiple of the {output.units} KV heads"
            )
        return output.width
    return divide(f"{output.name} heads or features", output.units, ranks) * output.width


def local_linear(linear: Linear, ranks: int) -> tuple[int, tuple[int, ...]]:
    """(inputs, outputs) that one of `ranks` tensor-parallel ranks holds of a linear layer."""
    sizes = tuple(output.size for output in linear.outputs)
    if linear.block is not None:
        return _in_blocks(linear, sizes, linear.block, ranks)
    match linear.shard:
        case Shard.COLUMN:
            outputs = tuple(local_output(output, ranks) for output in linear.outputs)
            padding = -sum(outputs) % linear.row_alignment
            return linear.inputs, (*outputs, padding) if padding else outputs
        case Shard.ROW:
            return divide(f"{linear.name} inputs", linear.inputs, ranks), sizes
        case Shard.REPLICATED:
            return linear.inputs, sizes


def _in_blocks(
    linear: Linear, sizes: tuple[int, ...], block: int, ranks: int
) -> tuple[int, tuple[int, ...]]:
    """The same of a layer that is split in whole blocks."""

    def share(size: int) -> int:
        return -(-(size // block) // ranks) * block

    match linear.shard:
        case Shard.COLUMN:
            return linear.inputs, tuple(share(size) for size in sizes)
        case Shard.ROW:
            return share(linear.inputs), sizes
        case Shard.REPLICATED:
            return linear.inputs, sizes


def local_experts(
    experts: Experts, ranks: int, *, spread: bool, redundant: int = 0
) -> tuple[int, int]:
    """(experts, intermediate size) of one of `ranks` ranks: tensor times data parallelism.

    With expert parallelism whole experts are spread over them, copies included, the first ranks
    taking one more; without, every expert is sliced.
    """
    if spread and ranks > 1:
        return -(-(experts.count + redundant) // ranks), experts.intermediate
    if ranks > 1 and experts.intermediate // ranks < experts.smallest_slice:
        return experts.count, experts.smallest_slice
    return experts.count, divide("the experts' intermediate size", experts.intermediate, ranks)


def local_rows(embedding: Embedding, ranks: int) -> int:
    """Vocabulary rows of one rank, padding included."""
    if embedding.replicated:
        return embedding.rows
    padded = -(-embedding.rows // _VOCABULARY_PADDING) * _VOCABULARY_PADDING
    return divide("padded vocabulary", padded, ranks)


def local_lookups(table: HostTable, ranks: int) -> int:
    """Rows of a token that one rank fetches; every rank must have some."""
    share = -(-table.lookups // ranks)
    if share * (ranks - 1) >= table.lookups:
        raise Indivisible(f"{table.lookups} lookups of a token leave some of {ranks} ranks without")
    return share


@lru_cache(maxsize=1024)
def stage_layers(card: ModelCard, stages: int) -> tuple[tuple[Layer, ...], ...]:
    """Layers of each pipeline stage (vLLM's `get_pp_indices`).

    Even shares; what is left over goes to the stages before the last, from the back. Raises
    `Inseparable` where a stage would begin with a layer that cannot.
    """
    count = card.num_layers
    if stages > count:
        raise Indivisible(f"{count} layers cannot be split over {stages} pipeline stages")
    shares = [count // stages] * stages
    for extra in range(count % stages):
        shares[-(extra + 2)] += 1
    split, start = [], 0
    for share in shares:
        if card.stage_starts is not None and start not in card.stage_starts:
            raise Inseparable(f"layer {start} reads what an earlier pipeline stage keeps")
        split.append(card.layers[start : start + share])
        start += share
    return tuple(split)


def stage_caches(
    card: ModelCard, stages: int, speculation: Speculation | None = None
) -> list[frozenset[int]]:
    """Indices of the caches (`card.caches()`) of each pipeline stage.

    The last stage also has those of a draft, which follow the model's.
    """
    split, start = [], 0
    for layers in stage_layers(card, stages):
        count = sum(times * len(layer.kept) for layer, times in count_same(layers))
        split.append(frozenset(range(start, start + count)))
        start += count
    drafts = len(speculation.attention_layers()) if speculation is not None else 0
    split[-1] |= frozenset(range(start, start + drafts))
    return split
