"""DeepSeek V4.1 as vLLM 0.33.0 lays it out: records, rings, strides, buffers, refusals."""

from __future__ import annotations

import pytest

from hardware_db import find_gpu
from model_cards.card import ModelCard
from model_cards.modules import HostTable
from model_cards.quantization.mxfp8 import Mxfp8
from model_cards.sources.bundled import open_bundled
from planner.engine.defaults import ResolvedConfig, resolve
from planner.engine.device import DeviceFacts, device_facts
from planner.engine.refusal import RefusalKind, Unloadable
from planner.engine.releases import find_release
from planner.engine.rules import refusals
from planner.engine_config import EngineConfig, SpeculativeConfig
from planner.memory.kv_groups import block_bytes
from planner.memory.loaded import LoadedModel, load_model
from planner.memory.parallel import Indivisible, local_lookups
from planner.memory.repacking import linear_bytes

RELEASE = find_release("0.33.0")
MIB = 2**20


def settled(gpu: str, given: EngineConfig) -> tuple[ModelCard, ResolvedConfig, DeviceFacts]:
    card = open_bundled("deepseek-ai/DeepSeek-V4.1-Flash")
    assert card is not None
    device = device_facts(find_gpu(gpu).gpu)
    return card, resolve(card, device, given, RELEASE), device


def loaded(gpu: str, **given: object) -> LoadedModel:
    settings = {"tensor_parallel_size": 8, "max_model_len": 8192} | given
    card, config, device = settled(gpu, EngineConfig(**settings))  # type: ignore[arg-type]
    return load_model(card, config, device)


def pages(model: LoadedModel) -> list[list[int]]:
    return [
        sorted({spec.page_size_bytes for spec in group.distinct}) for group in model.cache.groups
    ]


def test_pages_on_hopper() -> None:
    """Records of 584 B in pages of 576: 32 of the window, 64 and 32 vectors, keys of 132 B.

    18,688 -> 19,008; 37,376 -> 37,440 and 18,688 -> 19,008; 8,448 -> 8,640 and 4,224 -> 4,608.
    Rings are 8 tokens of 1,024 fp32 values.
    """
    found = pages(loaded("h200"))
    assert found == [[19008]] * 7 + [[4608, 8640, 19008, 37440], [32768]]


def test_pages_on_blackwell() -> None:
    """The window in MXFP8, 528 B a token, vectors in NVFP4, 288 B; 512 divides all pages.

    32 x 528 = 16,896; 128 x 288 = 36,864 and half of it; 128 x 132 = 16,896 and half, 8,448 ->
    8,704. Blocks hold whole records of either kind: multiples of 3,168 bytes.
    """
    model = loaded("b200")
    assert pages(model) == [[16896]] * 5 + [[8704, 16896, 18432, 36864], [32768]]
    widest = max(8 * 16896, 3 * (18432 + 8704) + 36864 + 16896)
    assert widest == 135_168
    assert block_bytes(model.cache.groups, None, aligned=True) == 43 * 3168 == 136_224


@pytest.mark.parametrize(
    ("gpu", "given", "size", "blocks"),
    [
        ("h200", {}, 116_928, [257] * 7 + [128, 1]),
        ("h200", {"block_size": 256}, 9_884_160, [257, 257, 32, 1]),
        ("b200", {}, 136_224, [257] * 5 + [64, 1]),
        ("b200", {"kv_cache_dtype": "fp8_ds_mla"}, 212_256, None),
        ("b200", {"block_size": 256}, 6_893_568, [257] * 3 + [32, 1]),
    ],
)
def test_blocks_as_vllm_plans_them(
    gpu: str, given: dict[str, object], size: int, blocks: list[int] | None
) -> None:
    model = loaded(gpu, **given)
    assert block_bytes(model.cache.groups, None, aligned=True) == size
    in_flight = 2 * (16384 if gpu == "b200" else 8192)
    if blocks is not None:
        assert [g.blocks_per_request(8192, in_flight) for g in model.cache.groups] == blocks


@pytest.mark.parametrize(("drafted", "tokens"), [(1, 8), (5, 8), (6, 8), (7, 16), (15, 32)])
def test_rings_hold_a_step_and_the_token_before(drafted: int, tokens: int) -> None:
    """1 + 6 drafts and the one before are 8; one more takes 16."""
    given = SpeculativeConfig("dspark", drafted)
    groups = loaded("h200", speculative_config=given).cache.groups
    assert groups[-1].block_size == tokens


def test_longer_rings_are_dealt_out() -> None:
    """For 15 drafts 32 tokens, 131,072 B: one of the three in each group."""
    given = SpeculativeConfig("dspark", 15)
    groups = loaded("h200", speculative_config=given).cache.groups
    assert [len(group.layers) for group in groups[-3:]] == [1, 1, 1]
    assert block_bytes(groups, None, aligned=True) == 131_072


def test_buffers_of_the_model() -> None:
    """For 8,192 tokens: 512 picks, 2,048 blocks, 3 of 24 rows from each of two tables in bf16."""
    buffers = loaded("h200").stages[0].buffers
    assert buffers.sparse == 8192 * (512 + 2048) * 4 == 16 * MIB + 64 * MIB
    assert buffers.lookups == 2 * 8192 * 3 * 256 * 2
    drafting = loaded("h200", speculative_config=SpeculativeConfig("dspark", 5)).stages[0].buffers
    assert drafting.sparse == buffers.sparse + 8192 * 512 * 4
    assert drafting.streams == 8192 * 4 * 5120 * 2


def test_pipeline_stages_pass_streams_and_how_to_read_them() -> None:
    stages = loaded("h200", tensor_parallel_size=4, pipeline_parallel_size=2).stages
    assert [stage.layers for stage in stages] == [20, 20]
    assert stages[1].buffers.hidden == 8192 * (4 * 5120 * 2 + 4 * 4)
    assert stages[1].buffers.lookups == 0


def test_tables_of_n_grams_are_not_on_the_device() -> None:
    """On an A100 vLLM holds 50,928,396,800 B of a rank of 8, the tables' eighths not counted."""
    assert loaded("a100-sxm-80gb").stages[0].model_bytes == 50_928_396_800


@pytest.mark.parametrize(("ranks", "share"), [(1, 24), (5, 5), (8, 3), (24, 1)])
def test_ranks_share_the_lookups(ranks: int, share: int) -> None:
    assert local_lookups(HostTable("", 1, 256, 24), ranks) == share


def test_every_rank_looks_something_up() -> None:
    """24 over 16: two each, and the last four have none."""
    with pytest.raises(Indivisible):
        local_lookups(HostTable("", 1, 256, 24), 16)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"tensor_parallel_size": 16}, RefusalKind.DIVISIBLE),
        ({"tensor_parallel_size": 2, "pipeline_parallel_size": 4}, RefusalKind.PIPELINE),
        (
            {
                "tensor_parallel_size": 4,
                "pipeline_parallel_size": 2,
                "speculative_config": SpeculativeConfig("dspark", 5),
            },
            RefusalKind.SPECULATION,
        ),
    ],
)
def test_launches_that_vllm_cannot_build(given: dict[str, object], kind: RefusalKind) -> None:
    with pytest.raises(Unloadable) as error:
        loaded("h200", **given)
    assert error.value.kind is kind


@pytest.mark.parametrize(
    ("gpu", "dtype"),
    [("b200", "bfloat16"), ("h200", "fp8_e4m3"), ("h200", "nvfp4_ds_mla")],
)
def test_caches_that_no_kernel_reads(gpu: str, dtype: str) -> None:
    given = EngineConfig(tensor_parallel_size=8, kv_cache_dtype=dtype)
    card, config, device = settled(gpu, given)
    assert [r.kind for r in refusals(card, device, config, RELEASE)] == [RefusalKind.BACKEND]


def test_the_draft_is_not_mtp() -> None:
    given = EngineConfig(tensor_parallel_size=8, speculative_config=SpeculativeConfig("mtp", 1))
    card, config, device = settled("h200", given)
    assert [r.kind for r in refusals(card, device, config, RELEASE)] == [RefusalKind.SPECULATION]


@pytest.mark.parametrize(
    ("capability", "batched", "size"),
    [
        ((8, 0), False, 320 * 384 * 33 // 32),  # Marlin: n in 64s, k in 128s
        ((9, 0), False, 512 * 384 * 33 // 32),  # Humming: n in 256s, k in 128s
        ((10, 0), False, 288 * 320 + 384 * 12),  # scales in tiles of 128 rows and 4 groups
        ((10, 0), True, 288 * 320 * 33 // 32),
        ((9, 0), True, 288 * 320 * 2 + 288 * 10),  # emulated in bf16, beside the scales
    ],
)
def test_mxfp8_matrices(capability: tuple[int, int], batched: bool, size: int) -> None:
    """288 rows of 320 inputs, with 10 scales each."""
    assert linear_bytes(Mxfp8(), 320, [288], 2, capability, batched=batched) == size
