"""Memory of captured CUDA graphs, which vLLM 0.20.0 and newer take out of the KV cache's share."""

from __future__ import annotations

from msgspec.structs import replace

from planner.engine.defaults import ResolvedConfig
from planner.engine.device import Platform
from planner.engine.releases import Release
from planner.memory.constants import GIB, constant
from planner.quantity import Quantity


def cuda_graph_estimate(layers: int, config: ResolvedConfig, release: Release) -> Quantity:
    """vLLM's own estimate for a rank of so many layers: a pool, and a part for every graph."""
    sizes = len(config.cudagraph_sizes)
    if sizes == 0:
        return Quantity.exact(0, "no CUDA graphs")
    base = constant("cudagraph_base_gib", release)
    per_size = constant("cudagraph_per_size_gib", release).times(sizes)
    per_layer = constant("cudagraph_per_size_and_layer_gib", release).times(sizes * layers)
    value = base.value + per_size.value + per_layer.value
    # One fit, one band: the parts do not err independently.
    share = base.high / base.value - 1
    estimate = Quantity.within(value * GIB, share, base.basis)
    return replace(estimate, source=f"{sizes} graph sizes x {layers} layers")


def counted(release: Release, platform: Platform) -> bool:
    """Whether the estimate is taken out of the KV cache's share in this release."""
    return platform.value in release.fact("cudagraph_estimate_subtracted")
