"""What compiling costs the KV cache at a first launch, when the compile cache is cold.

Memory that compilation takes while vLLM profiles is gone for the cache. It was seen with drafts and
recurrent layers, whose graphs are compiled in many parts; launches of plain models show none.
"""

from __future__ import annotations

from model_cards.card import ModelCard
from planner.engine.defaults import ResolvedConfig
from planner.engine.device import DeviceFacts, Platform
from planner.engine.releases import Release
from planner.memory.constants import GIB, constant
from planner.quantity import Quantity


def cold_compile(
    card: ModelCard, config: ResolvedConfig, device: DeviceFacts, release: Release
) -> Quantity:
    """Nothing with a warm cache, which is the value; the band reaches to a cold one."""
    drafts = config.speculation is not None and config.speculation.draft is not None
    compiles = not config.given.enforce_eager and device.platform is Platform.CUDA
    if not compiles or not (card.states or drafts):
        return Quantity.exact(0)
    cold = constant("cold_compile_gib", release).times(GIB)
    return Quantity(0.0, 0.0, cold.value, cold.basis, cold.source)
