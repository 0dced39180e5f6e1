"""--json: valid by the schema that `vplan schema` prints, versioned, the same for everybody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema
import pytest
from program import Vplan, vplan

LLAMA_70B = "meta-llama/Llama-3.3-70B-Instruct"
FEW = ("--limit", "3")
REPORTS = {
    "ranking": ("ranking", [("--gpu", "4090", "--limit", "30"), ("--gpu", "8xh100-sxm", *FEW),
                            ("--gpu", "mi300x", *FEW), ("--gpu", "cpu:64GiB@80", *FEW),
                            ("--gpu", "custom:23.5GiB", *FEW),
                            ("--gpu", "4090+3090", "--concurrency", "16", *FEW),
                            ("--gpu", "custom:1GiB@100"), ("--gpu", "v100-sxm2-32gb")]),
    "model-on-rig": ("model on rig", [("--gpu", "4090", "--model", "Qwen/Qwen3-8B"),
                                      ("--gpu", "2x4090", "--model", LLAMA_70B),
                                      ("--gpu", "custom:24GiB", "--model", "Qwen/Qwen3-8B"),
                                      ("--gpu", "8xh100-sxm", "--model",
                                       "Qwen/Qwen3-Next-80B-A3B-Instruct"),
                                      ("--gpu", "4090", "--model", "Qwen/Qwen3-8B",
                                       "--context", "40961")]),
    "rigs": ("rigs for model", [("--model", LLAMA_70B), ("--model", "moonshotai/Kimi-K3")]),
    "speculation": ("speculation", [("--gpu", "h100-sxm", "--model", "Qwen/Qwen3-8B"),
                                    ("--gpu", "8xh200", "--model", "deepseek-ai/DeepSeek-V3.2",
                                     "--concurrency", "16", "--task", "code"),
                                    ("--gpu", "3090", "--model", "Qwen/Qwen2.5-3B-Instruct-AWQ",
                                     "--concurrency", "256", "--context", "1024",
                                     "--prompt-tokens", "128", "--output-tokens", "128")]),
    "comparison": ("comparison", [("Qwen/Qwen3-8B", "Qwen/Qwen3-8B-AWQ", "--gpu", "4090"),
                                  ("4090", "2x3090", "--model", "Qwen/Qwen3-14B")]),
    "placing": ("placing", [("--gpu", "4090", "--why", "openai/gpt-oss-20b"),
                            ("--gpu", "4090", "--why", "google/gemma-4-31B-it")]),
    "gpus": ("gpus", [(), ("4090",), ("rtx",), ("arc-b580",)]),
    "models": ("models", [(), ("Qwen/Qwen3-8B",)]),
    "check": ("check", [("--gpu", "4090", "--offline", "vllm serve Qwen/Qwen3-8B -tp 1 --nope"),
                        ("--gpu", "2x4090", "--offline", "vllm serve Qwen/Qwen3-14B -tp 2"),
                        ("--gpu", "2x4090", "--offline", "vllm serve Qwen/Qwen3-14B -tp 4"),
                        ("--gpu", "4090", "--offline", "vllm serve Qwen/Qwen3-14B")]),
}  # fmt: skip
# Of what really happened, or of a Hub: test_calibration, test_diagnose, test_validate,
# test_cli_own_models.
ELSEWHERE = {"calibration", "diagnosis", "search", "validation"}
CASES = [(report, arguments) for report, (_, every) in REPORTS.items() for arguments in every]


@cache
def schemas() -> dict[str, Any]:
    run = vplan("schema")
    assert (run.status, run.err) == (0, "")
    printed: dict[str, Any] = json.loads(run.out)
    return printed


def command(report: str) -> str:
    if report == "speculation":
        return "speculate"
    named = {"comparison": "compare"}
    known = ("gpus", "models", "check")
    return named.get(report, report if report in known else "recommend")


def numbers(part: Any) -> Iterator[float]:
    if isinstance(part, dict):
        part = list(part.values())
    if isinstance(part, list):
        for item in part:
            yield from numbers(item)
    elif isinstance(part, float):
        yield part


def strictly(text: str) -> Any:
    """JSON without Python's NaN and Infinity, which no other reader takes."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_every_report_has_a_schema() -> None:
    assert set(schemas()) == set(REPORTS) | ELSEWHERE
    for schema in schemas().values():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert {"schema_version", "kind"} <= set(schema["properties"])
        assert schema["additionalProperties"] is False


@pytest.mark.parametrize("report", REPORTS)
def test_one_schema_alone(vplan_here: Vplan, report: str) -> None:
    assert json.loads(vplan_here("schema", report).out) == schemas()[report]


@pytest.mark.parametrize(("report", "arguments"), CASES, ids=str)
def test_output_is_valid(vplan_here: Vplan, report: str, arguments: tuple[str, ...]) -> None:
    run = vplan_here(command(report), "--json", *arguments)
    assert run.status in (0, 1)
    printed = strictly(run.out)
    jsonschema.validate(printed, schemas()[report])
    assert (printed["schema_version"], printed["kind"]) == (1, REPORTS[report][0])


@pytest.mark.parametrize("report", REPORTS)
def test_the_schema_refuses_what_it_should(vplan_here: Vplan, report: str) -> None:
    """A schema that takes anything would make the test above worthless."""
    printed = json.loads(vplan_here(command(report), "--json", *REPORTS[report][1][0]).out)
    for wrong in ({**printed, "schema_version": 2}, {**printed, "more": 1}, {"kind": "gpus"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schemas()[report])


def test_bands_hold_their_values(vplan_here: Vplan) -> None:
    printed = json.loads(vplan_here("recommend", "--gpu", "4090", "--json").out)

    def quantities(part: Any) -> Iterator[dict[str, Any]]:
        if isinstance(part, dict) and {"value", "low", "high", "basis"} == set(part):
            yield part
        elif isinstance(part, (dict, list)):
            for item in part.values() if isinstance(part, dict) else part:
                yield from quantities(item)

    found = list(quantities(printed))
    assert len(found) > 100
    assert all(quantity["low"] <= quantity["value"] <= quantity["high"] for quantity in found)
    assert all(q["low"] == q["high"] for q in found if q["basis"] == "exact")


def test_the_budget_adds_up(vplan_here: Vplan) -> None:
    """vLLM's share of the GPU is weights, buffers, activations, graphs, the rest and the cache."""
    printed = json.loads(vplan_here("recommend", "--gpu", "4090", "--json").out)
    for choice in printed["choices"]:
        memory = choice["plan"]["memory"]
        for rank in memory["ranks"]:
            parts = [rank[name]["value"] for name in ("activation", "non_torch", "kv_cache")]
            parts += [rank["weights"]["total"]["value"], rank["persistent_buffers"]]
            parts += [rank["cuda_graphs"]["value"]] if rank["cuda_graphs_counted"] else []
            assert sum(parts) == pytest.approx(memory["requested"]["value"], abs=1024)


def test_the_report_of_a_misfit_says_how_much_is_missing(vplan_here: Vplan) -> None:
    run = vplan_here("recommend", "--gpu", "2x4090", "--model", LLAMA_70B, "--json")
    printed = json.loads(run.out)
    assert (printed["fits"], printed["plan"]) == (False, None)
    assert printed["excess_bytes"] > 40 * 2**30  # by hand in test_alternatives
    assert printed["reason"]
    works = [row for row in printed["alternatives"] if row["works"]]
    assert works
    for row in works:
        assert row["plan"]["memory"]["starts"]["answer"] == "yes"
        assert row["plan"]["command"]["argv"][:2] == ["vllm", "serve"]
    for row in printed["alternatives"]:
        risky = row["plan"] is not None and row["plan"]["memory"]["starts"]["answer"] == "risky"
        assert (row["excess_bytes"] > 0) is not (row["works"] or risky)
        assert (row["reason"] is None) is row["works"]


def test_the_command_is_the_same_as_in_the_text(vplan_here: Vplan) -> None:
    arguments = ("recommend", "--gpu", "4090", "--model", "Qwen/Qwen3-8B")
    argv = json.loads(vplan_here(*arguments, "--json").out)["plan"]["command"]["argv"]
    text = vplan_here(*arguments).out.replace(" \\\n  ", " ")
    assert " ".join(argv) in text


def test_the_same_bytes_in_every_process() -> None:
    """Nothing depends on the order of sets or hashes."""
    arguments = ("recommend", "--gpu", "2x3090", "--json", *FEW)
    first, second = (vplan(*arguments, PYTHONHASHSEED=seed) for seed in ("1", "4242"))
    assert first.out == second.out
    assert first.status == 0
