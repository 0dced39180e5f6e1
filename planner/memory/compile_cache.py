"""What compiling costs the KV cache at a first launch, when the compile cache is cold.

vLLM compiles inside its profile run, and what that takes at its peak counts like an activation:
nothing where another pass is larger, as on cards that batch a thousand requests, but more than a
GiB on small ones.
"""

from __future__ import annotations

from planner.engine.defaults import ResolvedConfig
from planner.engine.device import DeviceFacts, Platform
from planner.engine.releases import Release
from planner.memory.constants import GIB, constant
from planner.quantity import Quantity


def cold_compile(
    activation: Quantity, config: ResolvedConfig, device: DeviceFacts, release: Release
) -> Quantity:
    """Bytes that compiling takes beyond the activation peak.

    The value is that of a warm cache, nothing; the band reaches to a cold one.
    """
    if config.given.enforce_eager or device.platform is not Platform.CUDA:
        return Quantity.exact(0)
    peak = constant("cold_compile_gib", release).times(GIB)
    beyond = max(0.0, peak.value - activation.value)
    return Quantity(0.0, 0.0, beyond, peak.basis, peak.source)
