"""Buffers that stay allocated beside the weights, and are counted before the KV cache is sized.

Model Runner V2 keeps, on the last pipeline stage and on every rank whole, int32 counts and a bit
mask of requests x vocabulary (v1/worker/gpu/sample/penalties.py); FlashInfer keeps the softmax
statistics of a full batch. Modules of MLA backends take their workspaces as they are imported.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import astuple, replace

from model_cards.caches import Attention, AttentionKind
from model_cards.card import Layer, ModelCard, count_same
from model_cards.modules import Experts, HostTable
from planner.engine.attention import Backends
from planner.engine.defaults import ResolvedConfig
from planner.engine.device import DeviceFacts, Platform
from planner.engine.releases import Release
from planner.memory.eplb import balancing_bytes
from planner.memory.kv_specs import ceil_div, local_kv_heads
from planner.memory.parallel import local_experts, local_lookups
from planner.memory.rocm_padding import stranded_bytes
from planner.memory.weights import Layout

_FLASHINFER_MIN_HEADS_SM100 = 32
_MLA_WORKSPACE = 128 * 2**20  # `g_fi_workspace` and `g_sm100_workspace`


class RankBuffers(Struct, frozen=True):
    """Bytes of one rank's persistent buffers."""

    sampler: int = 0  # output_bin_counts and prompt_bin_mask
    inputs: int = 0  # token ids, positions, request state
    hidden: int = 0  # hidden states received from the previous pipeline stage
    attention: int = 0  # FlashInfer's log-sum-exp
    deepstack: int = 0  # the tower's features for the first decoder layers
    sparse: int = 0  # tokens or blocks that indexers picked
    lookups: int = 0  # rows of tables in host memory
    streams: int = 0  # residual streams of a batch, kept for a draft
    eplb: int = 0  # where experts are, how busy they are, and room for a layer's on the move
    draft: int = 0  # hidden states handed to the draft
    imported: int = 0  # workspaces of the modules of MLA backends
    stranded: int = 0  # what is left of blocks that padded experts were put in

    @property
    def model(self) -> int:
        """What there is once the model object is: part of what vLLM says loading took."""
        return (
            self.attention
            + self.deepstack
            + self.sparse
            + self.lookups
            + self.streams
            + self.eplb
            + self.imported
        )

    @property
    def of_model(self) -> RankBuffers:
        """The model object's alone.

        Before 0.27.0 those that the model runner makes for itself escaped the budget: they were
        there before the profile run, and are no part of what loading took.
        """
        return replace(self, sampler=0, inputs=0, hidden=0, draft=0)

    @property
    def total(self) -> int:
        """All of them."""
        return sum(astuple(self))


def persistent_buffers(
    card: ModelCard,
    config: ResolvedConfig,
    device: DeviceFacts,
    backends: Backends,
    layers: tuple[Layer, ...],
    layout: Layout,
    *,
    before: int,
    last_stage: bool,
) -> RankBuffers:
    """Buffers of one rank of the stage with these layers, behind `before` others.

    A draft is on the last stage.
    """
    seqs, tokens = config.max_num_seqs, config.max_num_batched_tokens
    sampler = 0
    if config.model_runner_v2 and last_stage and not config.pooling:
        sampler = seqs * card.vocab_size * 4 + seqs * -(-card.vocab_size // 32) * 4
    inputs = tokens * (4 + 8 + 1) + 12 * seqs if config.model_runner_v2 else 0
    hidden = tokens * _received_bytes(card, config, before)
    return RankBuffers(
        sampler,
        inputs,
        hidden,
        _flashinfer_bytes(card, config, device, backends),
        _deepstack_bytes(card, config) if before == 0 else 0,
        _sparse_bytes(card, config, backends, layers, last_stage=last_stage)
        + _block_picks_bytes(card, config),
        _lookup_bytes(card, config, layers),
        _streams_bytes(card, config) if last_stage else 0,
        _balancing_bytes(config, layers, layout, last_stage=last_stage),
        _draft_bytes(card, config) if last_stage else 0,
        stranded=_stranded_bytes(config, layers, layout),
    )


def _stranded_bytes(config: ResolvedConfig, layers: tuple[Layer, ...], layout: Layout) -> int:
    """What moving the rows of experts apart strands, where vLLM counts by the driver.

    On ROCm it did so for what loading took until 0.20.0, and does for all that a launch takes since
    0.27.0. The copies of 0.20.0 to 0.24.0, and those from 0.30.0 on, set all of it free.
    """
    if not (layout.apart and config.release.fact("rocm_padding_strands")):
        return 0
    total = 0
    for layer, same in count_same(layers):
        for module in layer.modules:
            if isinstance(module, Experts):
                experts, intermediate = local_experts(
                    module, layout.expert_ranks, spread=layout.expert_parallel
                )
                total += same * stranded_bytes(module, experts, intermediate, layout.dtype_bytes)
    return total


def imported_bytes(card: ModelCard, device: DeviceFacts, release: Release) -> int:
    """Workspaces that modules of MLA backends allocate as they are imported.

    To choose a backend, `get_valid_backends` in platforms/cuda.py imports all that the GPU may use,
    FlashInfer's and, on the B200 family, CUTLASS's among them, whichever it then takes.
    """
    latent = any(
        each.kind is AttentionKind.MLA and each.model_version is None
        for each in card.attention_kinds
    )
    if not latent or device.platform is not Platform.CUDA:
        return 0
    taken = [
        name
        for name in release.fact("mla_workspaces_at_import")
        if name != "CUTLASS_MLA" or device.is_sm100
    ]
    return _MLA_WORKSPACE * len(taken)


def _received_bytes(card: ModelCard, config: ResolvedConfig, before: int) -> int:
    """What a stage receives for every token.

    Hidden states and the residual apart from them, or one for every block of layers; or the
    streams that are both.
    """
    if before == 0:
        return 0
    vectors = card.residual_streams
    if vectors == 1:
        vectors += ceil_div(before, card.residual_block) if card.residual_block else 1
    return vectors * card.hidden_size * config.dtype_bytes + card.passed_bytes


def _streams_bytes(card: ModelCard, config: ResolvedConfig) -> int:
    """What a model with hyper-connections keeps of a batch for whatever drafts from it."""
    if card.residual_streams == 1 or config.speculation is None or config.speculation.draft is None:
        return 0
    width = card.residual_streams * card.hidden_size
    return config.max_num_batched_tokens * width * config.dtype_bytes


def _balancing_bytes(
    config: ResolvedConfig, layers: tuple[Layer, ...], layout: Layout, *, last_stage: bool
) -> int:
    """Of the stage's layers and, apart from them, of the draft's."""
    total = balancing_bytes(layers, config.balancing, layout)
    if last_stage and config.speculation is not None and config.speculation.draft is not None:
        total += balancing_bytes(config.speculation.draft.layers, config.balancing, layout)
    return total


def _draft_bytes(card: ModelCard, config: ResolvedConfig) -> int:
    """A batch of the hidden states that heads draft from.

    Those that write blocks of tokens also stage, for their CUDA graphs, what they read of several
    layers in a decode step.
    """
    speculation = config.speculation
    if speculation is None or speculation.draft is None or not speculation.reads_hidden_states:
        return 0
    tokens = config.max_num_batched_tokens
    elements = tokens * (speculation.draft.hidden_size or card.hidden_size)
    if speculation.writes_blocks and config.cudagraph_sizes:
        decoded = min(tokens, config.max_num_seqs * speculation.query_len)
        elements += decoded * speculation.draft.target_features
    return elements * config.dtype_bytes


def _sparse_bytes(
    card: ModelCard,
    config: ResolvedConfig,
    backends: Backends,
    layers: tuple[Layer, ...],
    *,
    last_stage: bool,
) -> int:
    """int32 indices of the tokens that sparse layers attend to.

    One row for every token of a batch, shared by all layers of the model, and once more for each
    MTP layer or the draft; and for every indexer's layers the physical rows of a decode batch, with
    a count each (v1/attention/backends/mla/index_group.py). Layers with `own_picks` keep the
    physical rows of a whole batch instead.
    """
    picks = _picks(layer for layer, _ in card.different_layers)
    total = _rows_bytes(config, backends, layers)
    if last_stage and config.speculation is not None and config.speculation.draft is not None:
        draft = config.speculation.draft
        picks += draft.index_topk
        for layer in draft.layers:
            picks += _picks((layer,))
            total += _rows_bytes(config, backends, (layer,))
    return total + 4 * picks * config.max_num_batched_tokens


def _picks(layers: Iterable[Layer]) -> int:
    """Tokens that sparse layers attend to, and blocks of tokens where indexers pick among those."""
    widest: dict[AttentionKind, int] = {}
    for layer in layers:
        for cache in layer.caches:
            if isinstance(cache, Attention) and cache.index_topk and not cache.sparse_block:
                widest[cache.kind] = max(widest.get(cache.kind, 0), cache.index_topk)
    return sum(widest.values())


def _lookup_bytes(card: ModelCard, config: ResolvedConfig, layers: tuple[Layer, ...]) -> int:
    """What a batch looks up in tables in host memory: each rank fetches some rows of a token."""
    different = (layer for layer, _ in card.different_layers)
    if not any(isinstance(module, HostTable) for layer in different for module in layer.modules):
        return 0
    ranks = config.given.tensor_parallel_size
    return sum(
        count
        * config.max_num_batched_tokens
        * local_lookups(module, ranks)
        * module.width
        * config.dtype_bytes
        for layer, count in count_same(layers)
        for module in layer.modules
        if isinstance(module, HostTable)
    )


def _block_picks_bytes(card: ModelCard, config: ResolvedConfig) -> int:
    """int32 indices of the blocks that each KV head attends to, for every token of a batch.

    Shared by all layers of the model; its MTP layers have none.
    """
    ranks = config.given.tensor_parallel_size
    tokens = ceil_div(config.max_num_batched_tokens, 4) * 4
    rows = {
        local_kv_heads(each, ranks) * each.index_topk
        for each in card.attention_layers
        if each.sparse_block is not None and each.index_topk is not None
    }
    return sum(tokens * row * 4 for row in rows)


def _rows_bytes(config: ResolvedConfig, backends: Backends, layers: tuple[Layer, ...]) -> int:
    decoded = config.max_num_seqs * (1 + config.speculative_tokens)
    rows = min(config.max_num_batched_tokens, decoded) + 1
    topk, groups, total = 0, 0, 0
    for layer in layers:
        for cache in layer.caches:
            if not isinstance(cache, Attention) or cache.index_topk is None or cache.sparse_block:
                continue
            if cache.model_version is not None:
                continue  # these turn the indices into rows as they go
            topk = cache.index_topk
            indexes = any(
                isinstance(c, Attention) and c.kind is AttentionKind.INDEXER for c in layer.caches
            )
            if cache.own_picks:
                total += (config.max_num_batched_tokens + 1) * (topk + 1) * 4
            else:
                groups += indexes or groups == 0
            if backends[cache].name == "FLASH_ATTN_MLA_SPARSE":
                total += (config.max_num_batched_tokens + 1) * 4  # cumulative query lengths
    return total + groups * rows * (topk + 1) * 4


def _deepstack_bytes(card: ModelCard, config: ResolvedConfig) -> int:
    """What the model object keeps of a whole batch, the tower's part where it has a tower."""
    elements = card.batch_elements
    if not config.given.language_model_only:
        elements += card.deepstack_levels * card.hidden_size
    return elements * config.max_num_batched_tokens * config.dtype_bytes


def _flashinfer_bytes(
    card: ModelCard,
    config: ResolvedConfig,
    device: DeviceFacts,
    backends: Backends,
) -> int:
    """One fp32 for every token of a batch and local head, shared by all layers."""
    if all(backend.name != "FLASHINFER" for backend in backends.values()):
        return 0
    heads = max(attention.num_heads for attention in backends)
    local = heads // config.given.tensor_parallel_size
    if device.is_sm100:
        local = max(local, _FLASHINFER_MIN_HEADS_SM100)
    return config.max_num_batched_tokens * local * 4
