"""Medusa and MLP speculators, in the releases that have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from launches import bundled
from msgspec.structs import replace

from hardware_db import find_gpu, find_rig
from model_cards.build import Facts, build_card
from model_cards.card import ModelCard, Origin
from model_cards.config import Config
from model_cards.errors import BadConfig
from model_cards.sources.bundled import bundled_config
from planner import EngineConfig, MemoryPlan, plan_memory
from planner.engine.defaults import resolve
from planner.engine.device import device_facts
from planner.engine.releases import find_release
from planner.engine_config import SpeculativeConfig
from planner.memory.draft import Unreadable
from planner.memory.loaded import load_model
from planner.memory.plan import Refused

MEDUSA = "abhigoyal/vllm-medusa-llama-68m-random"
FIRST_VERSION = "FasterDecoding/medusa-vicuna-7b-v1.3"
SPECULATOR = "example/mlp_speculator-llama-13b-width4096"
# What the classes of vLLM 0.32.0 (Medusa) and 0.9.2 (MLP speculators) allocate, on the meta device
# of a CPU build (record_draft_heads.py).
RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "draft_heads.jsonl").read_text().splitlines()
]
LAST = {"medusa": "0.32.0", "mlp_speculator": "0.9.2"}  # releases that run them


def head(model: str, over: dict[str, Any] | None = None) -> ModelCard:
    """A bundled draft whose config says something else too."""
    found = bundled_config(model)
    assert found is not None
    return build_card(model, found[0].merged(over or {}), Origin("bundled", "test"), Facts())


def target(hidden_size: int, vocab_size: int) -> ModelCard:
    """A small Llama."""
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "hidden_size": hidden_size, "intermediate_size": 2048, "num_attention_heads": 16,
        "num_hidden_layers": 2, "vocab_size": vocab_size, "max_position_embeddings": 2048,
    }  # fmt: skip
    return build_card("llama", Config(config, "config.json"), Origin("folder", "test"), Facts())


def launch(
    draft: ModelCard,
    tokens: int,
    card: ModelCard | None = None,
    *,
    release: str | None = None,
    draft_ranks: int | None = None,
    rig: str = "4xh100-sxm",
    **settings: Any,
) -> MemoryPlan:
    assert draft.head is not None
    method = draft.head.method
    given = SpeculativeConfig(method, tokens, draft.model_id, draft_ranks)
    return plan_memory(
        card or target(draft.hidden_size, draft.vocab_size),
        find_rig(rig),
        EngineConfig(max_model_len=2048, speculative_config=given, **settings),
        draft=draft,
        vllm=release or LAST[method],
    )


def refusal(*args: Any, **settings: Any) -> str | None:
    try:
        verdict = launch(*args, **settings).starts
    except Refused as error:
        return str(error)
    return verdict.reason if verdict.breaks_a_rule else None


def draft_weights(plan: MemoryPlan) -> int:
    return plan.ranks[-1].parts.draft


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: f"{row['model']}-{row['bytes']}")
def test_bytes_as_vllms_classes_allocate_them(row: dict[str, Any]) -> None:
    draft = head(row["model"], row["over"])
    card, ranks = target(**row["target"]), row["ranks"]
    plan = launch(draft, row["tokens"], card, draft_ranks=ranks, tensor_parallel_size=ranks)
    assert draft_weights(plan) == row["bytes"]
    assert not plan.starts.breaks_a_rule


@pytest.mark.parametrize(("model", "tokens"), [(MEDUSA, 5), (SPECULATOR, 3)])
def test_nothing_is_cached_for_them(model: str, tokens: int) -> None:
    """A block holds the target's two layers alone, and no batch of hidden states is kept."""
    plan = launch(head(model), tokens)
    given = replace(plan.config.given, speculative_config=None)
    plain = plan_memory(plan.card, plan.rig, given, vllm=plan.release)
    assert plan.kv_cache.groups == plain.kv_cache.groups
    assert plan.ranks[0].buffers.draft == 0


def test_an_older_runner_without_async_scheduling() -> None:
    config = launch(head(MEDUSA), 5).config
    assert not config.model_runner_v2
    assert not config.async_scheduling


def test_releases_that_have_them() -> None:
    """0.10.0 to 0.32.0 list mlp_speculator, but their registries leave its class out."""
    for release in ("0.8.5", "0.9.2", "0.10.0", "0.24.0", "0.25.0", "0.32.0"):
        assert refusal(head(MEDUSA), 5, release=release) is None
    for release in ("0.8.5", "0.9.2"):
        assert refusal(head(SPECULATOR), 3, release=release) is None
    for release in ("0.10.0", "0.32.0", "0.33.0"):
        reason = f"vLLM {release} has no speculative method 'mlp_speculator'"
        assert refusal(head(SPECULATOR), 3, release=release) == reason
    assert refusal(head(MEDUSA), 5, release="0.33.0") is not None


def test_medusas_first_version() -> None:
    """Its files name no model_type; vLLM reads them since 0.25.0, as 4096 features wide."""
    draft = bundled(FIRST_VERSION)
    assert refusal(draft, 5, target(4096, 32000)) is None
    reason = refusal(draft, 5, target(4096, 32000), release="0.24.0")
    assert reason is not None
    assert "model_type" in reason
    reason = refusal(bundled("FasterDecoding/medusa-vicuna-13b-v1.3"), 2, target(5120, 32000))
    assert reason is not None
    assert "4096 features; the target's have 5120" in reason


def test_a_vocabulary_that_is_not_the_targets() -> None:
    """Medusa has the target's since 0.25.0 and kept its own before; the V0 engine refused."""
    card = target(768, 32064)
    assert draft_weights(launch(head(MEDUSA), 2, card)) == 2 * 2 * (768 * 768 + 32064 * 768)
    older = launch(head(MEDUSA), 2, card, release="0.24.0")
    assert draft_weights(older) == 2 * 2 * (768 * 768 + 32000 * 768)
    assert refusal(head(MEDUSA), 2, card, release="0.24.0") is None
    for draft, wide in ((MEDUSA, card), (SPECULATOR, target(5120, 32064))):
        reason = refusal(head(draft), 2, wide, release="0.8.5")
        assert reason is not None
        assert "32064" in reason


@pytest.mark.parametrize(
    ("model", "key"), [(MEDUSA, "num_heads"), (FIRST_VERSION, "medusa_num_heads"),
                       (SPECULATOR, "n_predict")],
)  # fmt: skip
def test_more_heads_than_any_network_has(model: str, key: str) -> None:
    with pytest.raises(BadConfig, match="between 1 and 1000"):
        head(model, {key: 2**40})


def test_a_draft_of_another_kind() -> None:
    given = SpeculativeConfig("medusa", 2, "Qwen/Qwen3-0.6B")
    config = EngineConfig(speculative_config=given)
    card = bundled("Qwen/Qwen3-0.6B")
    plan = plan_memory(card, find_rig("h100-sxm"), config, draft=card, vllm="0.32.0")
    assert plan.starts.breaks_a_rule
    assert "is no draft for the speculative method 'medusa'" in plan.starts.reason


def test_no_more_tokens_than_heads() -> None:
    assert refusal(head(MEDUSA), 5) is None
    assert refusal(head(MEDUSA), 6) == "num_speculative_tokens (6) is more than the draft's 5 heads"
    assert refusal(head(SPECULATOR), 3) is None
    reason = refusal(head(SPECULATOR), 4)
    assert reason == "num_speculative_tokens (4) must be divisible by n_predict (3)"
    assert refusal(head(SPECULATOR), 6) is not None
    assert refusal(head(SPECULATOR, {"tie_weights": True}), 6) is None


def test_ranks_that_hold_the_draft() -> None:
    """V1 splits Medusa as the target whatever is asked; V0 puts a speculator on the first rank."""
    split = launch(head(MEDUSA), 5, tensor_parallel_size=2)
    whole = launch(head(MEDUSA), 5, tensor_parallel_size=2, draft_ranks=1)
    assert draft_weights(split) == draft_weights(whole)
    split = launch(head(SPECULATOR), 3, tensor_parallel_size=2, draft_ranks=2)
    whole = launch(head(SPECULATOR), 3, tensor_parallel_size=2)
    assert draft_weights(whole) == draft_weights(launch(head(SPECULATOR), 3))
    assert draft_weights(split) < draft_weights(whole)


def test_v0_does_not_count_the_draft() -> None:
    for draft, tokens, release in ((MEDUSA, 5, "0.8.5"), (SPECULATOR, 3, "0.9.2")):
        notes = launch(head(draft), tokens, release=release).notes
        assert any("V0 engine" in note for note in notes)
    assert not any("V0" in note for note in launch(head(MEDUSA), 5, release="0.9.0").notes)


def test_pipelines() -> None:
    """The draft took the target's stages before 0.30.0; it has none of the target's matrices."""
    piped = launch(head(MEDUSA), 5, pipeline_parallel_size=2)
    assert draft_weights(piped) == draft_weights(launch(head(MEDUSA), 5))
    assert piped.ranks[0].parts.draft == 0
    reason = refusal(head(MEDUSA), 5, release="0.28.0", pipeline_parallel_size=2)
    assert reason is not None
    assert "pipeline" in reason


def test_host_memory_takes_no_heads() -> None:
    """Far more than the target's two layers are: what goes there is the same without heads."""
    plan = launch(head(MEDUSA), 5, cpu_offload_gb=16)
    given = replace(plan.config.given, speculative_config=None)
    plain = plan_memory(plan.card, plan.rig, given, vllm=plan.release)
    assert plan.ranks[0].parts.offloaded == plain.ranks[0].parts.offloaded > 0


@pytest.mark.parametrize(
    ("model", "tokens", "over", "reason"),
    [
        (MEDUSA, 5, {"truncated_vocab_size": 1000}, "truncated vocabulary"),
        (SPECULATOR, 2, {"n_predict": 2}, "top_k_tokens_per_head"),
        (SPECULATOR, 1, {"n_predict": 1, "top_k_tokens_per_head": [5], "tie_weights": True},
         "more than one stage"),
    ],
)  # fmt: skip
def test_configs_that_vllms_classes_stop_at(
    model: str, tokens: int, over: dict[str, Any], reason: str
) -> None:
    draft = head(model, over)
    assert draft.head is not None
    given = SpeculativeConfig(draft.head.method, tokens, model)
    card, device = target(draft.hidden_size, 32000), device_facts(find_gpu("h100-sxm").gpu)
    release = find_release(LAST[draft.head.method])
    config = resolve(card, device, EngineConfig(speculative_config=given), release, draft)
    with pytest.raises(Unreadable, match=reason):
        load_model(card, config, device)
