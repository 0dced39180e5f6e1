"""DeepSeek V4: published totals, and what its layers keep."""

from __future__ import annotations

import pytest

from model_cards.caches import Attention, AttentionKind
from model_cards.card import ModelCard
from model_cards.modules import Experts, Linear, Tensor
from model_cards.quantization.fp8 import Fp8, Granularity
from model_cards.quantization.mxfp4 import Mxfp4
from model_cards.quantization.nvfp4 import Nvfp4
from model_cards.sources.bundled import open_bundled

FLASH, PRO = "deepseek-ai/DeepSeek-V4-Flash", "deepseek-ai/DeepSeek-V4-Pro"


def card_of(model_id: str) -> ModelCard:
    card = open_bundled(model_id)
    assert card is not None
    assert card.exact
    return card


@pytest.mark.parametrize(
    ("model_id", "total"), [(FLASH, 290_944_616_402), (PRO, 1_598_839_674_782)]
)
def test_published_totals_count_weights_and_routing_tables(model_id: str, total: int) -> None:
    """Without the scales; the tables that route by token are 3 x vocabulary x 6."""
    card = card_of(model_id)
    assert card.checkpoint_parameters == total
    tables = [m for m in card.modules() if isinstance(m, Tensor) and m.name == "ffn.gate.tid2eid"]
    assert sum(table.elements for table in tables) == 3 * 129280 * 6


@pytest.mark.parametrize(
    ("model_id", "released", "layers", "count", "hidden", "inner", "fp8_scales"),
    [
        ("nvidia/DeepSeek-V4-Flash-NVFP4", FLASH, 43, 256, 4096, 2048, 367_616),
        ("nvidia/DeepSeek-V4-Pro-NVFP4", PRO, 61, 384, 7168, 3072, 1_414_144),
    ],
)
def test_published_totals_of_nvfp4_count_what_is_stored(
    model_id: str,
    released: str,
    layers: int,
    count: int,
    hidden: int,
    inner: int,
    fp8_scales: int,
) -> None:
    """Two weights a byte with their block scales, and no scalars.

    The experts of the MTP layer stay in MXFP4: a scale for 32 weights instead of 16.
    """
    each = count * 3 * hidden * inner
    others = card_of(released).checkpoint_parameters - (layers + 1) * each
    packed = layers * (each // 2 + each // 16) + each // 2 + each // 32
    card = card_of(model_id)
    assert card.checkpoint_parameters - (layers + 1) * each == others
    published = {"nvidia/DeepSeek-V4-Flash-NVFP4": 166_726_476_754}
    published["nvidia/DeepSeek-V4-Pro-NVFP4"] = 909_964_405_662
    assert others + fp8_scales + packed == published[model_id]
    assert stored_scales(card) == fp8_scales


def stored_scales(card: ModelCard) -> int:
    """Scales of the FP8 blocks: powers of two in a byte each."""
    total = 0
    for module in card.checkpoint_modules():
        if isinstance(module, Linear) and isinstance(module.format, Fp8):
            sizes = [output.size for output in module.outputs]
            scales = module.format.tensors(module.inputs, sizes, 2)[1]
            assert scales.elements == scales.bytes
            total += scales.elements
    return total


def test_nvidia_made_over_all_experts_but_the_mtp_layers() -> None:
    card = card_of("nvidia/DeepSeek-V4-Flash-NVFP4")
    formats = {m.format for m in card.modules() if isinstance(m, Experts)}
    drafting = {m.format for m in card.drafts[0].every_module() if isinstance(m, Experts)}
    assert formats == {Nvfp4()}
    assert drafting == {Mxfp4(quantized_input=True)}


def test_fp8_checkpoints_of_other_makers_are_plain_blocks() -> None:
    """Their model_type is not DeepSeek's, so vLLM reads them as any FP8: scales in fp32."""
    card = card_of("sgl-project/DeepSeek-V4-Flash-FP8")
    assert card.quantization == "fp8"
    formats = {m.format for m in card.modules() if isinstance(m, Experts)}
    assert formats == {Fp8(Granularity.BLOCK, (128, 128))}


def test_flash_keeps_windows_everywhere_and_compressed_vectors_behind_two_layers() -> None:
    """43 layers: 2 with the window alone, 21 of CSA and 20 of HCA between them."""
    layers = card_of(FLASH).layers
    caches = [c for layer in layers for c in layer.caches if isinstance(c, Attention)]
    kinds = [cache.kind for cache in caches]
    assert kinds.count(AttentionKind.SLIDING_MLA) == 43
    assert kinds.count(AttentionKind.INDEXER) == 21
    assert kinds.count(AttentionKind.COMPRESSOR) == 21 + 21 + 20
    compressed = [c.compression for c in caches if c.kind is AttentionKind.MLA]
    assert compressed == [4, 128] * 20 + [4]
    # CSA's windows overlap: two spans of 4 tokens, vector and gate of 512 in each.
    states = {(c.window, c.head_size) for c in caches if c.kind is AttentionKind.COMPRESSOR}
    assert states == {(8, 2 * 2 * 512), (8, 2 * 2 * 128), (128, 2 * 512)}


def test_newer_configs_name_layers_by_type() -> None:
    """transformers writes `layer_types`, `compress_rates` and `mlp_layer_types` instead."""
    from model_cards.build import Facts, build_card
    from model_cards.card import Origin
    from model_cards.config import Config
    from model_cards.sources.bundled import bundled_config

    found = bundled_config(FLASH)
    assert found is not None
    values = {key: found[0].raw(key) for key in found[0]}
    names = {0: "sliding_attention", 4: "compressed_sparse_attention"}
    names[128] = "heavily_compressed_attention"
    values["layer_types"] = [names[ratio] for ratio in values.pop("compress_ratios")]
    values["compress_rates"] = {names[4]: 4, names[128]: 128}
    values["mlp_layer_types"] = ["hash_moe"] * values.pop("num_hash_layers") + ["moe"] * 40
    card = build_card(FLASH, Config(values, "config.json"), Origin("bundled", "test"), Facts())
    assert card.layers == card_of(FLASH).layers


def test_layers_share_rotary_tables_in_fp32() -> None:
    """Windows alone have plain RoPE, compressed layers YaRN: 2^20 positions of 64 each."""
    flash, pro = card_of(FLASH), card_of(PRO)
    tables = {table for layer in flash.layers for table in layer.rotary}
    assert {(t.rows, t.width, t.dtype) for t in tables} == {(2**20, 64, "float32")}
    assert len(tables) == 2
    assert len({table for layer in pro.layers for table in layer.rotary}) == 1
    assert pro.drafts[0].layers[0].rotary == flash.layers[0].rotary
