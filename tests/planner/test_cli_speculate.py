"""`vplan speculate`, and what `recommend` and `check` say of speculation."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from program import Vplan

QWEN = ("--gpu", "4090", "--model", "Qwen/Qwen3-8B", "--context", "8192")
FULL = ("--gpu", "3090", "--model", "Qwen/Qwen2.5-3B-Instruct-AWQ", "--concurrency", "256",
        "--context", "1024", "--prompt-tokens", "128", "--output-tokens", "128")  # fmt: skip


def config_in(text: str) -> dict[str, Any]:
    line = next(line for line in text.splitlines() if "--speculative-config" in line)
    option, value = shlex.split(line)
    assert option == "--speculative-config"
    found: dict[str, Any] = json.loads(value)
    return found


def test_all_methods_in_one_table(vplan_here: Vplan) -> None:
    run = vplan_here("speculate", *QWEN)
    assert (run.status, run.err) == (0, "")
    table, _, rest = run.out.partition("\n - ")
    for method in ("EAGLE-3", "P-EAGLE", "DFlash", "DSpark", "PARD", "draft model", "n-gram",
                   "suffix"):  # fmt: skip
        assert f"\n{method}" in table
    assert "trees as in EAGLE-2 are not available" in " ".join(rest.split())
    config = config_in(run.out)
    assert config["method"] in ("eagle3", "dflash", "dspark", "draft_model")
    assert config["num_speculative_tokens"] >= 1


def test_json_says_the_same(vplan_here: Vplan) -> None:
    text, report = vplan_here("speculate", *QWEN), vplan_here("speculate", *QWEN, "--json")
    printed = json.loads(report.out)
    assert printed["advice"]["pays"] is True
    assert printed["advice"]["speculative_config"] == config_in(text.out)
    chosen = printed["methods"][0]
    assert chosen["speculative_config"] == config_in(text.out)
    assert "--speculative-config" in printed["command"]
    rates = chosen["synthetic_acceptance_rates"]
    assert len(rates) == chosen["speculative_config"]["num_speculative_tokens"]
    assert rates == sorted(rates, reverse=True)
    # One and the survival of every position is the acceptance length.
    assert 1 + sum(rates) == pytest.approx(chosen["acceptance_length"]["value"], abs=1e-3)
    assert [gain["batch"] for gain in chosen["speedups"]] == [1, 4, 16, 64]


def test_lengths_as_recommend_takes_them(vplan_here: Vplan) -> None:
    asked = ("--context", "8k", "--prompt-tokens", "2k", "--output-tokens", "1k")
    printed = json.loads(vplan_here("speculate", *QWEN, *asked, "--json").out)
    load = printed["workload"]
    assert (load["context"], load["prompt_tokens"], load["output_tokens"]) == (8192, 2048, 1024)


def test_none_that_pays(vplan_here: Vplan) -> None:
    run = vplan_here("speculate", *FULL)
    assert run.status == 1
    assert "Choice: none. Nothing gains 1.1x for 256 requests at once" in run.out
    assert "--speculative-config" not in run.out
    printed = json.loads(vplan_here("speculate", *FULL, "--json").out)
    assert (printed["advice"]["pays"], printed["command"]) == (False, None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*QWEN, "--task", "poetry"), "Unknown task 'poetry'; one of chat, code"),
        ((*QWEN, "--temperature", "5"), "between 0 and 2"),
        ((*QWEN, "--context", "long"), "no number of tokens"),
        (("--gpu", "4090", "--model", "BAAI/bge-m3"), "nothing to draft"),
        (
            (
                "--gpu",
                "4090",
            ),
            "Missing option '--model'",
        ),
        (("--gpu", "cpu:64GiB@80", "--model", "Qwen/Qwen3-8B"), "compute rate of CPU is not known"),
    ],
)
def test_wrong_input(vplan_here: Vplan, arguments: tuple[str, ...], said: str) -> None:
    run = vplan_here("speculate", *arguments)
    assert (run.status, run.out) == (2, "")
    assert said in run.err
    assert run.err.count("\n") == 1


def test_a_model_that_does_not_fit(vplan_here: Vplan) -> None:
    run = vplan_here("speculate", "--gpu", "4090", "--model", "meta-llama/Llama-3.3-70B-Instruct")
    assert run.status == 1
    assert "does not fit rtx-4090 as asked" in run.err


def test_sampling_and_the_task_change_what_is_accepted(vplan_here: Vplan) -> None:
    def first(*more: str) -> float:
        printed = json.loads(vplan_here("speculate", *QWEN, *more, "--json").out)
        method = next(each for each in printed["methods"] if each["method"] == "eagle3")
        rate: float = method["first_token_acceptance"]["value"]
        return rate

    assert first("--temperature", "1") < first() < first("--task", "code")


def test_recommend_says_what_would_pay(vplan_here: Vplan) -> None:
    run = vplan_here("recommend", *QWEN)
    said = " ".join(run.out.split())
    assert "Speculative decoding would pay: " in said
    assert "times as fast for a single request" in said
    printed = json.loads(vplan_here("recommend", *QWEN, "--json").out)
    assert printed["speculation"]["speculative_config"] == config_in(run.out)
    assert "--speculative-config" not in printed["plan"]["command"]["argv"]


def test_recommend_says_why_not(vplan_here: Vplan) -> None:
    run = vplan_here("recommend", *FULL)
    assert "Speculative decoding: none; nothing gains 1.1x for 256 requests" in run.out
    assert json.loads(vplan_here("recommend", *FULL, "--json").out)["speculation"]["pays"] is False


def test_what_is_advised_starts(vplan_here: Vplan) -> None:
    printed = json.loads(vplan_here("speculate", *QWEN, "--json").out)
    run = vplan_here("check", "--gpu", "4090", "--offline", "--", *printed["command"])
    assert run.status == 0, run.out
    assert "times as fast for a single chat request" in " ".join(run.out.split())


@pytest.mark.parametrize(
    ("model", "gpu", "config", "said"),
    [
        ("Qwen/Qwen3-8B", "4090", {"method": "ngram", "num_speculative_tokens": 24},
         "slower than without from about"),
        ("Qwen/Qwen3-8B", "4090",
         {"method": "draft_model", "model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 8},
         "vplan speculate compares the methods"),
    ],
)  # fmt: skip
def test_check_judges_the_speculation_of_a_command(
    vplan_here: Vplan, model: str, gpu: str, config: dict[str, Any], said: str
) -> None:
    words = ("vllm", "serve", model, "--max-model-len", "4096",
             "--speculative-config", json.dumps(config))  # fmt: skip
    run = vplan_here("check", "--gpu", gpu, "--offline", "--json", "--", *words)
    findings = json.loads(run.out)["findings"]
    found = next(each for each in findings if each["code"] == "speculation")
    assert said in f"{found['text']} {found['fix']}"
    assert "times as fast" in found["text"]


def test_check_warns_of_heads_made_for_less(vplan_here: Vplan) -> None:
    config = {"method": "eagle3", "num_speculative_tokens": 3,
              "model": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"}  # fmt: skip
    words = ("vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct", "--max-model-len", "65536",
             "--speculative-config", json.dumps(config))  # fmt: skip
    run = vplan_here("check", "--gpu", "h100-sxm", "--offline", "--json", "--", *words)
    found = {each["code"]: each for each in json.loads(run.out)["findings"]}
    assert found["draft_context"]["severity"] == "warning"
    assert "2,048" in found["draft_context"]["text"]


def test_check_plans_a_known_head_without_its_config(vplan_here: Vplan) -> None:
    """Offline, a head that is known by name is planned as its kind usually is; others are not."""
    for head, severity in (("Tengyunw/qwen3_8b_eagle3", "warning"), ("nobody/nothing", "error")):
        config = {"method": "eagle3", "num_speculative_tokens": 3, "model": head}
        words = ("vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "4096",
                 "--speculative-config", json.dumps(config))  # fmt: skip
        run = vplan_here("check", "--gpu", "4090", "--offline", "--json", "--", *words)
        found = {each["code"]: each for each in json.loads(run.out)["findings"]}
        assert found["unknown_draft"]["severity"] == severity
        assert ("speculation" in found) is (severity == "warning")
