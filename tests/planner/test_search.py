"""The search for a way to serve a model: what holds of every answer, and reasons with numbers."""

from __future__ import annotations

import re
from functools import cache

import pytest
from launches import bundled
from program import Vplan

from hardware_db import find_rig
from planner import EngineConfig, Requirements, Workload, plan_memory, render_command
from planner.engine.releases import find_release
from planner.recommendation.explain import binding, difference, explain
from planner.recommendation.larger import twice
from planner.recommendation.requirements import Objective
from planner.recommendation.search import Candidate, Search, search

GIB = 2**30
RELEASE = find_release("0.33.0")
LLAMA = "meta-llama/Llama-3.3-70B-Instruct"


@cache
def found(
    model: str,
    rig: str,
    objective: str | None = None,
    concurrency: int = 1,
    context: int | None = None,
    pace: float | None = None,
) -> Search:
    wanted = Requirements(
        Workload(1024, 384, concurrency),
        "chat",
        context,
        objective=Objective(objective) if objective else None,
        min_tokens_per_second=pace,
    )
    return search(bundled(model), find_rig(rig), wanted, RELEASE)


def pick(*question: object) -> Candidate:
    answer = found(*question).pick  # type: ignore[arg-type]
    assert answer is not None
    return answer


CASES = [
    ("Qwen/Qwen3-8B", "4090", None),
    ("Qwen/Qwen3-8B", "4090", "throughput"),
    ("Qwen/Qwen3-32B", "2x3090", "latency"),
    (LLAMA, "a100-80gb", "balanced"),
    (LLAMA, "4xl40s", "context"),
    ("Qwen/Qwen3-30B-A3B", "h100", "quality"),
    ("openai/gpt-oss-120b", "h100", "balanced"),
    ("google/gemma-3-27b-it", "5090", "balanced"),
]


@pytest.mark.parametrize(("model", "rig", "objective"), CASES)
def test_every_candidate_starts_and_holds_what_was_asked(
    model: str, rig: str, objective: str | None
) -> None:
    answer = found(model, rig, objective)
    assert answer.pick in answer.candidates
    for one in answer.candidates:
        memory = one.settled.memory
        assert memory.starts.ok
        assert memory.starts.chance_of_refusal <= 0.05
        assert memory.config.max_model_len >= 16384
        assert memory.requests_at(1024 + 384).value >= 1
        assert one.settled.gpus <= find_rig(rig).gpu_count


@pytest.mark.parametrize(("model", "rig", "objective"), CASES)
def test_nothing_on_the_frontier_is_beaten_and_all_else_is(
    model: str, rig: str, objective: str | None
) -> None:
    answer = found(model, rig, objective)

    def beats(one: Candidate, other: Candidate) -> bool:
        pairs = list(zip(one.merits, other.merits, strict=True))
        return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)

    for one in answer.candidates:
        beaten = any(beats(other, one) for other in answer.candidates)
        assert beaten != (one in answer.frontier)


def test_what_was_named_is_kept_unless_an_objective_is() -> None:
    """Qwen3-8B in 16 bits fits 24 GiB. FP8 loses nothing that was measured (0.0 points at 6 to
    16B) and halves the bytes of a step; 4 bits lose 1.1 points."""
    assert pick("Qwen/Qwen3-8B", "4090").variant.weight_format == "16bit"
    assert pick("Qwen/Qwen3-8B", "4090", "balanced").variant.weight_format == "fp8"
    assert pick("Qwen/Qwen3-8B", "4090", "latency").variant.weight_format in ("int4", "nvfp4")


def test_quality_gives_up_nothing_that_fits() -> None:
    for rig in ("h100", "4090"):
        best = pick("Qwen/Qwen3-8B", rig, "quality")
        least = min(
            c.variant.loss.points for c in found("Qwen/Qwen3-8B", rig, "quality").candidates
        )
        assert best.variant.loss.points == least


@pytest.mark.parametrize("model", ["openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V3"])
def test_a_model_made_in_its_format_loses_nothing_by_it(model: str) -> None:
    assert pick(model, "8xh200").variant.loss.points == 0


def test_throughput_is_of_as_many_requests_as_fit() -> None:
    best = pick("Qwen/Qwen3-8B", "4090", "throughput").settled
    assert best.speed is not None
    assert best.speed.workload.concurrency > 16
    asked = pick("Qwen/Qwen3-8B", "4090", "balanced").settled.speed
    assert asked is not None
    assert best.speed.total.value > 3 * asked.total.value


def test_small_models_are_replicated_for_many_requests() -> None:
    layouts = {
        c.settled.layout for c in found("Qwen/Qwen3-8B", "4xl40s", "balanced", 64).candidates
    }
    assert {layout.data for layout in layouts} >= {1, 2, 4}
    alone = {c.settled.layout for c in found("Qwen/Qwen3-8B", "4xl40s", "balanced", 1).candidates}
    assert {layout.data for layout in alone} == {1}


def test_the_longest_context_is_all_that_surely_fits() -> None:
    """Qwen3-8B: 36 layers x 2 x 8 heads x 128 = 73,728 bytes a token in fp8; with FP8 weights of
    8.8 GiB a 24 GiB card has room for the whole 40,960 tokens of the model."""
    best = pick("Qwen/Qwen3-8B", "4090", "context").settled.memory
    assert best.config.max_model_len == 40960
    longest = pick("Qwen/Qwen3-32B", "4090", "context").settled.memory
    assert 16384 < longest.config.max_model_len < 40960
    assert longest.kv_cache_low.fits
    assert longest.config.kv_cache_dtype == "fp8"


def test_latency_takes_the_drafts_that_surely_pay() -> None:
    """Qwen3.5-9B has an MTP layer of its own; an objective that is not latency leaves it out."""
    fast = pick("Qwen/Qwen3.5-9B", "h100", "latency").settled
    assert fast.config.speculative_config is not None
    assert fast.reasons["speculative_config"]
    assert fast.memory.starts.ok
    assert fast.memory.requests_at(1024 + 384).value >= 1
    plain = pick("Qwen/Qwen3.5-9B", "h100", "balanced").settled
    assert plain.config.speculative_config is None
    assert fast.speed is not None
    assert plain.speed is not None
    assert fast.speed.per_user.value > plain.speed.per_user.value


def test_of_a_format_the_smaller_copy_is_taken_where_only_that_fits() -> None:
    """On 44.40 GiB one copy in 4 bits leaves too little for a cache, another does.

    casperhansen's AWQ copy holds 37.07 GiB, RedHatAI's w4a16 36.82: a quarter GiB decides.
    """
    names = ("casperhansen/llama-3.3-70b-instruct-awq",
             "RedHatAI/Llama-3.3-70B-Instruct-quantized.w4a16")  # fmt: skip
    larger, smaller = (bundled(name) for name in names)
    assert larger.weight_bytes > smaller.weight_bytes
    assert pick(LLAMA, "a100-80gb").variant.model_id == larger.model_id
    taken = pick(LLAMA, "l40s")
    assert taken.variant.model_id == smaller.model_id
    assert all(each.variant.weight_format != "int4" for each in found(LLAMA, "l40s").rejected)
    reasons = explain(found(LLAMA, "l40s"), find_rig("l40s"))
    assert reasons is not None
    more = next(each for each in reasons.changes if each.what == "--gpu 2xl40s")
    assert "16-bit KV cache instead of fp8" in difference(more.pick, taken, more.what)


@pytest.mark.parametrize(
    ("rig", "objective", "weight_format"),
    [("4xl40s", "balanced", "fp8"), ("h100", "balanced", "fp8"),  # 8 bits: units of both
     ("4xl40s", "latency", "int4"), ("4x3090", "latency", "int4"),  # no units for NVFP4
     ("2xa100-80g", "latency", "int4"),
     ("2x5090", "latency", "nvfp4"), ("b200", "latency", "nvfp4")],
)  # fmt: skip
def test_of_formats_that_are_equal_it_is_what_the_gpu_is_made_for(
    rig: str, objective: str, weight_format: str
) -> None:
    """FP8 on Ada and Hopper, 4 bits of integers on Ampere and Ada, NVFP4 on Blackwell.

    What their speeds differ by, a few percent, is less than they are known by.
    """
    assert pick(LLAMA, rig, objective).variant.weight_format == weight_format


def test_who_is_too_slow_is_rejected_with_its_speed() -> None:
    answer = found(LLAMA, "rtx-pro-6000-blackwell", "balanced", 1, None, 30.0)
    assert answer.pick is not None
    assert answer.pick.pace >= 30
    slow = [r for r in answer.rejected if r.variant.weight_format == "fp8"]
    assert re.fullmatch(r"\d+ tokens/s for each user, fewer than 30", slow[0].reason)


def test_latency_targets_are_kept() -> None:
    """70B in FP8 at 1.8 TB/s takes about 45 ms a token; 4 bits are faster than 40 ms."""
    load = Workload(1024, 384, tpot_target=0.04)
    wanted = Requirements(load, "chat", objective=Objective.BALANCED)
    answer = search(bundled(LLAMA), find_rig("rtx-pro-6000-blackwell"), wanted, RELEASE)
    assert answer.pick is not None
    assert answer.pick.settled.speed is not None
    assert answer.pick.settled.speed.tpot.value <= 0.04
    slow = [r.reason for r in answer.rejected if r.variant.weight_format == "fp8"]
    assert slow == ["slower than the latency targets"]


def test_a_rejection_names_what_is_needed_and_what_there_is() -> None:
    """70.55e9 x 2 bytes are 131.4 GiB; with 5 GiB for the cache of 16,384 tokens of 327,680 bytes
    2.0 for the embeddings once more at a first launch, and some for graphs and activations. 92 % of
    79.25 GiB are 72.9."""
    answer = found(LLAMA, "a100-80gb")
    reasons = {r.variant.weight_format: r.reason for r in answer.rejected}
    match = re.match(r"needs ([\d.]+) GiB on the GPU .* ([\d.]+) available", reasons["16bit"])
    assert match is not None
    assert 131.4 + 5 + 2 < float(match[1]) < 131.4 + 5 + 2 + 3
    assert float(match[2]) == pytest.approx(0.92 * 79.25, abs=0.1)


def test_what_binds() -> None:
    tight = found("Qwen/Qwen3-14B", "4090")
    assert tight.pick is not None
    assert binding(tight.pick.settled, tight.requirements).startswith("Memory binds")
    roomy = found("Qwen/Qwen3-8B", "h100")
    assert roomy.pick is not None
    assert "memory bandwidth" in binding(roomy.pick.settled, roomy.requirements)


def test_changes_bring_what_their_plans_say() -> None:
    answer = found("Qwen/Qwen3-8B", "4090")
    reasons = explain(answer, find_rig("4090"))
    assert reasons is not None
    assert answer.pick is not None
    changes = {change.what: change.pick for change in reasons.changes}
    assert set(changes) == {"--gpu 2xrtx-4090", "--context 8192", "--kv-cache-dtype fp8"}
    now = answer.pick.settled.memory.kv_cache
    # Half the bytes a token (144 KiB), and the same pool.
    halved = changes["--kv-cache-dtype fp8"].settled.memory.kv_cache
    assert halved.num_blocks == pytest.approx(2 * now.num_blocks, rel=0.01)
    assert f"{halved.tokens:,} KV tokens" in difference(
        changes["--kv-cache-dtype fp8"], answer.pick
    )
    assert changes["--gpu 2xrtx-4090"].settled.gpus == 2
    assert changes["--context 8192"].settled.memory.config.max_model_len == 8192


def test_more_gpus_are_asked_about_the_model_that_was_named() -> None:
    """Not about the copy that fits one: on two of 48 GB the model itself fits in FP8.

    81.3e9 parameters of a byte each are 75.7 GiB, 37.9 on each of two; one has 47.4.
    """
    rig = find_rig("rtx-6000-ada")
    answer = found("Qwen/Qwen3-Next-80B-A3B-Instruct", rig.spec)
    assert answer.pick is not None
    assert answer.pick.variant.weight_format == "int4"
    reasons = explain(answer, rig)
    assert reasons is not None
    more = next(each for each in reasons.changes if each.what == "--gpu 2xrtx-6000-ada")
    assert more.pick.variant.weight_format == "fp8"
    assert more.pick.variant.quantization is None  # published, so nothing is quantized here
    assert all(each.variant.quantization is None for each in answer.rejected)


def test_latent_caches_are_better_split_by_requests() -> None:
    """DeepSeek-V3 keeps 70,272 bytes a token on every rank of a TP group: replicas of the attention
    hold different requests, and share the experts."""
    answer = found("deepseek-ai/DeepSeek-V3", "8xh200", None, 64, 32768)
    held = {str(one.settled.layout): one.settled for one in answer.candidates}
    assert set(held) == {"TP8", "TP4 DP2 EP", "TP2 DP4 EP", "DP8 EP"}
    assert held["DP8 EP"].config.enable_expert_parallel
    assert held["DP8 EP"].config.data_parallel_size == 8
    # Each of the eight caches is smaller by the attention and dense weights that it does not split.
    assert 4 < held["DP8 EP"].tokens_held / held["TP8"].tokens_held < 8
    reasons = explain(answer, find_rig("8xh200"))
    assert reasons is not None
    head, one, other = reasons.replicas
    assert "tokens a second" in head
    assert "wait for any that reads a prompt" in head
    assert {text.partition(":")[0] for text in (one, other)} == {"TP8", "TP4 DP2 EP"}
    assert f"{held['TP8'].tokens_held:,} tokens in cache" in one + other


def test_an_estimate_alone_is_no_reason_for_replicas() -> None:
    """No measurement is of replicas that share experts: they must promise a tenth more."""
    answer = found("deepseek-ai/DeepSeek-R1", "8xmi300x", None, 32)
    totals = {
        str(one.settled.layout): one.settled.speed.total.value
        for one in answer.candidates
        if one.settled.speed is not None
    }
    assert 1 < totals["TP4 DP2 EP"] / totals["TP8"] < 1.1
    assert answer.pick is not None
    assert str(answer.pick.settled.layout) == "TP8"
    reasons = explain(answer, find_rig("8xmi300x"))
    assert reasons is not None
    assert "no measurement backs" in reasons.replicas[0]


@pytest.mark.parametrize(
    ("model", "rig", "aim", "concurrency", "said"),
    [
        ("Qwen/Qwen3-8B-AWQ", "2x4090", None, 1, "they answer no single request sooner"),
        ("Qwen/Qwen2.5-72B-Instruct", "4xl40s", None, 2, "No replicas: TP2 DP2 needs"),
        ("Qwen/Qwen3-8B-AWQ", "4090", None, 8, None),
        ("Qwen/Qwen3-8B-AWQ", "2x4090", "latency", 8, None),
    ],
)
def test_why_there_are_no_replicas(
    model: str, rig: str, aim: str | None, concurrency: int, said: str | None
) -> None:
    reasons = explain(found(model, rig, aim, concurrency), find_rig(rig))
    assert reasons is not None
    assert said in reasons.replicas[0] if said is not None else reasons.replicas == ()


def test_replicas_over_machines_share_the_experts() -> None:
    """Every GPU of both machines holds a sixteenth of the experts; vLLM starts them by --nnodes."""
    answer = found("deepseek-ai/DeepSeek-R1", "2x8xh200", "throughput", 64)
    wide = next(o.settled for o in answer.candidates if str(o.settled.layout) == "DP16 EP")
    (rank,) = wide.memory.ranks
    assert (wide.config.nnodes, wide.gpus) == (2, 16)
    one = plan_memory(
        wide.memory.card, find_rig("8xh200"),
        EngineConfig(data_parallel_size=8, enable_expert_parallel=True), vllm=RELEASE,
    )  # fmt: skip
    # 256 experts: 16 a GPU instead of 32.
    assert rank.parts.experts == pytest.approx(one.ranks[0].parts.experts / 2, rel=1e-3)
    words = render_command(wide.memory).argv
    assert words[words.index("--data-parallel-size") + 1] == "16"
    assert "--enable-expert-parallel" in words
    assert words[words.index("--nnodes") + 1] == "2"
    old = search(
        bundled("deepseek-ai/DeepSeek-R1"), find_rig("2x8xh200"), answer.requirements,
        find_release("0.10.2"),
    )  # fmt: skip
    by_hand = next(o.settled.config for o in old.candidates if o.settled.layout.data == 16)
    assert (by_hand.nnodes, by_hand.data_parallel_size_local) == (1, 8)


def test_long_prompts_on_a_tight_cache_are_worth_keeping_elsewhere() -> None:
    wanted = Requirements(Workload(16384, 512, 2), "agent", 32768)
    answer = search(bundled("Qwen/Qwen3-32B-AWQ"), find_rig("2x4090"), wanted, RELEASE)
    reasons = explain(answer, find_rig("2x4090"))
    assert reasons is not None
    assert "--kv-offloading-size" in {f.code: f.text for f in reasons.findings}["kv_offload"]


def test_prefill_apart_takes_more_than_one_gpu() -> None:
    """Said where steps are most of all prefill of others, and there is a GPU to give it."""
    for model, rig, said in (
        ("zai-org/GLM-4.6-FP8", "4xh200", True), ("Qwen/Qwen3-8B", "4090", False),
    ):  # fmt: skip
        answer = found(model, rig, "throughput", 32)
        assert answer.pick is not None
        assert answer.pick.settled.speed is not None
        assert answer.pick.settled.speed.bound_by == "prefill of other requests"
        reasons = explain(answer, find_rig(rig))
        assert reasons is not None
        assert ("disaggregation" in {each.code for each in reasons.findings}) == said


def test_a_server_on_each_machine_is_named_where_one_holds_the_model() -> None:
    """Four servers with a quarter of the requests each, as the plan of one of them says."""
    rig, model = find_rig("4x8xh100-sxm"), "Qwen/Qwen3-235B-A22B"
    reasons = explain(found(model, rig.spec, None, 64), rig)
    assert reasons is not None
    (finding,) = [each for each in reasons.findings if each.code == "servers_apart"]
    alone = pick(model, "8xh100-sxm", None, 16).settled.speed
    assert alone is not None
    assert f"write {4 * alone.total.value:.0f} tok/s in total" in finding.text
    assert "4 servers of their own (TP8 on each)" in finding.text
    kimi, two = "moonshotai/Kimi-K2-Instruct", find_rig("2x8xh100-sxm")  # 959 GiB in FP8
    more = explain(found(kimi, two.spec, None, 8), two)
    assert more is not None
    assert "servers_apart" not in {each.code for each in more.findings}


@pytest.mark.parametrize(
    ("rig", "spec"),
    [("4090", "2xrtx-4090"), ("8xh100", "2x8xh100-sxm"), ("2x8xh100", "4x8xh100-sxm"),
     ("gb10", "2x1xgb10"), ("cpu:64GiB@80", None), ("4090+3090", None)],
)  # fmt: skip
def test_twice_the_gpus_as_machines_are_built(rig: str, spec: str | None) -> None:
    larger = twice(find_rig(rig))
    assert (larger.spec if larger is not None else None) == spec


def test_the_command_line_picks_by_objective(vplan_here: Vplan) -> None:
    run = vplan_here(
        "recommend", "--gpu", "a100-80g", "--model", LLAMA, "--optimize", "balanced",
        "--context", "8k", "--offline",
    )  # fmt: skip
    assert run.status == 0
    # Of equals the faster on an A100, which multiplies int8 but not fp8.
    assert "vllm serve RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8" in run.out
    assert "GiB on the GPU with" in run.out
    assert "--max-model-len 8192" in run.out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(("--optimize", "speed"), "Unknown objective"), (("--max-price", "2"), "--max-price"),
     (("--min-tokens-per-second", "-1"), "tokens per second"),
     (("--licence", "mit,,"), "--licence"), (("--why", "nobody/nothing"), "no rated model"),
     (("--model", "Qwen/Qwen3-8B", "--all"), "--all"),
     (("--model", "Qwen/Qwen3-8B", "--licence", "mit"), "apache-2.0")],
)  # fmt: skip
def test_questions_that_cannot_be_answered(
    vplan_here: Vplan, arguments: tuple[str, ...], word: str
) -> None:
    run = vplan_here("recommend", "--gpu", "4090", *arguments)
    assert (run.status, run.out) == (2, "")
    assert word in run.err
