"""Why a pick is the pick: what binds, what the next best loses, what a change would bring."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hardware_db import Rig
from model_cards import ModelCard
from planner.engine.flags import accepts_flag
from planner.findings import Finding, Severity
from planner.memory.plan import Refused, plan_memory
from planner.memory.verdict import Answer
from planner.recommendation.apart import servers_apart
from planner.recommendation.larger import twice
from planner.recommendation.parallelism import replicas_or_not
from planner.recommendation.requirements import Objective, Requirements
from planner.recommendation.search import Candidate, Search, search
from planner.recommendation.settings import may_use_fp8_kv
from planner.recommendation.settle import Settled, speed_or_none
from planner.speed.serving import SpeedEstimate

# A cache for fewer times the requests asked for is what holds a launch back.
_TIGHT: Final = 1.5
# Where it holds so many times what is asked, more cache is worth nothing.
_AMPLE: Final = 8
_LONG_PROMPT: Final = 4096  # tokens; whoever sends such prompts often sends them again
_SPEED_BOUNDS: Final = {
    "reading weights": "memory bandwidth",
    "reading the KV cache": "memory bandwidth",
    "compute": "compute",
    "prefill of other requests": "compute",
    "communication": "the link between the GPUs",
    "fixed time per layer": "the fixed time of each layer",
}


class Change(Struct, frozen=True):
    """What a change of the question would bring."""

    what: str
    pick: Candidate


class Explanation(Struct, frozen=True):
    """The reasons for the pick of a search."""

    binding: str
    replicas: tuple[str, ...]  # or one engine over all GPUs; empty where that is no question
    changes: tuple[Change, ...]
    findings: tuple[Finding, ...]


def explain(found: Search, rig: Rig) -> Explanation | None:
    """Why the pick of a search on `rig` is what it is; None where there is none."""
    if found.pick is None:
        return None
    settled, requirements = found.pick.settled, found.requirements
    return Explanation(
        binding(settled, requirements),
        replicas_or_not(found),
        tuple(_changes(found.pick, found.card, rig, requirements)),
        tuple(_findings(found, settled, rig)),
    )


def binding(settled: Settled, requirements: Requirements) -> str:
    """The constraint that holds a launch back, in a sentence."""
    memory, speed = settled.memory, settled.speed
    length, wanted = memory.config.max_model_len, requirements.workload.concurrency
    if not memory.kv_cache.groups:
        return "Nothing is cached: memory binds nothing."
    held = settled.requests_held
    room = f"the KV cache holds {held:.1f} requests of {length:,} tokens, {wanted} asked for"
    if requirements.aim is Objective.CONTEXT and length >= memory.card.max_model_len:
        return f"The model's own limit binds, {length:,} tokens; {room}."
    if held < _TIGHT * wanted:
        return f"Memory binds: {room}."
    if speed is None:
        return f"No speed is predicted; {room}."
    bound = _SPEED_BOUNDS[speed.bound_by]
    return f"Speed is bound by {bound} (most of a step is {speed.bound_by}); {room}."


def difference(one: Candidate, other: Candidate, asked: str = "") -> str:
    """What `one` has more or less of than `other`, with numbers; not what was `asked` for."""
    parts = []
    points = one.variant.loss.points - other.variant.loss.points
    if abs(points) >= 0.05:
        parts.append(f"{abs(points):.1f} points of quality {'less' if points > 0 else 'more'}")
    if one.pace and other.pace and abs(one.pace / other.pace - 1) > 0.02:
        parts.append(f"{one.pace:.0f} tok/s instead of {other.pace:.0f}")
    parts += _in_total(one.settled.speed, other.settled.speed)
    mine, theirs = (each.settled.memory for each in (one, other))
    caches = [each.config.kv_cache_dtype.replace("auto", "16-bit") for each in (mine, theirs)]
    if caches[0] != caches[1] and "--kv-cache-dtype" not in asked:
        parts.append(f"{caches[0]} KV cache instead of {caches[1]}")
    length, length_there = mine.config.max_model_len, theirs.config.max_model_len
    held, held_there = one.settled.tokens_held, other.settled.tokens_held
    if length != length_there:
        parts.append(
            f"{one.settled.requests_held:.1f} requests of {length:,} tokens at once instead of "
            f"{other.settled.requests_held:.1f} of {length_there:,}"
        )
    elif held_there and abs(held / held_there - 1) > 0.02:
        parts.append(f"{held:,} KV tokens instead of {held_there:,}")
    if one.settled.gpus != other.settled.gpus:
        parts.append(f"on {one.settled.gpus} GPUs instead of {other.settled.gpus}")
    return ", ".join(parts) or "no difference that is predicted"


def _in_total(one: SpeedEstimate | None, other: SpeedEstimate | None) -> list[str]:
    """Tokens a second of all requests together, where there are several."""
    if one is None or other is None or other.workload.concurrency == 1:
        return []
    mine, theirs = one.total.value, other.total.value
    if abs(mine / theirs - 1) <= 0.02:
        return []
    return [f"{mine:.0f} tok/s in total instead of {theirs:.0f}"]


def _changes(
    pick: Candidate, card: ModelCard, rig: Rig, requirements: Requirements
) -> Iterator[Change]:
    """What comes of other questions about the checkpoint `card` that was asked for."""
    memory = pick.settled.memory
    larger = twice(rig)
    if larger is not None:
        again = search(card, larger, requirements, memory.release).pick
        if again is not None and again.settled.gpus > pick.settled.gpus:
            yield Change(f"--gpu {larger.spec}", again)
    if pick.settled.requests_held > _AMPLE * requirements.workload.concurrency:
        return
    half = memory.config.max_model_len // 2
    if card.converses and half >= requirements.workload.total_tokens:
        asked = replace(requirements, context=half)
        again = search(card, rig, asked, memory.release).pick
        if again is not None:
            yield Change(f"--context {half}", again)
    halved = _with_fp8_cache(pick, requirements)
    if halved is not None:
        yield Change("--kv-cache-dtype fp8", halved)


def _with_fp8_cache(pick: Candidate, requirements: Requirements) -> Candidate | None:
    memory = pick.settled.memory
    given = memory.config.given
    if not memory.kv_cache.groups or given.kv_cache_dtype != "auto":
        return None
    if not may_use_fp8_kv(memory.card, memory.rig):
        return None
    config = replace(given, kv_cache_dtype="fp8")
    try:
        plan = plan_memory(pick.variant.card, memory.rig, config, vllm=memory.release)
    except Refused:
        return None
    if plan.starts.answer is not Answer.YES:
        return None
    settled = Settled(plan, speed_or_none(plan, requirements), {})
    return Candidate(pick.variant, settled)


def _findings(found: Search, settled: Settled, rig: Rig) -> Iterator[Finding]:
    """Ways of serving that are planned elsewhere, where they would change the answer."""
    memory, speed, load = settled.memory, settled.speed, found.requirements.workload
    apart = servers_apart(found, rig)
    if apart is not None:
        yield apart
    wanted = load.concurrency
    several = memory.rig.gpu_count > 1
    if several and speed is not None and speed.bound_by == "prefill of other requests":
        yield Finding(
            "disaggregation",
            Severity.INFO,
            "most of a step is prefill of other requests: prefill and decode on GPUs of their own "
            "(--kv-transfer-config, behind llm-d or Dynamo) would answer more evenly",
        )
    held = settled.requests_held
    tight = bool(memory.kv_cache.groups) and held < 2 * wanted
    long_prompts = load.prompt_tokens >= _LONG_PROMPT
    if tight and long_prompts and accepts_flag(memory.release, "--kv-offloading-size"):
        wait = f", {speed.ttft.value:.1f} s each" if speed is not None and speed.ttft else ""
        yield Finding(
            "kv_offload",
            Severity.INFO,
            f"the cache keeps few prompts for later: those that come again are read again{wait}; "
            "--kv-offloading-size GIB keeps them in host memory",
        )
