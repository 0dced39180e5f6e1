"""KV caches whose pages of several sizes lie side by side: DeepSeek V4 as vLLM 0.33.0 groups it."""

from __future__ import annotations

import pytest

from hardware_db import find_gpu
from model_cards.caches import AttentionKind
from model_cards.card import ModelCard
from model_cards.modules import Linear
from model_cards.quantization.mxfp4 import Mxfp4
from model_cards.sources.bundled import open_bundled
from planner.engine.deepseek_v4 import padded_heads
from planner.engine.defaults import ResolvedConfig, resolve
from planner.engine.device import DeviceFacts, device_facts
from planner.engine.moe import MoeKernel, mxfp4_kernel
from planner.engine.refusal import RefusalKind
from planner.engine.releases import find_release
from planner.engine.rules import refusals
from planner.engine_config import EngineConfig, SpeculativeConfig
from planner.memory.kv_groups import NoCommonLayout
from planner.memory.kv_packing import packed
from planner.memory.kv_specs import KVCacheSpec, SpecKind
from planner.memory.loaded import LoadedModel, load_model
from planner.memory.parallel import local_linear

FLASH, PRO = "deepseek-ai/DeepSeek-V4-Flash", "deepseek-ai/DeepSeek-V4-Pro"
RELEASE = find_release("0.33.0")


def card_of(model_id: str) -> ModelCard:
    card = open_bundled(model_id)
    assert card is not None
    return card


def settled(
    model_id: str, gpu: str, given: EngineConfig
) -> tuple[ModelCard, ResolvedConfig, DeviceFacts]:
    card, device = card_of(model_id), device_facts(find_gpu(gpu).gpu)
    return card, resolve(card, device, given, RELEASE), device


def loaded(model_id: str, gpu: str, given: EngineConfig) -> LoadedModel:
    card, config, device = settled(model_id, gpu, given)
    return load_model(card, config, device)


def spec(page: int, kind: SpecKind = SpecKind.MLA, block: int = 256) -> KVCacheSpec:
    return KVCacheSpec(kind, block, page, window=128 if kind is SpecKind.SLIDING_MLA else None)


def test_pages_of_flash() -> None:
    """Records of 584 B, states of fp32; pages are rounded up to 576 B.

    64 vectors: 37,376 -> 37,440. 2 vectors for 256 tokens: 1,168 -> 1,728. The indexer's 64 of
    132 B: 8,448 -> 8,640. States: 4 of 2,048 and of 512 values, 8 of 1,024: 32,768 -> 32,832 and
    8,192 -> 8,640.
    """
    model = loaded(FLASH, "h100-sxm", EngineConfig())
    pages = [
        sorted({spec.page_size_bytes for spec in group.distinct}) for group in model.cache.groups
    ]
    assert pages == [[37440], [37440], [1728, 8640, 37440], [8640, 32832], [32832]]
    assert [group.block_size for group in model.cache.groups] == [64, 64, 256, 4, 8]


def test_groups_of_flash_and_pro() -> None:
    """As vLLM says: layers of each group, and the bytes of a block of the widest."""
    flash = loaded(FLASH, "h100-sxm", EngineConfig()).cache.groups
    pro = loaded(PRO, "h200", EngineConfig(tensor_parallel_size=4)).cache.groups
    assert [len(group.layers) for group in flash] == [22, 21, 62, 42, 20]
    assert [len(group.layers) for group in pro] == [31, 30, 91, 31, 60]
    assert max(group.page_bytes() for group in flash) == 21 * (8640 + 37440) + 20 * 1728
    assert max(group.page_bytes() for group in pro) == 30 * (8640 + 37440) + 31 * 1728


def test_the_mtp_layer_joins_the_windows() -> None:
    given = EngineConfig(speculative_config=SpeculativeConfig("mtp", 2))
    groups = loaded(FLASH, "b200", given).cache.groups
    assert [len(group.layers) for group in groups] == [22, 22, 62, 42, 20]


def test_residual_streams_are_kept_for_the_mtp_layer() -> None:
    """4 streams of 4096 in bf16 for each of 16,384 tokens, and once more for the draft to read.

    The draft shares the indices that the target's indexers pick: 512 of each token.
    """
    given = EngineConfig(speculative_config=SpeculativeConfig("mtp", 2))
    buffers = loaded(FLASH, "b200", given).stages[0].buffers
    assert buffers.streams == buffers.draft == 16384 * 4 * 4096 * 2
    assert buffers.sparse == 16384 * 512 * 4
    assert loaded(FLASH, "b200", EngineConfig()).stages[0].buffers.streams == 0


def test_pipeline_stages_pass_all_streams_on() -> None:
    """4 streams instead of hidden state and residual; a stage has the tables of its layers."""
    stages = loaded(FLASH, "h100-sxm", EngineConfig(pipeline_parallel_size=2)).stages
    assert [stage.buffers.hidden for stage in stages] == [0, 8192 * 4 * 4096 * 2]
    assert [stage.weights.rotary for stage in stages] == [2 * 2**20 * 64 * 4, 2**20 * 64 * 4]


@pytest.mark.parametrize(("ranks", "share"), [(1, 3072), (8, 384), (16, 256), (24, 128)])
def test_shared_experts_are_split_in_whole_blocks(ranks: int, share: int) -> None:
    """Of Pro's 24 blocks of 128 features each of 16 ranks has two, the last ones zeros."""
    linears = [m for m in card_of(PRO).layers[0].modules if isinstance(m, Linear)]
    up = next(m for m in linears if m.name == "ffn.shared_experts.gate_up_proj")
    down = next(m for m in linears if m.name == "ffn.shared_experts.w2")
    assert local_linear(up, ranks) == (7168, (share, share))
    assert local_linear(down, ranks) == (share, (7168,))


def test_kernels_take_so_many_query_heads() -> None:
    """FlashMLA 64 or 128, FlashInfer on SM 12.0 also fewer."""
    assert [padded_heads(heads, (9, 0)) for heads in (8, 64, 128)] == [64, 64, 128]
    assert [padded_heads(heads, (12, 0)) for heads in (8, 32, 128)] == [8, 32, 128]


def test_experts_for_quantized_activations_take_humming_on_hopper() -> None:
    """OpenAI's Triton kernels are gpt-oss's."""
    assert mxfp4_kernel(Mxfp4(), (9, 0))[0] is MoeKernel.TRITON
    assert mxfp4_kernel(Mxfp4(quantized_input=True), (9, 0))[0] is MoeKernel.HUMMING


def test_a_cache_in_16_bits_is_refused() -> None:
    card, config, device = settled(FLASH, "h100-sxm", EngineConfig(kv_cache_dtype="bfloat16"))
    assert [r.kind for r in refusals(card, device, config, RELEASE)] == [RefusalKind.BACKEND]


def test_vllm_cannot_cache_windows_of_latent_vectors_whole() -> None:
    """0.33.0: MLAAttentionSpec got an unexpected keyword argument 'bounded_replay'."""
    with pytest.raises(NoCommonLayout):
        loaded(FLASH, "h100-sxm", EngineConfig(disable_hybrid_kv_cache_manager=True))


def test_windows_of_latent_vectors_are_not_shared_among_ranks() -> None:
    """0.33.0: DCP not support sliding window."""
    given = EngineConfig(tensor_parallel_size=8, decode_context_parallel_size=2)
    card, config, device = settled(FLASH, "h200", given)
    found = [refusal.kind for refusal in refusals(card, device, config, RELEASE)]
    assert found == [RefusalKind.CONTEXT_PARALLEL]


def test_a_config_that_transformers_does_not_know_is_refused() -> None:
    """SGLang's copies say model_type deepseek_ref."""
    card, config, device = settled("sgl-project/DeepSeek-V4-Flash-FP8", "h200", EngineConfig())
    found = refusals(card, device, config, RELEASE)
    assert [refusal.kind for refusal in found] == [RefusalKind.ARCHITECTURE]
    assert "deepseek_ref" in found[0].reason


def test_patterns_set_the_size_of_groups() -> None:
    """One layer of 10 and one of 30 bytes, twice: 5 layers of 20 bytes are dealt out in twos.

    Twos leave one place empty, threes would leave two (one in each kind).
    """
    mixed = {0: spec(10), 1: spec(30), 2: spec(10), 3: spec(30)}
    alone = {index: spec(20, SpecKind.SLIDING_MLA, 64) for index in range(4, 9)}
    assert [tuple(group) for group in packed(mixed | alone)] == [(0, 1, 2, 3), (4, 7), (5, 8), (6,)]


def test_without_a_pattern_windows_fill_the_block() -> None:
    """Three layers of 40 bytes attend in full: four windows of 30 fit, so 9 are three groups."""
    full = {index: spec(40) for index in range(3)}
    window = {index: spec(30, SpecKind.SLIDING_MLA, 64) for index in range(3, 12)}
    assert [len(group) for group in packed(full | window)] == [3, 3, 3, 3]


def test_every_kind_of_cache_has_a_backend() -> None:
    model = loaded(FLASH, "rtx-5090", EngineConfig())
    names = {attention.kind: backend.name for attention, backend in model.backends.items()}
    assert names == {
        AttentionKind.SLIDING_MLA: "DEEPSEEK_SPARSE_SWA",
        AttentionKind.MLA: "FLASHINFER_MLA_SPARSE_DSV4",
        AttentionKind.INDEXER: "DEEPSEEK_V4_INDEXER",
        AttentionKind.COMPRESSOR: "CompressorBackend",
    }
