"""Workspaces of the fused kernels that run routed experts.

Two of them: every token once for each expert it visits, as wide as the hidden size or the expert's
own (`workspace_shapes` of the kernels in model_executor/layers/fused_moe).
"""

from __future__ import annotations

from model_cards.card import ModelCard
from model_cards.modules import Experts
from model_cards.quantization.mxfp4 import Mxfp4
from model_cards.quantization.nvfp4 import Nvfp4
from planner.engine.defaults import ResolvedConfig
from planner.engine.device import DeviceFacts
from planner.engine.moe import MoeKernel, mxfp4_kernel
from planner.engine.releases import Release
from planner.memory.constants import constant
from planner.quantity import Quantity


def moe_workspaces(
    card: ModelCard, config: ResolvedConfig, device: DeviceFacts, release: Release
) -> Quantity:
    """Bytes of the workspaces for a full batch on one rank; 0 for kernels that keep none."""
    experts = _routed(card)
    if experts is None or _without_workspaces(experts, device):
        return Quantity.exact(0)
    given = config.given
    share = experts.intermediate
    if not given.enable_expert_parallel:
        share //= given.tensor_parallel_size
    up = share * len(experts.up_outputs)
    rows = config.max_num_batched_tokens * experts.active
    size = rows * (max(share, experts.hidden) + max(up, experts.hidden)) * config.dtype_bytes
    return constant("moe_workspaces", release).times(size)


def _without_workspaces(experts: Experts, device: DeviceFacts) -> bool:
    """OpenAI's Triton kernels, and TRT-LLM's on the B200 family, bring their own."""
    if isinstance(experts.format, Mxfp4):
        kernel, _ = mxfp4_kernel(experts.format, device.capability)
        return kernel in (MoeKernel.TRITON, MoeKernel.TRTLLM)
    return isinstance(experts.format, Nvfp4) and device.is_sm100


def _routed(card: ModelCard) -> Experts | None:
    """The routed experts of the first MoE layer."""
    for layer in card.layers:
        for module in layer.modules:
            if isinstance(module, Experts):
                return module
    return None
