"""Rankings on very different rigs: which model leads may change with every release of anything, so
what is tested is what must hold of any ranking."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from math import hypot

import pytest
from launches import bundled

from hardware_db import all_gpus, find_rig
from model_cards.sources.bundled import find_entry, open_bundled
from planner import PlanError, Recommendation, Requirements, recommend
from planner.command.parse import read_command
from planner.command.render import render_command
from planner.diagnosis.check import check_command
from planner.engine.releases import find_release
from planner.findings import Severity
from planner.memory.verdict import Answer
from planner.recommendation.licences import ANY_LICENCE, Licences
from planner.recommendation.placing import placing
from planner.recommendation.quality import family, rated_models, series
from planner.recommendation.rank import Choice, in_tiers, leaders
from planner.recommendation.requirements import PLEASANT_PACE, Objective
from planner.recommendation.search import search
from planner.recommendation.settle import Settled, settle
from planner.recommendation.variants import checkpoint_ids, least_bytes
from planner.workload import Workload, use_case_workload

RIGS = ["4090", "3060", "2x3090", "a100-80gb", "8xh100-sxm", "mi300x", "cpu:64GiB@80", "4090+3090",
        "custom:23.5GiB@1008,bf16=165,cc=8.9"]  # fmt: skip
# The least a parameter takes in each weight format, in bytes, scales not counted.
LEAST_BYTES = {"16bit": 2, "fp8": 1, "w8a8": 1, "int8": 1, "int4": 0.5, "nvfp4": 0.5, "mxfp4": 0.5}
# Pretrained models that were never taught to answer; each has an instruction-tuned sibling.
BASE_MODELS = """Qwen/Qwen2.5-7B Qwen/Qwen2.5-14B Qwen/Qwen2.5-32B Qwen/Qwen2.5-72B Qwen/Qwen2-7B
meta-llama/Llama-2-7b-hf meta-llama/Llama-2-13b-hf meta-llama/Llama-3.1-8B meta-llama/Llama-3.1-70B
meta-llama/Meta-Llama-3-8B mistralai/Mistral-7B-v0.1 mistralai/Mixtral-8x7B-v0.1 01-ai/Yi-34B
google/gemma-2-9b google/gemma-3-27b-pt tiiuae/falcon-7b bigcode/starcoder2-15b"""
HEADS = re.compile(r"(?i)eagle|medusa|speculator|dflash|dspark|mtp-head")
NO_CHAT = re.compile(r"(?i)embed|rerank|\bbge|\be5-|\bgte|reward|guard|classif|sentence|whisper")
BASE_NAME = re.compile(r"-[Bb]ase(-|$)|-pt(-|$)")


@cache
def ranking(rig: str, limit: int = 8, use_case: str = "chat") -> Recommendation:
    wanted = Requirements(use_case_workload(use_case), use_case)
    return recommend(find_rig(rig), wanted, vllm="0.33.0", limit=limit)


def joint_error(one: Choice, other: Choice) -> float:
    return hypot(one.quality.error, other.quality.error)


@cache
def everything(rig: str) -> tuple[Choice, ...]:
    wanted = Requirements(use_case_workload("chat"), "chat")
    return recommend(find_rig(rig), wanted, vllm="0.33.0", everything=True).choices


@pytest.mark.parametrize("rig", RIGS)
def test_there_is_something_for_everybody(rig: str) -> None:
    assert len(ranking(rig).choices) == 8
    assert ranking(rig).smallest_unfit is None


@pytest.mark.parametrize("rig", RIGS)
def test_everything_in_a_ranking_starts(rig: str) -> None:
    for choice in ranking(rig).choices:
        verdict = choice.settled.memory.starts
        assert verdict.ok, choice.model_id
        assert verdict.chance_of_refusal <= 0.05, choice.model_id
        assert verdict.refusal is None


@pytest.mark.parametrize("rig", RIGS)
def test_everything_in_a_ranking_fits_by_plain_arithmetic(rig: str) -> None:
    """Parameters x bytes of the format over the GPUs in use, against what a GPU has."""
    smallest = min(device.total_bytes or 0 for device in find_rig(rig).devices)
    for choice in everything(rig):
        gpus = choice.settled.config.world_size
        assert gpus <= find_rig(rig).gpu_count
        least = choice.card.parameters * LEAST_BYTES[choice.card.format_kind] / gpus
        assert least < smallest, choice.model_id
        memory = choice.settled.memory
        for rank in memory.ranks:
            # An embedding kept once or a head counted twice explain a few percent at most.
            assert rank.weights.value > 0.8 * least / len(memory.ranks)
            assert rank.weights.value + rank.kv_cache.value < memory.requested.value


@pytest.mark.parametrize("rig", RIGS)
def test_the_cache_holds_what_was_asked_for(rig: str) -> None:
    for choice in everything(rig):
        memory = choice.settled.memory
        assert memory.kv_cache.longest_len >= memory.config.max_model_len
        assert memory.max_concurrency.value >= 1
        assert memory.requests_at(1024 + 384).value >= 1
        assert memory.config.max_model_len == min(16384, choice.card.max_model_len)


@pytest.mark.parametrize("rig", RIGS)
def test_only_models_that_answer_are_ranked(rig: str) -> None:
    for choice in everything(rig):
        for name in (choice.model_id, choice.base_id):
            assert not HEADS.search(name), name
            assert not NO_CHAT.search(name), name
            assert not BASE_NAME.search(name), name
            assert name not in BASE_MODELS.split()
            entry = find_entry(name)
            assert entry is None or entry.kind != "draft", name
        assert choice.card.architecture.endswith(("ForCausalLM", "ForConditionalGeneration")), (
            choice.model_id
        )


@pytest.mark.parametrize("rig", RIGS)
def test_every_model_once(rig: str) -> None:
    names = [choice.base_id for choice in everything(rig)]
    assert len(names) == len(set(names)) > 20


@pytest.mark.parametrize("rig", RIGS)
def test_tiers(rig: str) -> None:
    """A tier is everything that cannot be told from its best: less than the joint standard error
    apart. Inside, the faster answer comes first, but for a smaller model of the same series."""
    choices = everything(rig)
    tiers: dict[int, list[Choice]] = {}
    for choice in choices:
        tiers.setdefault(choice.tier, []).append(choice)
    assert [c.tier for c in choices] == sorted(c.tier for c in choices)
    assert list(tiers) == list(range(1, len(tiers) + 1))
    left = list(choices)
    for members in tiers.values():
        top = max(choice.quality.score for choice in left)
        # Where two models share the top score, either may stand for the tier.
        bests = [choice for choice in left if choice.quality.score == top]
        assert {c.model_id for c in members} in [
            {c.model_id for c in left if top - c.quality.score < joint_error(best, c)}
            for best in bests
        ]
        left = [choice for choice in left if choice not in members]
        for sooner, later in pairwise(members):
            before, after = sooner.seconds_per_answer, later.seconds_per_answer
            if before is None or after is None or before.value <= after.value:
                continue
            names = {series(c.base_id) for c in members[members.index(sooner) :]}
            assert series(sooner.base_id) in names - {""}
            faster = [
                c
                for c in members[members.index(sooner) + 1 :]
                if series(c.base_id) == series(sooner.base_id)
                and c.quality.score < sooner.quality.score
            ]
            assert faster, sooner.model_id


@pytest.mark.parametrize("limit", [1, 5, 8])
def test_limits(limit: int) -> None:
    few = {choice.base_id for choice in ranking("4090", limit).choices}
    assert len(few) == limit
    assert few <= {choice.base_id for choice in everything("4090")}


@pytest.mark.parametrize("rig", ["h100", "t4", "3060", "4090", "mi300x"])
def test_the_winner_does_not_depend_on_how_many_are_shown(rig: str) -> None:
    best = everything(rig)[0].model_id
    for limit in (1, 3, 8):
        assert ranking(rig, limit).choices[0].model_id == best


@pytest.mark.parametrize(
    ("model_id", "name"),
    [("Qwen/Qwen3.5-9B", "qwen/qwen3.5"), ("Qwen/Qwen3.5-35B-A3B", "qwen/qwen3.5"),
     ("google/gemma-4-E4B-it", "google/gemma-4-it"), ("google/gemma-4-31B-it", "google/gemma-4-it"),
     ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mistralai/mixtral-instruct-v0.1"),
     ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/llama-3.1-instruct"),
     ("openai/gpt-oss-120b", "openai/gpt-oss")],
)  # fmt: skip
def test_series(model_id: str, name: str) -> None:
    assert series(model_id) == name


def test_a_larger_model_of_a_series_is_not_behind_a_smaller_one_that_is_clearly_worse() -> None:
    """On a T4 Qwen3.5-9B writes 25 tokens/s, faster than people read."""
    names = [choice.base_id for choice in everything("t4")]
    assert names.index("Qwen/Qwen3.5-9B") < names.index("Qwen/Qwen3.5-4B")


@pytest.mark.parametrize(
    "slug",
    [
        gpu.slug
        for gpu in all_gpus()
        if gpu.vendor == "nvidia"
        and (gpu.memory.total_bytes or 0) > 4 * 2**30
        and (gpu.compute_capability or (0, 0)) >= (7, 5)
    ],
)
def test_every_gpu_of_4_gib_runs_something(slug: str) -> None:
    card = bundled("Qwen/Qwen3-0.6B")
    requirements = Requirements(use_case_workload("chat"), "chat")
    settled = settle(card, find_rig(slug), requirements, find_release("0.33.0"))
    assert isinstance(settled, Settled)
    assert settled.sure


@pytest.mark.parametrize("rig", RIGS)
def test_one_row_a_family_and_none_is_slower_than_is_pleasant(rig: str) -> None:
    choices = ranking(rig).choices
    families = [family(choice.base_id) for choice in choices]
    assert len(families) == len(set(families))
    for choice in (*choices, *everything(rig)):
        speed = choice.settled.speed
        assert speed is None or speed.per_user.value >= 15


@pytest.mark.parametrize("rig", RIGS)
def test_the_short_ranking_is_the_beginning_of_the_long_one(rig: str) -> None:
    """It looks at fewer models, and must come to the same."""
    first = in_tiers(leaders(everything(rig), Objective.BALANCED))
    assert [c.model_id for c in ranking(rig).choices] == [c.model_id for c in first[:8]]


@pytest.mark.parametrize(
    ("model_id", "name"),
    [("Qwen/Qwen3-4B-Thinking-2507", "qwen/qwen3"), ("Qwen/Qwen3-235B-A22B", "qwen/qwen3"),
     ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen/qwen3-coder"),
     ("google/gemma-4-E4B-it", "google/gemma-4"), ("deepseek-ai/DeepSeek-R1-0528",
                                                   "deepseek-ai/deepseek-r1")],
)  # fmt: skip
def test_families(model_id: str, name: str) -> None:
    assert family(model_id) == name


def test_a_pace_of_ones_own() -> None:
    """A 27B model in 8 bits needs 28 GiB a step: 10 tokens/s at most from 273 GB/s."""
    slow = [c for c in everything("gb10") if c.base_id == "Qwen/Qwen3.8-27B"]
    assert not slow or slow[0].settled.speed.per_user.value >= 15  # type: ignore[union-attr]
    any_pace = Requirements(use_case_workload("chat"), "chat", min_tokens_per_second=0)
    found = recommend(find_rig("gb10"), any_pace, vllm="0.33.0", everything=True).choices
    assert "Qwen/Qwen3.8-27B" in {choice.base_id for choice in found}


def test_licences() -> None:
    wanted = Requirements(use_case_workload("chat"), "chat", licences=Licences.named("MIT"))
    choices = recommend(find_rig("4090"), wanted, vllm="0.33.0").choices
    assert choices
    assert {choice.card.license for choice in choices} == {"mit"}
    assert Licences.named("open").allow("apache-2.0")
    assert not Licences.named("open").allow(None)
    assert ANY_LICENCE.allow(None)


@pytest.mark.parametrize("name", ["openai/gpt-oss-20b", "gpt-oss-20b", "Qwen/Qwen3-14B-AWQ"])
def test_the_place_of_a_model(name: str) -> None:
    wanted = Requirements(use_case_workload("chat"), "chat")
    place = placing(name, find_rig("4090"), wanted, find_release("0.33.0"))
    assert place.place is not None
    assert everything("4090")[place.place - 1] == place.choice
    assert place.ranked == len(everything("4090"))


@pytest.mark.parametrize(
    ("name", "reason"),
    [("google/gemma-4-31B-it", "GiB on the GPU"), ("moonshotai/Kimi-K3", "at 4 bits"),
     ("google/gemma-4-12B-it", "not bundled"), ("Qwen/Qwen2.5-7B", "nobody rated")],
)  # fmt: skip
def test_why_a_model_is_missing(name: str, reason: str) -> None:
    wanted = Requirements(use_case_workload("chat"), "chat")
    place = placing(name, find_rig("4090"), wanted, find_release("0.33.0"))
    assert place.choice is None
    assert reason in place.reason


@pytest.mark.parametrize("objective", Objective)
def test_objectives_order_what_counts_as_equal(objective: Objective) -> None:
    wanted = Requirements(use_case_workload("chat"), "chat", objective=objective)
    choices = recommend(find_rig("4090"), wanted, vllm="0.33.0", everything=True).choices
    tiers: dict[int, list[Choice]] = {}
    for choice in choices:
        tiers.setdefault(choice.tier, []).append(choice)
    for members in tiers.values():
        if objective is Objective.CONTEXT:
            lengths = [choice.settled.memory.config.max_model_len for choice in members]
            assert lengths == sorted(lengths, reverse=True)
        if objective is Objective.LATENCY:
            times = [choice.seconds_per_answer.value for choice in members]  # type: ignore[union-attr]
            assert times == sorted(times)
        if objective is Objective.QUALITY:
            assert len({choice.quality.score for choice in members}) == 1


def test_models_that_think_get_room_for_it() -> None:
    asked = Requirements(Workload(1024, 384), "chat")
    card = bundled("Qwen/Qwen3-8B")
    assert asked.thinking(card).workload == Workload(1024, 4 * 384)
    short = Requirements(Workload(1024, 384), "chat", context=2048)
    assert short.thinking(card).workload == Workload(1024, 1024)
    reasoning = Requirements(Workload(1024, 4096), "reasoning")
    assert reasoning.thinking(card) == reasoning


@pytest.mark.parametrize("limit", [0, -1])
def test_a_ranking_of_nothing_is_refused(limit: int) -> None:
    with pytest.raises(PlanError, match="at least 1"):
        ranking("4090", limit)


@pytest.mark.parametrize("rig", ["4090", "3060", "2x3090", "8xh100-sxm", "gb10", "mi300x"])
def test_a_check_of_what_is_recommended_has_nothing_against_it(rig: str) -> None:
    """Neither an error nor a warning: `vplan check` knows what vLLM does not profile, too."""
    for choice in ranking(rig).choices:
        command = render_command(choice.settled.memory).shell()
        check = check_command(read_command([command], "0.33.0"), find_rig(rig), offline=True)
        assert check.answer is Answer.YES
        against = [each.text for each in check.findings if each.severity is not Severity.INFO]
        assert against == [], choice.model_id


@pytest.mark.parametrize("rig", ["8xh100-sxm", "8xh200-sxm", "4090"])
def test_whoever_names_a_ranked_model_gets_the_checkpoint_of_the_ranking(rig: str) -> None:
    """Also where no more is known of it before than its total: experts in 4 bits, for one."""
    for choice in ranking(rig).choices:
        card = open_bundled(choice.base_id)
        if card is None:  # known by its copies alone
            continue
        wanted = Requirements(
            use_case_workload("chat"), "chat", objective=Objective.BALANCED,
            min_tokens_per_second=PLEASANT_PACE,
        )  # fmt: skip
        if choice.quality.mode == "thinking":
            wanted = wanted.thinking(choice.candidate.variant.card)
        found = search(card, find_rig(rig), wanted, find_release("0.33.0"))
        assert found.pick is not None
        assert found.pick.variant.model_id == choice.model_id


def test_the_least_a_checkpoint_may_take_is_no_more_than_it_takes() -> None:
    """`least_bytes` rules checkpoints out before their cards are built."""
    for name in rated_models():
        for model_id in checkpoint_ids(name):
            card = open_bundled(model_id)
            if card is not None and card.exact:
                least = least_bytes(model_id) * card.parameters
                assert least <= 1.001 * card.weight_bytes, model_id


def test_the_same_question_has_the_same_answer() -> None:
    again = recommend(
        find_rig("4090"), Requirements(use_case_workload("chat"), "chat"), vllm="0.33.0"
    )
    assert again == ranking("4090")


def test_mixed_cards_are_bounded_by_the_smaller() -> None:
    """24 GB cards differ: torch sees 23.56 GiB on a 3090, 23.63 GiB on a 4090."""
    for choice in everything("4090+3090"):
        assert choice.settled.memory.device_total.value == find_rig("3090").smallest.total_bytes


@pytest.mark.parametrize("rig", ["mi300x", "cpu:64GiB@80", "arc-b580:11GiB"])
def test_nvfp4_is_recommended_for_nvidia_only(rig: str) -> None:
    """ROCm emulates it, the others have nothing for it."""
    assert {c.card.format_kind for c in everything(rig)} & {"16bit", "fp8", "int4"}
    assert not [c.model_id for c in everything(rig) if c.card.format_kind == "nvfp4"]


def test_an_fp8_cache_is_recommended_from_ada_on() -> None:
    """Below compute capability 8.9 it is emulated."""
    for rig in ("3060", "2x3090", "a100-80gb"):
        assert all(c.settled.config.kv_cache_dtype == "auto" for c in everything(rig))


@pytest.mark.parametrize("use_case", ["chat", "code", "reasoning", "rag", "agent"])
def test_every_use_case_is_served(use_case: str) -> None:
    workload = use_case_workload(use_case)
    for choice in ranking("4090", 8, use_case).choices:
        memory = choice.settled.memory
        assert memory.config.max_model_len >= workload.total_tokens
        assert memory.requests_at(workload.total_tokens).value >= 1


def test_nothing_fits_a_card_that_is_too_small() -> None:
    nothing = ranking("custom:1GiB@100")
    assert nothing.choices == ()
    assert nothing.smallest_unfit is not None
    model, reason = nothing.smallest_unfit
    assert model == "HuggingFaceTB/SmolLM2-135M-Instruct"  # the smallest rated model there is
    assert "GiB" in reason


def test_a_card_of_unknown_memory_needs_a_size() -> None:
    with pytest.raises(PlanError, match="usable memory of Intel Arc B580 is not known"):
        ranking("arc-b580")
