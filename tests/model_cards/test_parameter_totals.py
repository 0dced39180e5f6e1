"""Parameter counts against the totals that the Hub states from safetensors headers.

Independent of vLLM and of any formula here: a wrong module, bias or norm shows at once.
"""

from __future__ import annotations

import pytest

from model_cards.card import ModelCard, module_bytes
from model_cards.errors import CardError
from model_cards.modules import Experts, Linear
from model_cards.sources.bundled import Entry, entries, open_bundled

# The MTP layers of MiMo V2 Flash that vLLM leaves out, the second and third: attention, MLP,
# projection, norms and sinks; with the block scales of q, k, v and the MLP.
_MIMO_MTP = 4096 * (64 * 192 + 8 * 192 + 8 * 128 + 64 * 128) + 3 * 4096 * 16384
_MIMO_MTP += 2 * 4096 * 4096 + 5 * 4096 + 64
_MIMO_MTP_SCALES = 32 * (96 + 12 + 8) + 3 * 32 * 128
# Scales of the 128x128 blocks of MiniMax M2's layers: q, k and v, output, three an expert.
_MINIMAX_M2_SCALES = 62 * (24 * 64 + 24 * 48 + 256 * 3 * 24 * 12)

# What some checkpoints hold beside the network that vLLM loads.
EXTRA = {
    # Published without its scales.
    "MiniMaxAI/MiniMax-M2": -_MINIMAX_M2_SCALES,
    "MiniMaxAI/MiniMax-M2.7": -_MINIMAX_M2_SCALES,
    # Its MTP layer has no copy of embedding and head: twice vocabulary x hidden size.
    "zai-org/GLM-4.6": -2 * 151552 * 5120,
    **dict.fromkeys(
        (
            "zai-org/GLM-5",
            "zai-org/GLM-5.1",
            "zai-org/GLM-5.2",
            "zai-org/GLM-5.2-FP8",
            "zai-org/GLM-5.3",
        ),
        -2 * 154880 * 6144,
    ),
    # The same, with the block scales of a matrix of every layer's indexer that vLLM runs in 16 bit.
    "zai-org/GLM-5-FP8": -2 * 154880 * 6144 + 79 * 48,
    "zai-org/GLM-5.1-FP8": -2 * 154880 * 6144 + 79 * 48,
    # Two more MTP layers; and k scales of the 9 full layers are blocks of each head: 8 rows for 4
    # heads of 192 instead of 6, with 32 columns.
    "XiaomiMiMo/MiMo-V2-Flash": 2 * (_MIMO_MTP + _MIMO_MTP_SCALES) + 9 * 2 * 32,
    # An lm_head kept although embeddings are tied: vocabulary x hidden size.
    "Qwen/Qwen3-0.6B": 151936 * 1024,
    "Qwen/Qwen3-0.6B-FP8": 151936 * 1024,
    "Qwen/Qwen3-1.7B": 151936 * 2048,
    "Qwen/Qwen3-1.7B-FP8": 151936 * 2048,
    "Qwen/Qwen3-4B-FP8": 151936 * 2560,
    # CLIP's last layer and final norm, whose output nobody reads: attention, MLP, norms.
    "microsoft/Phi-3.5-vision-instruct": (
        4 * (1024 + 1) * 1024 + 2 * 1024 * 4096 + 4096 + 1024 + 4 * 1024 + 2 * 1024
    ),
    # Keys, values and the norm of keys of the 15 layers that read another layer's cache.
    "google/gemma-3n-E4B-it": 15 * (2 * 2 * 256 * 2048 + 256),
    # The list of unquantized modules names tower and projector, vLLM compares whole paths and
    # quantizes both: scales of weight and input that the checkpoint lacks, of the 7 matrices of
    # each of 24 layers, and of the projector's 2.
    "mistralai/Devstral-Small-2-24B-Instruct-2512": -2 * (24 * 7 + 2),
    # Totals without the fp32 correction bias of every router (the one in the MTP head too).
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": -23 * 128,
    "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16": -(48 + 1) * 512,
    # Keys and values of the 20 (18) layers that read another layer's cache: one (two) heads of
    # 256 in 16 (15) sliding and of 512 in 4 (3) full layers, with the norm of keys.
    "google/gemma-4-E2B-it": 16 * (2 * 1536 * 256 + 256) + 4 * (2 * 1536 * 512 + 512),
    "google/gemma-4-E4B-it": 15 * (2 * 2560 * 512 + 256) + 3 * (2 * 2560 * 1024 + 512),
    # A copy of the tied embedding; not counted are a scale for each layer and two for the tower.
    "google/gemma-4-26B-A4B": 262144 * 2816 - 30 - 2 * 1152,
    # Causal masks of every layer: layers x positions x positions.
    "openai-community/gpt2": 12 * 1024 * 1024,
    # Counted over embedding and matrices alone: without positions (2048 and an offset of 2), and
    # without biases (4 of attention, 4 + 1 of the MLP) and norms (2 of weight and bias) of 12
    # layers and the final norm.
    "facebook/opt-125m": -768 * (2048 + 2 + 12 * (4 + 4 + 1 + 2 * 2) + 2),
    # Rotary inverse frequencies of every layer: layers x half a head.
    "meta-llama/Llama-2-7b-hf": 32 * 64,
    "meta-llama/Llama-2-13b-hf": 40 * 64,
    "moonshotai/Kimi-K2-Instruct": 61 * 56,
    "moonshotai/Moonlight-16B-A3B-Instruct": 27 * 64,
}
# Repositories whose published total counts something else than the tensors of its format.
COUNTED_OTHERWISE = {
    "awq": "the Hub counts AWQ's packed integers as the weights they hold",
    "gptq": "the Hub counts GPTQ's packed integers as the weights they hold",
}


def is_exact(model_id: str) -> bool:
    try:
        card = open_bundled(model_id)
    except CardError:
        return False
    return card is not None and card.exact


def modelled() -> list[Entry]:
    """Checkpoints that are modelled module by module, with a published total."""
    return [
        entry
        for entry in entries()
        if entry.kind == "target" and entry.parameters is not None and is_exact(entry.model_id)
    ]


def scales(card: ModelCard) -> int:
    """Scale elements of an FP8 or int8 checkpoint."""
    total = 0
    for module in card.checkpoint_modules():
        if isinstance(module, Linear):
            sizes = [output.size for output in module.outputs]
            stored = module.format.tensors(module.inputs, sizes, 2)
            total += sum(tensor.elements for tensor in stored if "scale" in tensor.name)
        elif isinstance(module, Experts):
            up = module.format.tensors(module.hidden, module.up_outputs, 2)
            down = module.format.tensors(module.intermediate, (module.hidden,), 2)
            total += module.count * sum(t.elements for t in (*up, *down) if "scale" in t.name)
    return total


@pytest.mark.parametrize("entry", modelled(), ids=lambda entry: entry.model_id)
def test_parameters_equal_the_published_total(entry: Entry) -> None:
    card = open_bundled(entry.model_id)
    assert card is not None
    extra = EXTRA.get(entry.model_id, 0)
    if card.quantization in COUNTED_OTHERWISE or card.quantization is None:
        assert card.checkpoint_parameters + extra == entry.parameters
    elif card.quantization == "fp8" or card.format_kind == "w8a8" or "dynamic" in entry.model_id:
        # Published for some revisions with, for some without the scales.
        parameters = card.checkpoint_parameters + extra
        assert entry.parameters in (parameters, parameters + scales(card))
    elif card.format_kind == "fp8":  # static: a handful of scalars
        assert abs(card.checkpoint_parameters - entry.parameters) <= scales(card)
    else:
        # 4-bit: how the Hub counts packed elements differs by format and tool.
        assert entry.parameters < card.checkpoint_parameters * 1.04


def test_many_models_are_checked() -> None:
    assert len(modelled()) >= 130


def test_bytes_of_an_unquantized_checkpoint() -> None:
    """Devstral-Small-2507's index states 47,144,806,400 bytes for its bf16 files."""
    card = open_bundled("mistralai/Devstral-Small-2507")
    assert card is not None
    assert sum(module_bytes(module, 2) for module in card.modules()) == 47_144_806_400


def test_packed_nvfp4_elements() -> None:
    """Qwen3-235B-A22B-NVFP4 stores N/2 bytes and N/16 scales of every attention and expert weight.

    The Hub counts 132,806,618,624 stored elements, scalars aside.
    """
    card = open_bundled("nvidia/Qwen3-235B-A22B-NVFP4")
    assert card is not None
    stored = 0
    for module in card.modules():
        if isinstance(module, Linear):
            sizes = [output.size for output in module.outputs]
            stored += sum(t.elements for t in module.format.tensors(module.inputs, sizes, 2))
            stored += sum(sizes) if module.bias else 0
        elif isinstance(module, Experts):
            up = module.format.tensors(module.hidden, module.up_outputs, 2)
            down = module.format.tensors(module.intermediate, (module.hidden,), 2)
            stored += module.count * sum(t.elements for t in (*up, *down))
        else:
            stored += module.elements
    scalars = 94 * (2 * 3 + 2 + 128 * 3 * 2)  # global and input scale of every projection
    assert stored - 132_806_618_624 <= scalars
    assert stored >= 132_806_618_624
