"""Number formats of a plan that its GPU has no units for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.engine.device import COMPUTES, Platform, computes_in
from planner.findings import Finding, Severity
from planner.memory.plan import MemoryPlan

_FP8_CACHE: Final = (8, 9)
_HALF_ONLY: Final = (8, 0)


def about_formats(memory: MemoryPlan) -> Iterator[Finding]:
    """What is only stored in such a format, and what is lost by another."""
    card, device, config = memory.card, memory.device, memory.config
    if device.platform is not Platform.CUDA or device.capability is None:
        return
    has = f"compute capability {device.capability[0]}.{device.capability[1]}"
    if not computes_in(card.format_kind, device):
        needed = COMPUTES[card.format_kind]
        name = card.format_kind.upper()
        text = (
            f"{has} computes nothing in {name} (that takes {needed[0]}.{needed[1]}): the weights "
            "are unpacked to 16 bit in every step; they save memory, not arithmetic"
        )
        yield Finding("weight_only", Severity.INFO, text)
    if config.kv_cache_dtype.startswith("fp8") and device.capability < _FP8_CACHE:
        text = (
            f"{has} has no FP8 units: an fp8 KV cache is converted in every step; it saves memory"
        )
        yield Finding("emulated_kv_cache", Severity.INFO, text + ", and costs time")
    lost = card.dtype == "bfloat16" and config.dtype == "float16"
    if lost and device.capability < _HALF_ONLY:
        text = f"{has} has no bfloat16: the model runs in float16, whose range is smaller"
        yield Finding("no_bfloat16", Severity.WARNING, text, "watch for answers that overflow")
