"""DeepSeek V4.1: what its layers hold and share, its tables of n-grams, and its drafts."""

from __future__ import annotations

from model_cards.caches import Attention, AttentionKind
from model_cards.card import ModelCard
from model_cards.modules import Experts, HostTable, Linear, Shard
from model_cards.quantization.fp8 import Fp8
from model_cards.quantization.mxfp4 import Mxfp4
from model_cards.quantization.mxfp8 import Mxfp8
from model_cards.quantization.nvfp4 import Nvfp4
from model_cards.sources.bundled import open_bundled

FLASH, NVFP4 = "deepseek-ai/DeepSeek-V4.1-Flash", "nvidia/DeepSeek-V4.1-Flash-NVFP4"
HIDDEN, HEADS, HEAD_SIZE, LAYERS = 5120, 64, 512, 40
RANK, GROUPS, GROUP_RANK = 1280, 8, 1024


def flash() -> ModelCard:
    card = open_bundled(FLASH)
    assert card is not None
    assert card.exact
    return card


def test_published_total() -> None:
    """By hand: attention, experts, streams; sources of vectors and picks; tables; tower; draft."""
    attention = HIDDEN * (RANK + HEAD_SIZE) + RANK * HEADS * HEAD_SIZE + RANK + HEAD_SIZE + HEADS
    attention += HEADS // GROUPS * HEAD_SIZE * GROUPS * GROUP_RANK + GROUPS * GROUP_RANK * HIDDEN
    streams = 2 * ((2 + 4) * 4 * 4 * HIDDEN + (2 + 4) * 4 + 3) + 2 * HIDDEN

    def experts(count: int) -> int:  # with router, two biases of it and the shared expert
        return count * HIDDEN + 2 * count + (count + 1) * 3 * HIDDEN * 2304

    compressors = 3 * (2 * HIDDEN * HEAD_SIZE + HEAD_SIZE) + HIDDEN * HEAD_SIZE + HEAD_SIZE
    indexers = 8 * (RANK * 32 * 128 + HIDDEN * 32) + 4 * (HEAD_SIZE * 128 + 128)
    rows = (384_006_168, 384_016_682)
    engram = sum(n * 256 + 24 * 256 * 5 * HIDDEN + 2 * 4 * HIDDEN for n in rows)
    block = 4 * 1024**2 + 4 * 1024 + 3 * 1024 * 2816 + 2 * 1024
    vision = 3 * 14**2 * 1024 + 1024 + 32 * block + 1024
    vision += 9 * 1024 * HIDDEN + HIDDEN + HIDDEN**2 + HIDDEN + 3 * HIDDEN
    draft = 3 * (attention + experts(128) + streams) + 3 * HIDDEN**2 + 2 * HIDDEN
    draft += 2 * 129280 * 256 + HIDDEN + 256
    total = LAYERS * (attention + experts(384) + streams) + compressors + indexers
    total += 2 * 129280 * HIDDEN + HIDDEN + engram + vision + draft
    assert flash().checkpoint_parameters == total == 763_205_315_794


def test_few_layers_keep_vectors_for_all() -> None:
    """Layers 2, 8 and 14 compress two tokens into one, 20 keeps one a token."""
    kept = {
        index: [(c.kind, c.compression) for c in layer.caches if isinstance(c, Attention)]
        for index, layer in enumerate(flash().layers)
        if len(layer.caches) > 1
    }
    window, ring = (AttentionKind.SLIDING_MLA, 1), (AttentionKind.TAIL, 1)
    pairs = [(AttentionKind.MLA, 2), (AttentionKind.INDEXER, 2), window, ring]
    single = [(AttentionKind.MLA, 1), (AttentionKind.INDEXER, 1), window]
    assert kept == {2: pairs, 8: pairs, 14: pairs, 20: single}


def test_picks() -> None:
    """512 vectors a token; layer 20 proposes 2,048 blocks to the indexers behind it."""
    picks = {(c.kind, c.index_topk) for c in flash().caches() if isinstance(c, Attention)}
    assert (AttentionKind.MLA, 512) in picks
    assert {topk for kind, topk in picks if kind is AttentionKind.INDEXER} == {None, 2048}


def test_pipeline_stages_begin_where_nothing_before_is_read() -> None:
    assert flash().stage_starts == {0, 1, 2, 8, 14, 20}


def test_tables_of_n_grams() -> None:
    """A byte a value and one for every 32; 2- to 4-grams by 8 heads are 24 rows a token."""
    tables = [m for m in flash().modules() if isinstance(m, HostTable)]
    assert [table.rows for table in tables] == [384_006_168, 384_016_682]
    assert {(table.width, table.lookups) for table in tables} == {(256, 24)}
    assert tables[0].bytes == 384_006_168 * (256 + 8)
    assert any("188.8 GiB" in note for note in flash().notes)  # 768,022,850 x 264


def test_active_parameters_count_the_rows_looked_up() -> None:
    """About 16 billion, as published, of 763."""
    assert 15.5e9 < flash().active_parameters < 16.5e9


def test_blocks_of_32_are_mxfp8() -> None:
    linears = {m.name: m for m in flash().layers[2].modules if isinstance(m, Linear)}
    assert linears["attn.wq_b"].format == Mxfp8()
    assert linears["attn.wo_a"].batched
    shared = linears["ffn.shared_experts.gate_up_proj"]
    assert (shared.block, shared.shard) == (32, Shard.COLUMN)
    assert not isinstance(linears["attn.compressor.fused_wkv_wgate"].format, Fp8 | Mxfp8)


def test_the_draft_has_stages_of_the_model_with_fewer_experts() -> None:
    draft = flash().drafts[0]
    assert draft.method == "dspark"
    experts = [m for m in draft.every_module() if isinstance(m, Experts)]
    assert [(m.count, m.active) for m in experts] == [(128, 3)] * 3
    assert draft.target_features == 3 * HIDDEN


def test_nvfp4_experts_leave_the_draft_as_released() -> None:
    card = open_bundled(NVFP4)
    assert card is not None
    assert {m.format for m in card.modules() if isinstance(m, Experts)} == {Nvfp4()}
    drafting = {m.format for m in card.drafts[0].every_module() if isinstance(m, Experts)}
    assert drafting == {Mxfp4(quantized_input=True)}
