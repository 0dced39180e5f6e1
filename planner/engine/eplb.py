"""Expert load balancing (`--enable-eplb`): copies of busy experts, and what cannot be balanced.

From vLLM 0.33.0's config/parallel.py and the `supports_eplb` of its quantization methods.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from model_cards.card import ModelCard
from model_cards.modules import Experts
from model_cards.quantization.awq import Awq
from model_cards.quantization.formats import WeightFormat
from model_cards.quantization.fp8 import Fp8
from model_cards.quantization.gptq import Gptq
from model_cards.quantization.integers import Int8, PackedInt
from model_cards.quantization.mxfp4 import Mxfp4
from model_cards.quantization.mxfp8 import Mxfp8
from model_cards.quantization.nvfp4 import Nvfp4
from planner.engine.architectures import supports_balancing
from planner.engine.device import DeviceFacts, Platform
from planner.engine.releases import Release
from planner.engine_config import EngineConfig, EplbConfig

# Their experts can move, but have no copies whatever was asked for.
_WITHOUT_COPIES: Final = frozenset(
    f"Gemma4{kind}" for kind in ("ForCausalLM", "ForConditionalGeneration")
)


class ExpertBalancing(Struct, frozen=True):
    """Balancing of a launch: copies of experts in every layer, steps whose loads are kept."""

    num_redundant_experts: int
    window_size: int


def expert_balancing(
    card: ModelCard, config: EngineConfig, release: Release
) -> ExpertBalancing | None:
    """What is balanced; None if it is not asked for, or the model class takes no part in it."""
    if not config.enable_eplb or not card.is_moe:
        return None
    if not supports_balancing(card.architecture, release):
        return None
    settings = config.eplb_config or EplbConfig()
    copies = 0 if card.architecture in _WITHOUT_COPIES else settings.num_redundant_experts
    return ExpertBalancing(copies, settings.window_size)


def balancing_problem(
    card: ModelCard, device: DeviceFacts, config: EngineConfig, balancing: ExpertBalancing | None
) -> str | None:
    """Why vLLM refuses to spread or balance experts."""
    if config.enable_expert_parallel and not card.is_moe:
        return "--enable-expert-parallel needs a model with experts"
    if not config.enable_eplb:
        if config.eplb_config is not None and config.eplb_config.num_redundant_experts:
            return "num_redundant_experts needs --enable-eplb"
        return None
    ranks = config.tensor_parallel_size * config.data_parallel_size
    if device.platform is Platform.CPU:
        return "EPLB is for GPUs only"
    if not config.enable_expert_parallel:
        return "EPLB needs --enable-expert-parallel"
    if ranks <= 1:
        return "EPLB needs tensor or data parallelism"
    for experts in _routed(card):
        if balancing is None and not isinstance(experts.format, Mxfp4):
            continue  # a class that does not know of it; gpt-oss's does, but takes no part
        if not _can_move(experts.format, card.quantization, device):
            return f"EPLB is not supported for experts in {experts.format.label}"
        copies = balancing.num_redundant_experts if balancing is not None else 0
        if (experts.count + copies) % ranks:
            return (
                f"{experts.count} experts and {copies} redundant ones cannot be spread evenly "
                f"over {ranks} ranks"
            )
    return None


def _routed(card: ModelCard) -> list[Experts]:
    """The different kinds of routed experts."""
    modules = (module for layer in card.layers for module in layer.modules)
    return list(dict.fromkeys(module for module in modules if isinstance(module, Experts)))


def _can_move(format_: WeightFormat, method: str | None, device: DeviceFacts) -> bool:
    """Whether vLLM can copy experts of this format from rank to rank while it serves."""
    match format_:
        case Awq() | Gptq() | PackedInt() | Int8():
            return False
        case Mxfp4():  # gpt-oss, whose activations stay in 16 bits, has a class of its own
            return format_.quantized_input
        case Fp8() | Mxfp8():
            return method != "modelopt"
        case Nvfp4() if method == "compressed-tensors":
            return device.is_sm100 and format_.quantized_input
    return True
