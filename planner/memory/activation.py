"""The activation peak of vLLM's profile run: the largest of the passes it makes.

vLLM encodes dummy images, compiles the layers if it has not before, runs a dummy batch of
`max_num_batched_tokens` tokens through them, and then samples one row for each of `max_num_seqs`
requests, or pools the whole batch. The peak is the largest of these, on top of what stays from one
pass to the next. On most large cards that is the sampler: its buffers are requests x vocabulary,
not split over ranks.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from model_cards.caches import Attention, AttentionKind, RecurrentState, StateKind
from model_cards.card import ModelCard
from model_cards.modules import Experts, Linear
from planner.engine.defaults import ResolvedConfig
from planner.engine.device import DeviceFacts, Platform
from planner.engine.releases import Release
from planner.engine.sampler import Sampler
from planner.memory.compile_pass import compile_pass
from planner.memory.constants import GIB, constant
from planner.memory.encoder_pass import encoded_bytes, encoder_pass
from planner.memory.moe_workspaces import moe_workspaces
from planner.quantity import Basis, Quantity, total

_FP32_BYTES: Final = 4
_POOLER_BAND: Final = 0.5  # not measured
_HOPPER: Final = (9, 0)
_USUAL_SM_COUNT: Final = 132
# cuBLAS keeps one workspace in torch's allocator (CUDA's default sizes).
_CUBLAS_BYTES: Final = 32 * 2**20
_CUBLAS_BYTES_BEFORE_HOPPER: Final = 4096 * 2 * 1024 + 16 * 8 * 1024
_MLA_CONTEXT_TOKENS: Final = 64 * 1024
_GATED: Final = (StateKind.GDN, StateKind.KDA)


def activation_peak(
    card: ModelCard,
    config: ResolvedConfig,
    device: DeviceFacts,
    release: Release,
    *,
    first_stage: bool,
    last_stage: bool,
) -> Quantity:
    """Bytes of transient activations at the peak of the profile run, on one pipeline stage."""
    kept = [Quantity.exact(_cublas_bytes(device))]
    passes = [text_pass(card, config, device, release, last_stage=last_stage)]
    if last_stage:
        if config.pooling:
            passes.append(pooler_pass(card, config))
        else:
            passes.append(sampler_pass(card, config, device, release))
    workspaces = moe_workspaces(card, config, device, release)
    if workspaces.kept:
        passes = [replace(total((each, workspaces.size)), source=each.source) for each in passes]
    if first_stage:  # before there are workspaces
        passes.append(encoder_pass(card, config, release))
        kept.append(encoded_bytes(card, config))
    largest = max(passes, key=lambda each: each.value)
    if first_stage:
        largest = _at_first_launch(largest, compile_pass(card, config, device, release))
    return replace(total([largest, *kept]), source=largest.source)


def _at_first_launch(running: Quantity, compiling: Quantity) -> Quantity:
    """The peak of a launch that compiles; its band reaches down to one with a warm cache."""
    high = max(running.high, compiling.high)
    basis = max(running.basis, compiling.basis)
    if compiling.value <= running.value:
        return replace(running, high=high, basis=basis if high > running.high else running.basis)
    return Quantity(compiling.value, running.low, high, basis, compiling.source)


def sampler_pass(
    card: ModelCard, config: ResolvedConfig, device: DeviceFacts, release: Release
) -> Quantity:
    """Logits of one row per request over the whole vocabulary, with the sampler's copies.

    The logits in the model's dtype; in fp32, masked, as probabilities and divided by noise
    (v1/sample/ops/topk_topp_sampler.py); before 0.17.0 sorted, with int64 indices, unless they are
    FlashInfer's to sample. The hidden states of the batch are still there.
    """
    rows = min(config.max_num_seqs, config.max_num_batched_tokens)
    # Fitted to 16-bit models; the model's own logits are as wide as its dtype.
    wider = Quantity.exact((config.dtype_bytes - 2) * rows * card.vocab_size)
    logits = bytes_per_logit(config, release).times(rows * card.vocab_size)
    scratch = 0
    own = config.sampler is Sampler.PYTORCH and not config.model_runner_v2
    if own and release.fact("sampler_masks_by_triton"):
        programs = min(rows, device.sm_count or _USUAL_SM_COUNT)
        scratch = programs * card.vocab_size * _FP32_BYTES
    hidden = (config.max_num_batched_tokens + rows) * card.hidden_size * config.dtype_bytes
    peak = total((logits, wider, Quantity.exact(scratch + hidden)))
    return replace(peak, source="sampler: max_num_seqs x vocabulary")


def bytes_per_logit(config: ResolvedConfig, release: Release) -> Quantity:
    """Bytes at the sampler's peak for each request and word, the model in 16 bits.

    Where FlashInfer may be installed or not, that is without, and the band reaches down to with.
    """
    if config.model_runner_v2:
        return constant("sampler_bytes_per_logit_v2", release)
    by_flashinfer = constant("sampler_bytes_per_logit_flashinfer", release)
    if config.sampler is Sampler.FLASHINFER:
        return by_flashinfer
    own = constant("sampler_bytes_per_logit", release)
    if config.sampler is Sampler.PYTORCH:
        return own
    return replace(own, low=by_flashinfer.low, basis=max(own.basis, Basis.ESTIMATED))


def pooler_pass(card: ModelCard, config: ResolvedConfig) -> Quantity:
    """The hidden states of a batch, with an fp32 copy that is pooled and one that is projected."""
    elements = config.max_num_batched_tokens * card.hidden_size
    size = elements * (config.dtype_bytes + 2 * _FP32_BYTES)
    source = "pooler: max_num_batched_tokens x hidden size"
    return Quantity.within(size, _POOLER_BAND, Basis.ESTIMATED, source)


def text_pass(
    card: ModelCard,
    config: ResolvedConfig,
    device: DeviceFacts,
    release: Release,
    *,
    last_stage: bool,
) -> Quantity:
    """The widest part of a layer for a full batch, and what is alive beside it.

    That is gate, up and their product; the inputs of routed experts as they are quantized, and the
    experts' workspaces where they are not kept; or the context that MLA projects up. A stage that
    is not the last one hands on hidden states and residual.
    """
    width = config.max_num_batched_tokens * config.dtype_bytes
    copies = constant("layer_hidden_copies", release).times(width * card.hidden_size)
    beside = constant("text_pass_gib", release).times(GIB)
    workspaces = moe_workspaces(card, config, device, release)
    routed = workspaces.beside
    if not workspaces.kept:
        routed = routed + workspaces.size
    context = _mla_context_bytes(card, config)
    widest = []
    for shape in _layer_shapes(card):
        handed = width * _handed_on(shape, card, config)
        mlp = 3 * shape.mlp // config.given.tensor_parallel_size * width
        widest.append(Quantity.exact(handed + max(mlp, context)))
        if shape.routed:
            around = width * _around_experts(shape, card, config)
            widest.append(Quantity.exact(handed + around) + routed)
    parts = [copies, beside, max(widest, key=lambda each: each.value)]
    if not last_stage:
        parts.append(Quantity.exact(2 * width * card.hidden_size))
    return replace(total(parts), source="text pass: max_num_batched_tokens x widest layer")


class _LayerShape(Struct, frozen=True):
    """Features of a token in a layer, all ranks together."""

    mlp: int  # of the widest MLP that every token passes
    attended: int  # that attention puts out
    gated: bool  # whether that is gated linear attention
    routed: bool  # whether it has routed experts
    shared: bool  # and shared ones


@lru_cache(maxsize=256)
def _layer_shapes(card: ModelCard) -> tuple[_LayerShape, ...]:
    shapes = []
    for layer, _ in card.different_layers:
        linear = [module for module in layer.modules if isinstance(module, Linear)]
        up = [each for each in linear if "gate_up" in each.name]
        out = [each for each in linear if each.name.endswith(("o_proj", "out_proj"))]
        states = [each for each in layer.caches if isinstance(each, RecurrentState)]
        widths = [sum(output.size for output in each.outputs) // 2 for each in up]
        shapes.append(
            _LayerShape(
                mlp=max(widths, default=0) if card.is_moe else card.max_intermediate_size,
                attended=sum(each.inputs for each in out),
                gated=any(each.kind in _GATED for each in states),
                routed=any(isinstance(module, Experts) for module in layer.modules),
                shared=any("shared_expert" in each.name for each in up),
            )
        )
    return tuple(dict.fromkeys(shapes))


def _handed_on(shape: _LayerShape, card: ModelCard, config: ResolvedConfig) -> int:
    """Features of a token that attention hands to the rest of its layer, on one rank.

    Layers are compiled in pieces between their attention kernels, and what a piece is given stays
    until it has run: what attention put out, or what gated linear attention did, with its gate and
    a buffer of hidden states that the layer writes to (`forward` in model_executor/layers/kda.py).
    Where layers are not compiled that is gone, but they still hold their input, normed.
    """
    if config.given.enforce_eager:
        return card.hidden_size
    local = shape.attended // config.given.tensor_parallel_size
    return 2 * local + card.hidden_size if shape.gated else local


def _around_experts(shape: _LayerShape, card: ModelCard, config: ResolvedConfig) -> int:
    """Features of a token that live beside routed experts, and not beside an MLP.

    Their output, apart from their input since PyTorch 2.9 (`disable_inplace` in
    fused_moe/utils.py), and that of shared experts, which run before them; and their input, which
    layers that are not compiled hold in any case.
    """
    vectors = 1 if config.given.enforce_eager else 2
    return (vectors + shape.shared) * card.hidden_size


def _mla_context_bytes(card: ModelCard, config: ResolvedConfig) -> int:
    """Keys and values of so much context as MLA projects up at a time, on one rank.

    The profile run allocates it in every layer (model_executor/layers/attention/mla_attention.py).
    """
    latent = [each for each in card.attention_kinds if each.kind is AttentionKind.MLA]
    if not latent:
        return 0
    tokens = min(
        max(8 * config.max_model_len, 4 * config.max_num_seqs * (config.block_size or 16)),
        _MLA_CONTEXT_TOKENS,
    )
    per_token = _projected_from_latent(card)
    return tokens * per_token // config.given.tensor_parallel_size * config.dtype_bytes


@lru_cache(maxsize=256)
def _projected_from_latent(card: ModelCard) -> int:
    """Features of keys and values that a token's latent vector becomes, all ranks together."""
    return max(
        (
            sum(output.size for output in module.outputs)
            for layer, _ in card.different_layers
            if any(isinstance(cache, Attention) for cache in layer.caches)
            for module in layer.modules
            if isinstance(module, Linear) and module.name.endswith("kv_b_proj")
        ),
        default=0,
    )


def _cublas_bytes(device: DeviceFacts) -> int:
    if device.platform is not Platform.CUDA or device.capability is None:
        return 0
    return _CUBLAS_BYTES if device.capability >= _HOPPER else _CUBLAS_BYTES_BEFORE_HOPPER
