"""What runs out of memory after the KV cache was sized well: the warm-up behind the capture.

Before 0.20.0 CUDA graphs come out of what is not requested, and where OpenAI's Triton kernels run
experts the sampler's warm-up has failed with 3.96 GiB of an H100 not requested.
"""

from __future__ import annotations

from model_cards.card import ModelCard
from model_cards.modules import Experts
from model_cards.quantization.mxfp4 import Mxfp4
from planner.engine.device import DeviceFacts
from planner.engine.moe import MoeKernel, mxfp4_kernel
from planner.engine.releases import Release
from planner.memory.constants import GIB, constant
from planner.memory.verdict import Start
from planner.quantity import Quantity


def warm_up_check(
    card: ModelCard, device: DeviceFacts, release: Release, left: Quantity, graphs: Quantity
) -> Start | None:
    """The check of what is `left` of a device beside its request; None where nothing is known.

    `graphs` are those that do not count towards the request.
    """
    if not _runs_openai_kernels(card, device):
        return None
    asked = graphs + constant("mxfp4_warm_up_gib", release).times(GIB)
    why = "CUDA graphs and the warm-up of MXFP4 experts take"
    return Start(left - asked, left, asked, why, "after the KV cache is allocated")


def _runs_openai_kernels(card: ModelCard, device: DeviceFacts) -> bool:
    formats = {
        module.format
        for layer in card.layers[:1]
        for module in layer.modules
        if isinstance(module, Experts)
    }
    return any(
        isinstance(each, Mxfp4) and mxfp4_kernel(each, device.capability)[0] is MoeKernel.TRITON
        for each in formats
    )
