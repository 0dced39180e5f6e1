"""The smallest changes of a launch that make it start, each tried through the planner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from model_cards import CardError, ModelCard
from model_cards.sources.bundled import open_bundled
from planner.engine.device import device_facts
from planner.engine.flags import accepts_flag
from planner.engine.refusal import RefusalKind
from planner.engine_config import EngineConfig
from planner.memory.free_memory import start_margin, taken_at_start
from planner.memory.plan import MemoryPlan, Refused, plan_memory
from planner.memory.verdict import Answer
from planner.recommendation.variants import base_id, checkpoint_ids

_SEQUENCE_LIMITS: Final = (64, 16, 4)
_BATCH_LIMITS: Final = (2048, 1024)
_SHORTEST: Final = 1024  # a shorter context helps nobody
_START_RISK: Final = 0.02
_MOST: Final = 6
_MIB: Final = 2**20


_Starting = Callable[..., MemoryPlan | None]


class Remedy(Struct, frozen=True):
    """A change after which the launch is expected to start."""

    change: str
    memory: MemoryPlan


def remedies(
    memory: MemoryPlan, draft: ModelCard | None, environ: Mapping[str, str] | None = None
) -> tuple[Remedy, ...]:
    """Changes of one setting first, then of several, then other checkpoints of the model.

    `environ` are the variables of the launch.
    """
    memory = _as_target(memory)
    found: list[Remedy] = []
    starting = partial(_starting, memory, draft, environ or {})
    for change, config in _single(memory):
        plan = starting(config)
        if plan is not None and plan.starts.answer is Answer.YES:
            found.append(Remedy(change, plan))
    if not found:
        found += _together(memory, starting, memory.card)
    if not found:
        found += _checkpoints(memory, starting)
    return tuple(found[:_MOST])


def _as_target(memory: MemoryPlan) -> MemoryPlan:
    """The launch with its draft split as the target, the only way that every vLLM takes."""
    given = memory.config.given
    if given.speculative_config is None:
        return memory
    speculative = replace(given.speculative_config, draft_tensor_parallel_size=None)
    given = replace(given, speculative_config=speculative)
    return replace(memory, config=replace(memory.config, given=given))


def _single(memory: MemoryPlan) -> Iterator[tuple[str, EngineConfig]]:
    config, given = memory.config, memory.config.given
    longest = memory.kv_cache_low.longest_len // 64 * 64
    if _SHORTEST <= longest < config.max_model_len:
        yield f"--max-model-len {longest}", replace(given, max_model_len=longest)
    yield from _sizes(memory)
    share = _surely_free(memory)
    if share is not None and share != config.gpu_memory_utilization:
        text = f"--gpu-memory-utilization {share:g}"
        yield text, replace(given, gpu_memory_utilization=share)
    for seqs in (memory.kv_cache_low.num_blocks, *_SEQUENCE_LIMITS):
        if 0 < seqs < config.max_num_seqs:
            yield f"--max-num-seqs {seqs}", replace(given, max_num_seqs=seqs)
            break
    for tokens in _BATCH_LIMITS:
        if max(tokens, config.max_num_seqs) < config.max_num_batched_tokens:
            limit = max(tokens, config.max_num_seqs)
            text = f"--max-num-batched-tokens {limit}"
            yield text, replace(given, max_num_batched_tokens=limit)
            break
    if config.kv_cache_dtype == "auto":
        yield "--kv-cache-dtype fp8", replace(given, kv_cache_dtype="fp8")
    if memory.card.towers and not given.language_model_only:
        flag = "--language-model-only"
        if accepts_flag(memory.release, flag):
            yield f"{flag} (no images)", replace(given, language_model_only=True)
    if not given.enforce_eager:
        yield "--enforce-eager (slower)", replace(given, enforce_eager=True)
    more = 2 * given.tensor_parallel_size
    others = given.pipeline_parallel_size * given.data_parallel_size
    while more * others <= memory.rig.gpu_count and more <= len(memory.rig.devices):
        yield f"--tensor-parallel-size {more}", replace(given, tensor_parallel_size=more)
        more *= 2


def _sizes(memory: MemoryPlan) -> Iterator[tuple[str, EngineConfig]]:
    """Of a KV cache whose size is given: enough for one request, or what a full batch leaves."""
    given, kv = memory.config.given, memory.kv_cache
    if memory.given_size_check is None or not kv.groups:
        return
    margin, peak = memory.given_size_check.margin, max(r.activation.high for r in memory.ranks)
    too_much = int(peak - margin.low) if margin.low < 0 else 0
    if given.num_gpu_blocks_override is not None:
        block = max(kv.bytes_per_block)
        blocks = given.num_gpu_blocks_override - -(-too_much // block)
        blocks = max(blocks, -(-kv.needed_bytes // block))
        if blocks != given.num_gpu_blocks_override:
            text = f"--num-gpu-blocks-override {blocks}"
            yield text, replace(given, num_gpu_blocks_override=blocks)
    elif given.kv_cache_memory_bytes is not None:
        left = (given.kv_cache_memory_bytes - too_much) // _MIB
        size = max(left, -(-kv.needed_bytes // _MIB)) * _MIB
        if size != given.kv_cache_memory_bytes:
            text = f"--kv-cache-memory-bytes {size}"
            yield text, replace(given, kv_cache_memory_bytes=size)


def _together(memory: MemoryPlan, starting: _Starting, card: ModelCard) -> Iterator[Remedy]:
    """All that costs no answer at once, and as much context as that leaves."""
    config, given = memory.config, memory.config.given
    seqs = min(_SEQUENCE_LIMITS[-1], config.max_num_seqs)
    tokens = max(_BATCH_LIMITS[-1], seqs)
    words = [f"--max-num-seqs {seqs}", f"--max-num-batched-tokens {tokens}"]
    frugal = replace(given, max_num_seqs=seqs, max_num_batched_tokens=tokens)
    share = _surely_free(memory)
    if share is not None and given.kv_cache_memory_bytes is None:
        frugal = replace(frugal, gpu_memory_utilization=share)
        words.append(f"--gpu-memory-utilization {share:g}")
    for dtype in dict.fromkeys((given.kv_cache_dtype, "fp8")):
        wanted = replace(frugal, kv_cache_dtype=dtype)
        cached = [] if dtype == given.kv_cache_dtype else [f"--kv-cache-dtype {dtype}"]
        plan = starting(wanted, card)
        if plan is None or plan.starts.breaks_a_rule:
            continue
        length = []
        if plan.starts.answer is not Answer.YES:
            longest = plan.kv_cache_low.longest_len // 64 * 64
            if longest < _SHORTEST:
                continue
            length = [f"--max-model-len {longest}"]
            plan = starting(replace(wanted, max_model_len=longest), card)
        if plan is not None and plan.starts.answer is Answer.YES:
            yield Remedy(" ".join((*words, *cached, *length)), plan)
            return


def _checkpoints(memory: MemoryPlan, starting: _Starting) -> Iterator[Remedy]:
    """Other checkpoints of the same model, as they are or more frugal."""
    seen = {memory.card.format_kind}
    for model_id in checkpoint_ids(base_id(memory.card.model_id)):
        try:
            card = open_bundled(model_id)
        except CardError:
            continue
        if card is None or card.format_kind in seen:
            continue
        plan = starting(memory.config.given, card)
        if plan is not None and plan.starts.answer is Answer.YES:
            mends = [Remedy(card.model_id, plan)]
        else:
            mends = [
                replace(remedy, change=f"{card.model_id} with {remedy.change}")
                for remedy in _together(memory, starting, card)
            ]
        if mends:
            seen.add(card.format_kind)
            yield from mends


def _starting(
    memory: MemoryPlan,
    draft: ModelCard | None,
    environ: Mapping[str, str],
    config: EngineConfig,
    card: ModelCard | None = None,
) -> MemoryPlan | None:
    card, release = card or memory.card, memory.release
    try:
        return plan_memory(card, memory.rig, config, draft=draft, environ=environ, vllm=release)
    except Refused:
        return None


def _surely_free(memory: MemoryPlan) -> float | None:
    """The largest share of the device that is surely free at the start."""
    slot, given = memory.rig.smallest, memory.config.given
    device = device_facts(slot.gpu)
    taken = taken_at_start(slot, device, memory.release, given.tensor_parallel_size)
    for hundredths in range(97, 9, -1):
        share = hundredths / 100
        if start_margin(slot, taken, share).chance_below(0) <= _START_RISK:
            return share
    return None


def is_about_memory(kind: RefusalKind) -> bool:
    """Whether a refusal is mended by needing less memory."""
    return kind in (RefusalKind.KV_ROOM, RefusalKind.FREE_MEMORY, RefusalKind.STATE_BLOCKS)
