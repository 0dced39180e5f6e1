"""Will it start? The chance that vLLM refuses, and the first reason."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from planner.engine.defaults import ResolvedConfig
from planner.engine.refusal import Refusal, RefusalKind
from planner.memory.constants import GIB
from planner.memory.kv_cache import KVCachePlan
from planner.quantity import Quantity

# A launch is said to start (or not to) when its chance of refusal is beyond these.
_SURE, _HOPELESS = 0.05, 0.95


class Answer(Enum):
    """Will it start?"""

    YES = "yes"
    RISKY = "risky"
    NO = "no"


class Verdict(Struct, frozen=True):
    """The answer, the first reason for it, and the chance that vLLM refuses to start."""

    answer: Answer
    refusal: Refusal | None  # None if it fits
    chance_of_refusal: float

    @property
    def reason(self) -> str:
        """The reason in one line."""
        return self.refusal.reason if self.refusal is not None else "fits"

    @property
    def breaks_a_rule(self) -> bool:
        """Whether vLLM refuses whatever the memory."""
        memory = (RefusalKind.FREE_MEMORY, RefusalKind.KV_ROOM, RefusalKind.STATE_BLOCKS)
        return self.refusal is not None and self.refusal.kind not in memory

    @property
    def ok(self) -> bool:
        """Whether the launch is expected to start."""
        return self.answer is Answer.YES


class Start(Struct, frozen=True):
    """A check of what vLLM finds free on the device against what it asks of it: the first, or the
    last, behind the KV cache.
    """

    margin: Quantity  # free beyond what is asked
    free: Quantity
    asked: Quantity
    why: str  # what it is asked for
    when: str = "at start"

    def with_margin(self, margin: Quantity) -> Start:
        """The same check with another margin."""
        return replace(self, margin=margin)

    @property
    def surely_passes(self) -> bool:
        """Whether hardly any chance is left that it fails."""
        return self.margin.chance_below(0) <= _SURE

    @property
    def may_pass(self) -> bool:
        """Whether some chance is left that it passes."""
        return self.margin.chance_below(0) < _HOPELESS

    @property
    def reason(self) -> str:
        """Why it fails, or may."""
        free = f"({max(0, self.free.value) / GIB:.2f} GiB)"
        asked = f"what {self.why} ({self.asked.value / GIB:.2f} GiB)"
        if self.margin.value < 0:
            return f"free memory {self.when} {free} is less than {asked}"
        return f"free memory {self.when} {free} may turn out to be less than {asked}"


def judge(
    broken: Sequence[Refusal],
    pools: Sequence[Quantity],
    kv: KVCachePlan,
    start: Start,
    config: ResolvedConfig,
    *,
    state_blocks: int = 0,
    where: str,
) -> Verdict:
    """The verdict on a budget.

    `broken` are the rules it breaks, `pools` the bytes left for the KV cache on each stage's rank,
    `state_blocks` the blocks that recurrent layers need for a full batch of requests, `where` the
    memory that it all has to fit into.
    """
    if broken:
        return Verdict(Answer.NO, broken[0], 1.0)
    start_check = 1 - start.margin.chance_below(0)  # that what is asked is free
    need = kv.needed_bytes
    if config.given.num_gpu_blocks_override is not None:
        kv_check = 0.0 if kv.fits else 1.0
        state_check = 0.0 if kv.num_blocks >= state_blocks else 1.0
    else:
        worst = max(pool.chance_below(need) for pool in pools)
        kv_check = worst if not config.auto_length else max(p.chance_below(1) for p in pools)
        state_check = max(
            pool.chance_below(state_blocks * size)
            for pool, size in zip(pools, kv.bytes_per_block, strict=True)
        )
    kv_check, cache_check = max(kv_check, state_check), kv_check
    refusal = 1 - start_check * (1 - kv_check)
    if refusal <= _SURE:
        return Verdict(Answer.YES, None, refusal)
    answer = Answer.NO if refusal >= _HOPELESS else Answer.RISKY
    if 1 - start_check > kv_check:
        kind, reason = RefusalKind.FREE_MEMORY, start.reason
    elif kv.fits and state_check > cache_check:
        kind = RefusalKind.STATE_BLOCKS
        reason = (
            f"{state_blocks} requests at once (max_num_seqs) need as many blocks for their "
            f"recurrent states; the cache has {kv.num_blocks}"
        )
    else:
        kind = RefusalKind.KV_ROOM
        reason = _kv_reason(min(pools, key=lambda pool: pool.value), need, kv, where)
    return Verdict(answer, Refusal(kind, reason), refusal)


def _kv_reason(pool: Quantity, need: int, kv: KVCachePlan, where: str) -> str:
    if not kv.groups:
        return f"weights and activations are {-pool.value / GIB:.2f} GiB too large {where}"
    if pool.value <= 0:
        return (
            f"weights and activations leave no memory for the KV cache: "
            f"{-pool.value / GIB:.2f} GiB too much {where}"
        )
    left = f"{pool.value / GIB:.2f} GiB are left"
    return (
        f"one request of {kv.max_model_len:,} tokens needs {need / GIB:.2f} GiB of KV cache "
        f"{where}; {left if pool.value < need else f'about {left}, perhaps less'}"
    )
