"""`vplan check`: the verdict on a pasted command, its findings, and changes that really mend it."""

from __future__ import annotations

import json

import pytest
from launches import bundled
from program import Vplan

from hardware_db import find_rig
from model_cards import UnknownModel
from planner import plan_memory
from planner.command.parse import read_command
from planner.diagnosis.check import Check, check_command
from planner.diagnosis.messages import own_message
from planner.findings import Severity
from planner.memory.verdict import Answer

# Two commands of a recipe that is passed around, and what is wrong with them.
DRAFT_MODEL = (
    "vllm serve meta-llama/Llama-3.3-70B-Instruct --tensor-parallel-size 2 "
    "--speculative-model meta-llama/Llama-3.2-1B-Instruct --num-speculative-tokens 5 "
    "--speculative-draft-tensor-parallel-size 1 --gpu-memory-utilization 0.92 "
    "--max-model-len 8192 --kv-cache-dtype fp8 --port 8000"
)
EAGLE = (
    "vllm serve Qwen/Qwen2.5-Coder-14B-Instruct-AWQ --speculative-model "
    "yuhuili/EAGLE-Qwen2.5-Coder-14B-Instruct --num-speculative-tokens 4 "
    "--gpu-memory-utilization 0.88 --max-model-len 16384 --enforce-eager --port 8000"
)


def checked(text: str, rig: str, release: str = "0.33.0") -> Check:
    return check_command(read_command([text], release), find_rig(rig), offline=True)


def codes(check: Check, severity: Severity = Severity.ERROR) -> set[str]:
    return {finding.code for finding in check.findings if finding.severity is severity}


def test_a_draft_model_that_fails_several_times_over() -> None:
    """The options are gone; 70.55 B parameters in 16 bit are 131.4 GiB, 65.7 on each of two cards
    of 24 GB, with the draft's 2.3 split over both; and the draft is not split as asked."""
    check = checked(DRAFT_MODEL, "2x4090")
    assert check.answer is Answer.NO
    assert {"option_gone", "kv_room"} <= codes(check)
    assert "draft_ranks" in codes(check, Severity.WARNING)
    assert check.memory is not None
    weights = check.memory.ranks[0].weights.value / 2**30
    assert weights == pytest.approx(65.74 + 2.30 / 2, abs=0.1)


def test_a_draft_model_where_vllm_has_none() -> None:
    """Neither V0's nor V1's existed from 0.10.0 to 0.14.x."""
    options = '--speculative-config \'{"model": "meta-llama/Llama-3.2-1B-Instruct", '
    options += '"num_speculative_tokens": 5}\''
    text = f"vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 4096 {options}"
    assert "speculation" in codes(checked(text, "h100-sxm", "0.12.0"))
    assert checked(text, "h100-sxm", "0.33.0").answer is Answer.YES


def test_eager_mode_on_a_cpu_does_without_compilation() -> None:
    """There are no CUDA graphs to do without."""
    check = checked("vllm serve Qwen/Qwen3-0.6B --enforce-eager", "cpu:32GiB")
    (said,) = [finding.text for finding in check.findings if finding.code == "eager"]
    assert "without compilation" in said
    assert "CUDA" not in said


def test_a_head_that_nobody_has_seen() -> None:
    """Its memory would fit: what stops it are the options and the repository."""
    check = checked(EAGLE, "4090")
    assert check.answer is Answer.NO
    assert {"option_gone", "unknown_draft"} <= codes(check)
    assert "eager" in codes(check, Severity.WARNING)
    assert check.memory is not None
    assert check.memory.starts.answer is Answer.YES
    assert check.memory.ranks[0].weights.value / 2**30 == pytest.approx(9.3, abs=0.1)


@pytest.mark.parametrize("text", [DRAFT_MODEL, EAGLE])
def test_the_program_says_no_to_both(text: str, vplan_here: Vplan) -> None:
    run = vplan_here("check", "--gpu", "2x4090", "--offline", "--", *text.split())
    assert run.status == 1
    assert "option_gone" not in run.out  # codes are for programs
    assert "--speculative-config" in run.out
    assert run.err == "vplan: it does not start\n"


def test_what_starts() -> None:
    check = checked("vllm serve Qwen/Qwen3-8B --max-model-len 16384", "4090")
    assert check.answer is Answer.YES
    assert codes(check) == set()
    assert check.remedies == ()


@pytest.mark.parametrize(
    ("text", "rig"),
    [
        ("vllm serve Qwen/Qwen3-8B --max-model-len 40960 --max-num-seqs 256", "4060ti-16gb"),
        ("vllm serve Qwen/Qwen3-14B --max-model-len 40960", "4090"),
        ("vllm serve meta-llama/Llama-3.1-8B-Instruct", "4090"),
        ("vllm serve Qwen/Qwen3-32B-AWQ --max-model-len 32768", "4090"),
        ("vllm serve google/gemma-3-27b-it", "a100-sxm-80gb"),
        ("vllm serve Qwen/Qwen3-0.6B --gpu-memory-utilization 0.99", "4060"),
    ],
)
def test_every_remedy_starts(text: str, rig: str) -> None:
    check = checked(text, rig)
    if check.answer is Answer.YES:
        assert check.remedies == ()
        return
    assert check.remedies
    for remedy in check.remedies:
        again = plan_memory(
            remedy.memory.card, check.rig, remedy.memory.config.given, vllm="0.33.0"
        )
        assert again.starts.answer is Answer.YES, remedy.change


def test_without_images_there_is_room() -> None:
    """A tower of 0.8 GiB, whole on each rank, and the pass that profiles it."""
    text = "vllm serve google/gemma-3-4b-it --enforce-eager --max-model-len 32768"
    check = checked(f"{text} --gpu-memory-utilization 0.9", "custom:12.5GiB@900,cc=8.6")
    assert any(remedy.change.startswith("--language-model-only") for remedy in check.remedies)


def test_the_nearest_length_is_what_vllm_would_estimate() -> None:
    """In a pool that is exactly known, the length named is the longest that fits: one more block
    of tokens does not."""
    card, rig = bundled("Qwen/Qwen3-8B"), find_rig("4090")
    text = "vllm serve Qwen/Qwen3-8B --kv-cache-memory-bytes 1G"
    check = checked(text, "4090")
    assert check.memory is not None
    longest = check.memory.kv_cache.longest_len
    message = own_message(check.memory)
    assert message is not None
    assert f"the estimated maximum model length is {longest}." in message
    given = check.config
    from msgspec.structs import replace

    assert plan_memory(card, rig, replace(given, max_model_len=longest)).kv_cache.fits
    assert not plan_memory(card, rig, replace(given, max_model_len=longest + 16)).kv_cache.fits


def test_messages_follow_the_release() -> None:
    text = "vllm serve Qwen/Qwen3-8B --kv-cache-memory-bytes 1G"
    for release, words in (("0.20.2", "the models's max seq len"), ("0.33.0", "the model's max")):
        memory = checked(text, "4090", release).memory
        assert memory is not None
        assert words in (own_message(memory) or "")


def test_more_gpus_than_there_are() -> None:
    check = checked("vllm serve Qwen/Qwen3-8B -tp 4", "2x4090")
    assert codes(check) == {"world_size"}
    assert check.answer is Answer.NO


def test_rules_are_findings() -> None:
    check = checked("vllm serve Qwen/Qwen2.5-7B-Instruct -tp 8", "8xh100-sxm")
    assert "heads" in codes(check)


def test_an_unknown_model_is_bad_input(vplan_here: Vplan) -> None:
    with pytest.raises(UnknownModel):
        checked("vllm serve nobody/nothing-at-all", "4090")
    run = vplan_here("check", "--gpu", "4090", "--offline", "--", "vllm", "serve", "nobody/nothing")
    assert run.status == 2


def test_json(vplan_here: Vplan) -> None:
    run = vplan_here("check", "--gpu", "2x4090", "--offline", "--json", "--", *DRAFT_MODEL.split())
    assert run.status == 1
    report = json.loads(run.out)
    assert (report["kind"], report["answer"], report["vllm"]) == ("check", "no", "0.33.0")
    assert {"option_gone", "kv_room"} <= {finding["code"] for finding in report["findings"]}
    assert report["settings"]["max_num_seqs"] == 256
    assert report["memory"]["ranks"][0]["weights"]["total"]["basis"] == "exact"
    assert all(remedy["command"][:2] == ["vllm", "serve"] for remedy in report["remedies"])


def test_a_command_from_a_pipe(vplan_here: Vplan, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("vllm serve Qwen/Qwen3-8B \\\n -tp 1\n"))
    run = vplan_here("check", "--gpu", "h100-sxm", "--offline", "-")
    assert run.status == 0


def test_keys_in_a_command_are_not_repeated(vplan_here: Vplan) -> None:
    text = "HF_TOKEN=hf_secret123 vllm serve Qwen/Qwen3-8B --api-key topsecret --nope topsecret2"
    for form in ([], ["--json"]):
        run = vplan_here("check", "--gpu", "h100-sxm", "--offline", *form, text)
        assert "secret" not in run.out + run.err
