"""Choosing among the drafts that a target has."""

from __future__ import annotations

from itertools import pairwise

import pytest
from launches import bundled, plan
from msgspec.structs import replace

from model_cards.known_drafts import base_name, draft_card, drafts_of
from planner import Workload, plan_memory, predict_speed, render_command
from planner.engine.options import has_speculative_key
from planner.engine.releases import Release, known_releases
from planner.engine_config import SpeculativeConfig
from planner.speed.speculation_choice import SpeculationChoice, choose_speculation
from planner.speed.speculative import WORTH_IT, SpeculativeModel
from planner.speed.speculative_option import judge_speculation, running_requests

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def kinds(choice: SpeculationChoice) -> set[str]:
    return {option.kind for option in choice.options}


def test_names_without_owner_and_format() -> None:
    assert base_name("Qwen/Qwen3-8B-AWQ") == "qwen3-8b"
    assert base_name("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic") == (
        "meta-llama-3.1-8b-instruct"
    )
    assert base_name("Qwen/Qwen3-30B-A3B-Instruct-2507") == "qwen3-30b-a3b-instruct-2507"


@pytest.mark.parametrize(
    ("target", "draft", "billions"),
    [  # parameters that are loaded, computed from the configs of SpecForge and of SafeAILab/EAGLE
        (LLAMA, "lmsys/SGLang-EAGLE3-Llama-3.1-8B-Instruct-SpecForge", 0.425),
        (LLAMA, "yuhuili/EAGLE-LLaMA3.1-Instruct-8B", 0.252),
        ("Qwen/Qwen3-8B", "Tengyunw/qwen3_8b_eagle3", 0.400),
        ("Qwen/Qwen3-8B", "RedHatAI/Qwen3-8B-speculator.dflash", 1.049),
        ("Qwen/Qwen3-8B", "RedHatAI/Qwen3-8B-speculator.peagle", 0.98),
        ("openai/gpt-oss-20b", "zhuyksir/EAGLE3-gpt-oss-20b-bf16", 0.308),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507",
         "lmsys/SGLang-EAGLE3-Qwen3-30B-A3B-Instruct-2507-SpecForge-Nex", 0.183),
    ],
)  # fmt: skip
def test_usual_heads_have_the_published_sizes(target: str, draft: str, billions: float) -> None:
    card = bundled(target)
    known = next(each for each in drafts_of(card) if each.model == draft)
    usual = draft_card(known, card)
    assert usual is not None
    assert not usual.exact
    shared = usual.embedding.elements
    if known.method != "eagle3":
        assert usual.lm_head is not None
        shared += usual.lm_head.elements
    assert (usual.parameters - shared) / 1e9 == pytest.approx(billions, rel=0.005)


def test_drafts_of_another_vocabulary_are_left_out() -> None:
    """Qwen2.5-Coder-14B has 152,064 rows, the 0.5B model of its family 151,936."""
    card = bundled("Qwen/Qwen2.5-Coder-14B-Instruct-AWQ")
    assert [draft.model for draft in drafts_of(card)] == []


def test_what_the_checkpoint_has_comes_first() -> None:
    drafts = drafts_of(bundled("deepseek-ai/DeepSeek-V3.2"))
    assert (drafts[0].method, drafts[0].model) == ("mtp", None)


def test_a_draft_is_chosen_for_a_single_user() -> None:
    memory = plan(LLAMA, "h100-sxm", max_model_len=8192)
    choice = choose_speculation(memory, Workload(1024, 256, 1), task="code")
    assert {"eagle", "eagle3", "dflash", "pard", "draft_model", "ngram", "suffix"} <= kinds(choice)
    assert choice.chosen is not None
    assert choice.chosen.gain is not None
    assert choice.chosen.gain.value >= WORTH_IT
    assert choice.chosen.gain.low < choice.chosen.gain.value < choice.chosen.gain.high
    gains = [option.gain for option in choice.options if option.gain is not None]
    worth = [gain.low for gain in gains if gain.value >= WORTH_IT]
    assert worth == sorted(worth, reverse=True)
    assert len(worth) > 3
    eagle3 = next(option for option in choice.options if option.kind == "eagle3")
    assert 1.6 <= eagle3.gains[0][2].value <= 2.5
    assert eagle3.draft_bytes == pytest.approx(0.80 * 2**30, rel=0.05)


def test_none_is_chosen_where_nothing_gains() -> None:
    """A 3B model at 512 requests on a GPU with little compute for its bandwidth."""
    memory = plan(
        "Qwen/Qwen2.5-3B-Instruct-AWQ", "3090", max_model_len=1024, max_num_seqs=512,
        max_num_batched_tokens=4096,
    )  # fmt: skip
    choice = choose_speculation(memory, Workload(128, 128, 512))
    assert choice.chosen is None
    assert "nothing gains 1.1x" in choice.reason
    assert "requests at once" in choice.reason


def test_memory_that_a_draft_takes_counts() -> None:
    """On a full card requests wait for the cache, and a draft model's own cache makes more wait:
    all together gain less than the model says of requests that run side by side."""
    load = Workload(6144, 512, 24)
    for rig, waits in (("4090", True), ("h200", False)):
        memory = plan("Qwen/Qwen3-8B", rig, max_model_len=8192)
        choice = choose_speculation(memory, load, task="code")
        option = next(option for option in choice.options if option.kind == "pard")
        assert option.memory is not None
        assert option.gain is not None
        model = SpeculativeModel.of(option.memory)
        running = running_requests(option.memory, load)
        alone = model.speedup(running, 6400, option.tokens, option.acceptance.likely)
        assert (running < running_requests(memory, load)) is waits
        assert (option.gain.value < 0.75 * alone) is waits


def test_methods_follow_the_release() -> None:
    load = Workload(1024, 256, 1)
    old = choose_speculation(plan(LLAMA, "h100-sxm", "0.11.0", max_model_len=8192), load)
    usable = {option.kind for option in old.options if option.gain is not None}
    assert "eagle3" in usable
    assert not usable & {"dflash", "draft_model", "pard", "suffix"}
    refused = next(option for option in old.options if option.kind == "dflash")
    assert "no speculative method 'dflash'" in (refused.problem or "")


def test_drafted_tokens_by_batch_size_where_the_release_can() -> None:
    load = Workload(1024, 256, 1)
    for release, able in (("0.33.0", True), ("0.19.1", False)):
        memory = plan("Qwen/Qwen3-14B-AWQ", "3090", release, max_model_len=4096)
        chosen = choose_speculation(memory, load).chosen
        assert chosen is not None
        ranges = chosen.config.num_speculative_tokens_per_batch_size
        assert (ranges is not None) is able
        if ranges is None:
            continue
        assert ranges[0][0] == 1
        assert ranges[0][2] == chosen.tokens
        assert all(a[1] + 1 == b[0] for a, b in pairwise(ranges))
        assert [r[2] for r in ranges] == sorted((r[2] for r in ranges), reverse=True)


def test_the_chosen_one_can_be_launched() -> None:
    memory = plan("Qwen/Qwen3-8B", "4090", max_model_len=8192)
    chosen = choose_speculation(memory, Workload(1024, 256, 1), task="code").chosen
    assert chosen is not None
    assert chosen.memory is not None
    command = render_command(chosen.memory).argv
    assert "--speculative-config" in command


def test_speed_with_speculation_is_predicted() -> None:
    speculative = SpeculativeConfig("eagle3", 3, "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3")
    load = Workload(1024, 256, 1)
    plain = plan(LLAMA, "h100-sxm", max_model_len=8192)
    memory = plan(LLAMA, "h100-sxm", draft=speculative.model, max_model_len=8192,
                  speculative_config=speculative)  # fmt: skip
    before, after = predict_speed(plain, load), predict_speed(memory, load)
    judged = judge_speculation(memory, load)
    assert judged.gain is not None
    assert before.tpot.value / after.tpot.value == pytest.approx(judged.gain.value, rel=1e-6)
    assert after.tpot.low < after.tpot.value < after.tpot.high
    wide = (after.tpot.high - after.tpot.low) / after.tpot.value
    assert wide > (before.tpot.high - before.tpot.low) / before.tpot.value
    assert after.per_user.high <= after.ceiling_per_user * 1.000001
    assert any("3 tokens drafted a step" in note for note in after.notes)


def test_a_speculation_is_judged_as_it_is() -> None:
    speculative = SpeculativeConfig("ngram", 24)
    memory = plan("Qwen/Qwen3-8B", "3090", max_model_len=4096, speculative_config=speculative)
    judged = judge_speculation(memory, Workload(1024, 256, 64))
    assert judged.tokens == 24
    assert judged.gain is not None
    assert judged.gain.value < 1
    assert judged.break_even < 64
    given = replace(memory.config.given, speculative_config=None)
    plain = plan_memory(memory.card, memory.rig, given, vllm=memory.release)
    assert choose_speculation(memory, Workload()).plain.kv_tokens == plain.kv_tokens


def test_long_requests_get_a_head_that_was_made_for_them() -> None:
    """yuhuili's head for Llama-3.1-8B has 2,048 positions, RedHat's 131,072."""
    memory = plan(LLAMA, "h100-sxm", max_model_len=16384)
    heads = {}
    for prompt in (1024, 8192):
        choice = choose_speculation(memory, Workload(prompt, 256, 1))
        option = next(option for option in choice.options if option.kind == "eagle3")
        heads[prompt] = option.draft.model, option.made_for
    assert heads[1024] == ("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", 2048)
    assert heads[8192] == ("RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3", None)


def test_graphs_are_counted_in_tokens() -> None:
    """512 tokens cover 128 requests of three drafts and a token each (H100: 1,024 requests run)."""
    speculative = SpeculativeConfig("ngram", 3)
    memory = plan(LLAMA, "h100-sxm", max_model_len=4096, speculative_config=speculative)
    assert judge_speculation(memory, Workload()).graph_requests == 128
    eager = plan(LLAMA, "h100-sxm", max_model_len=4096, enforce_eager=True,
                 speculative_config=speculative)  # fmt: skip
    assert judge_speculation(eager, Workload()).graph_requests is None


def test_an_mtp_layer_drafts_no_more_than_was_measured() -> None:
    """InferenceX measured GLM-5.2's layer up to 8 tokens; of DeepSeek-V3.2's nobody said."""
    for model, most in (("deepseek-ai/DeepSeek-V3.2", 3), ("zai-org/GLM-5.2-FP8", 8)):
        memory = plan(model, "8xh200", tensor_parallel_size=8, max_model_len=4096)
        choice = choose_speculation(memory, Workload(1024, 256, 1), task="code")
        mtp = next(option for option in choice.options if option.kind == "mtp")
        assert max(tokens for _, tokens, _ in mtp.gains) <= most
        assert (mtp.tokens > 3) is (most > 3)


@pytest.mark.parametrize(
    ("fact", "key"),
    [("parallel_drafting", "parallel_drafting"),
     ("drafts_by_batch_size", "num_speculative_tokens_per_batch_size")],
)  # fmt: skip
def test_facts_of_releases_are_those_of_their_parsers(fact: str, key: str) -> None:
    for name in known_releases():
        release = Release(name)
        assert release.fact(fact) is has_speculative_key(key, release), name
