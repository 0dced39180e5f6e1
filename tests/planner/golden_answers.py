"""Golden answers of `vplan recommend`: the choice and the command, in a form that people review.

    python tests/planner/golden_answers.py

writes them anew from what the program answers now, offline. Speeds and sizes, which grow more exact
with every release, are left out; so is all but the beginning of long lists.
"""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from planner.cli.app import run

FOLDER = Path(__file__).parent / "golden"
QUESTIONS = {
    "4090": "--gpu 4090",
    "2x3090-code": "--gpu 2x3090 --use-case code --context 32k",
    "8xh100-deepseek-v3": "--gpu 8xh100 --model deepseek-ai/DeepSeek-V3",
    "gb10": "--gpu gb10",
    "3060": "--gpu 3060",
    "qwen3-32b": "--model Qwen/Qwen3-32B --context 32k --concurrency 16",
    "a100-llama-70b": "--gpu a100-80g --model meta-llama/Llama-3.3-70B-Instruct",
    "2x8xh100-kimi-k2": "--gpu 2x8xh100 --model moonshotai/Kimi-K2-Instruct",
    "8xh200-deepseek-v3-throughput": "--gpu 8xh200 --model deepseek-ai/DeepSeek-V3 "
    "--concurrency 256 --optimize throughput",
    "8xh100-qwen3-8b-64": "--gpu 8xh100 --model Qwen/Qwen3-8B --concurrency 64",
    "2x8xh100-405b-16": "--gpu 2x8xh100 --model meta-llama/Llama-3.1-405B-Instruct-FP8 "
    "--concurrency 16",
}
_ROWS = 6


def answer(question: str) -> str:
    """The golden text of a question, from what the program answers."""
    out, err = io.StringIO(), io.StringIO()
    words = ["recommend", *shlex.split(question), "--offline", "--json", "--vllm-version", "0.33.0"]
    with redirect_stdout(out), redirect_stderr(err):
        status = run(words)
    report = json.loads(out.getvalue())
    lines = [f"$ vplan recommend {question}", f"exit status {int(status)}", ""]
    match report["kind"]:
        case "ranking":
            lines += _ranking(report)
        case "model on rig":
            lines += _model(report)
        case "rigs for model":
            lines += _rigs(report)
    return "\n".join(lines) + "\n"


def _ranking(report: dict[str, Any]) -> Iterator[str]:
    tier = 0
    for choice in report["choices"]:
        number = choice["tier"] if choice["tier"] != tier else ""
        tier = choice["tier"]
        model = choice["plan"]["model"]
        yield f"{number:>2} {model['id']} ({model['weight_format']})"
    yield ""
    yield from _command(report["choices"][0]["plan"])


def _model(report: dict[str, Any]) -> Iterator[str]:
    fits = "works as asked" if report["fits"] else "does not fit"
    yield f"what was named {fits}"
    pick = report["pick"]
    if pick is not None:
        yield f"pick: {_candidate(pick)}"
    for each in report["candidates"]:
        if each["unbeaten"] and each != pick:
            yield f"also: {_candidate(each)}"
    for each in report["rejected"]:
        yield f"rejected: {each['model']} ({each['weight_format']})"
    for each in report["alternatives"]:
        if each["works"] and each["what"].count("/") == 0:
            yield f"works: {each['what']}"
    for each in report["changes"]:
        yield f"a change: {each['what']}"
    for each in report["findings"]:
        yield f"finding: {each['code']}"
    for each in report["replicas"][:1]:
        yield f"replicas: {each}"
    yield ""
    if report["plan"] is not None:
        yield from _command(report["plan"])
    elif pick is not None:
        plans = [each["plan"] for each in report["alternatives"] if each["plan"] is not None]
        plan = next(plan for plan in plans if plan["model"]["id"] == pick["model"])
        yield from _command(plan)


def _candidate(candidate: dict[str, Any]) -> str:
    sizes = {
        "TP": candidate["tensor_parallel_size"],
        "PP": candidate["pipeline_parallel_size"],
        "DP": candidate["data_parallel_size"],
    }
    layout = "".join(f", {name}{size}" for name, size in sizes.items() if size > 1)
    layout += ", EP" if candidate["enable_expert_parallel"] else ""
    loss = f", {candidate['quality_loss']:.1f} points less" if candidate["quality_loss"] else ""
    return f"{candidate['model']} ({candidate['weight_format']}{layout}{loss})"


def _rigs(report: dict[str, Any]) -> Iterator[str]:
    shown: dict[str, int] = {}
    for each in report["rigs"]:
        model = each["plan"]["model"]["id"]
        shown[model] = shown.get(model, 0) + 1
        if shown[model] > _ROWS:
            continue
        price = each["usd_per_hour"]
        cost = f"{price:.2f} $/h" if price is not None else "no price"
        yield f"{each['rig']['spec']:<24}{cost:>10}  {model}"


def _command(plan: dict[str, Any]) -> Iterator[str]:
    argv = plan["command"]["argv"]
    yield " ".join(argv[:3])
    for flag in plan["command"]["flags"]:
        value = f" {shlex.quote(flag['value'])}" if flag["value"] is not None else ""
        yield f"  {flag['name']}{value}  # {flag['reason']}"
    for finding in plan["findings"]:
        yield f"note: {finding['code']}"


def main() -> None:
    for name, question in QUESTIONS.items():
        path = FOLDER / f"{name}.txt"
        path.write_text(answer(question), "utf-8")
        print(path)


if __name__ == "__main__":
    main()
