"""The smallest changes of a launch that make it start, each tried through the planner."""

from __future__ import annotations

from collections.abc import Iterator
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


class Remedy(Struct, frozen=True):
    """A change after which the launch is expected to start."""

    change: str
    memory: MemoryPlan


def remedies(memory: MemoryPlan, draft: ModelCard | None) -> tuple[Remedy, ...]:
    """Changes of one setting first, then of several, then other checkpoints of the model."""
    memory = _as_target(memory)
    found: list[Remedy] = []
    for change, config in _single(memory):
        plan = _starting(memory, config, draft)
        if plan is not None and plan.starts.answer is Answer.YES:
            found.append(Remedy(change, plan))
    if not found:
        found += _together(memory, draft, memory.card)
    if not found:
        found += _checkpoints(memory, draft)
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


def _together(memory: MemoryPlan, draft: ModelCard | None, card: ModelCard) -> Iterator[Remedy]:
    """All that costs no answer at once, and as much context as that leaves."""
    config, given = memory.config, memory.config.given
    seqs = min(_SEQUENCE_LIMITS[-1], config.max_num_seqs)
    tokens = max(_BATCH_LIMITS[-1], seqs)
    words = [f"--max-num-seqs {seqs}", f"--max-num-batched-tokens {tokens}"]
    frugal = replace(given, max_num_seqs=seqs, max_num_batched_tokens=tokens)
    share = _surely_free(memory)
    if share is not None:
        frugal = replace(frugal, gpu_memory_utilization=share)
        words.append(f"--gpu-memory-utilization {share:g}")
    for dtype in dict.fromkeys((given.kv_cache_dtype, "fp8")):
        wanted = replace(frugal, kv_cache_dtype=dtype)
        cached = [] if dtype == given.kv_cache_dtype else [f"--kv-cache-dtype {dtype}"]
        plan = _starting(memory, wanted, draft, card)
        if plan is None or plan.starts.breaks_a_rule:
            continue
        length = []
        if plan.starts.answer is not Answer.YES:
            longest = plan.kv_cache_low.longest_len // 64 * 64
            if longest < _SHORTEST:
                continue
            length = [f"--max-model-len {longest}"]
            plan = _starting(memory, replace(wanted, max_model_len=longest), draft, card)
        if plan is not None and plan.starts.answer is Answer.YES:
            yield Remedy(" ".join((*words, *cached, *length)), plan)
            return


def _checkpoints(memory: MemoryPlan, draft: ModelCard | None) -> Iterator[Remedy]:
    """Other checkpoints of the same model, as they are or more frugal."""
    seen = {memory.card.format_kind}
    for model_id in checkpoint_ids(base_id(memory.card.model_id)):
        try:
            card = open_bundled(model_id)
        except CardError:
            continue
        if card is None or card.format_kind in seen:
            continue
        plan = _starting(memory, memory.config.given, draft, card)
        if plan is not None and plan.starts.answer is Answer.YES:
            mends = [Remedy(card.model_id, plan)]
        else:
            mends = [
                replace(remedy, change=f"{card.model_id} with {remedy.change}")
                for remedy in _together(memory, draft, card)
            ]
        if mends:
            seen.add(card.format_kind)
            yield from mends


def _starting(
    memory: MemoryPlan,
    config: EngineConfig,
    draft: ModelCard | None,
    card: ModelCard | None = None,
) -> MemoryPlan | None:
    card = card or memory.card
    try:
        return plan_memory(card, memory.rig, config, draft=draft, vllm=memory.release)
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
