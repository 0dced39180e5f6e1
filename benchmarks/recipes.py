"""How vplan's check and its own choice compare with the official commands for models on hardware.

    python benchmarks/recipes.py [--errors] [--differences] [--vllm RELEASE]

Reads tests/data/recipes.jsonl (see tools/build_recipes.py). Printed are: how many commands vplan's
lint takes for what they are, commands that start; for the models that are bundled, whether the
memory plan agrees that they start on each of the GPUs they are given for; and where vplan itself
would choose another tensor parallel size, weight format or context. --errors and --differences list
the single cases.

Commands of programs that only build on vLLM (vllm-omni, TPU and Ascend plug-ins) and templates with
variables left in them are no commands of vLLM's and do not count.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from hardware_db import HardwareError, Rig, find_rig
from model_cards.sources.bundled import find_entry, open_bundled
from planner.command.parse import ServeCommand, read_command
from planner.diagnosis.check import Check, check_command
from planner.engine.releases import Release, find_release
from planner.errors import PlanError
from planner.findings import Severity
from planner.memory.verdict import Answer
from planner.recommendation.requirements import Objective, Requirements
from planner.recommendation.search import Candidate, search
from planner.workload import use_case_workload

RECIPES = Path(__file__).parent.parent / "tests" / "data" / "recipes.jsonl"
GPUS = {
    "h100": "h100-sxm", "h200": "h200-sxm", "h20": "h20", "b200": "b200", "b300": "b300",
    "gb200": "gb200", "gb300": "gb300", "a100": "a100-sxm4-80gb", "dgx_spark_gb10": "gb10",
    "rtx_pro_6000": "rtx-pro-6000-blackwell", "rtx_5090": "rtx-5090",
    "mi300x": "mi300x", "mi325x": "mi325x", "mi355x": "mi355x",
}  # fmt: skip
_OTHER_PROGRAMS = ("vllm-tpu", "vllm-ascend", "vllm-omni", "vllm-omni-rocm")
_OTHER_OPTIONS = ("--omni", "--deploy-config", "--stage-configs-path")
_TEMPLATE = re.compile(r"\$|<[A-Za-z_0-9]+>|/path")
# Faults of the recipes themselves, read in vLLM's own sources: what the error names, and why it is
# one for the release that is checked.
FAULTS = {
    "--swap-space": "an option until 0.17",
    "--guided-decoding-backend": "an option until 0.11",
    "--tool-call-parser-plugin": "never an option; vLLM's is --tool-parser-plugin",
    "use_inductor": "a key of --compilation-config until 0.11; a dataclass refuses unknown keys",
    "GPT-OSS_Blackwell.yaml": "a file that the guide has the reader write",
}
# Why a command that a recipe gives for some hardware does not start there, or perhaps not: what
# the plan says, and where vLLM 0.33.0 decides it. The length counts where a recipe sets none.
REFUSALS = {
    "of KV cache on each GPU": "no --max-model-len, and the cache does not hold one request of all "
    "that the model has: _check_enough_kv_cache_memory of v1/core/kv_cache_planning.py raises",
    "blocks for their recurrent states": "no --max-num-seqs, and the default of 1,024 is more than "
    "the cache has blocks: resolve_cudagraph_mode_and_sizes of config/compilation.py raises",
    "no memory for the KV cache": "listed for GPUs that its weights alone fill",
    "GPUs are asked for": "listed for fewer GPUs than its parallel sizes need",
}
RISKS = {
    "of KV cache on each GPU": "risky: what one request needs lies in the band of what is left",
    "free memory at start": "risky: memory that CPU and GPU share (GB10), of which the default "
    "share is free only where little else runs",
}
_LENGTH = "of KV cache on each GPU"
# Codes of findings about the checkout at hand rather than the command.
_ABOUT_HARDWARE = ("world_size", "kv_room", "free_memory", "state_blocks", "wheel", "nodes")


class Recipe(Struct, frozen=True):
    """A command, and the hardware it is given for: (GPU, number of them)."""

    model: str
    words: list[str]
    release: str | None
    rigs: list[tuple[str, int]]
    file: str
    environ: dict[str, str]
    flags: dict[str, Any]


@dataclass
class Score:
    """Counts, and the cases behind them."""

    commands: int = 0
    elsewhere: int = 0
    errors: list[tuple[Recipe, str]] = field(default_factory=list)
    planned: int = 0
    not_bundled: int = 0
    refused: list[tuple[Recipe, str, str]] = field(default_factory=list)
    risky: list[tuple[Recipe, str, str]] = field(default_factory=list)
    compared: int = 0
    differences: dict[str, list[str]] = field(default_factory=dict)


def recipes() -> Iterator[Recipe]:
    """Every recipe of the copy."""
    for text in RECIPES.read_text("utf-8").splitlines()[1:]:
        row = json.loads(text)
        image = row.get("image", "")
        yield Recipe(
            row["model"],
            ["vllm", "serve", row["model"], *_words(row.get("flags", {}))],
            image if image[:1].isdigit() else None,
            [(GPUS[gpu], count) for gpu, count in row["on"] if gpu in GPUS],
            f"{row['file']} ({image})",
            row.get("env", {}),
            row.get("flags", {}),
        )


def _words(flags: dict[str, Any]) -> Iterator[str]:
    for name, value in flags.items():
        if value is False:
            continue
        yield name
        if isinstance(value, (dict, list)):
            yield json.dumps(value)
        elif value is not True:
            yield str(value)


def is_elsewhere(recipe: Recipe) -> bool:
    """Whether it is the command of another program, or no whole command."""
    image = recipe.file.rpartition("(")[2].rstrip(")")
    return (
        image in _OTHER_PROGRAMS
        or any(name in recipe.flags for name in _OTHER_OPTIONS)
        or _TEMPLATE.search(" ".join(recipe.words)) is not None
    )


def lint_errors(command: ServeCommand) -> list[str]:
    """What vplan says is wrong with a command in itself."""
    return [
        f"{finding.code}: {finding.text}"
        for finding in command.findings
        if finding.severity is Severity.ERROR and finding.code not in _ABOUT_HARDWARE
    ]


def refusal(recipe: Recipe, reason: str) -> str | None:
    """Why a recipe does not start where it is listed; None where nothing known explains it."""
    if _LENGTH in reason and "--max-model-len" in recipe.flags:
        return None
    return next((why for text, why in REFUSALS.items() if text in reason), None)


def risk(reason: str) -> str | None:
    """Why a recipe may not start there."""
    return next((why for text, why in RISKS.items() if text in reason), None)


def fault(error: str) -> str | None:
    """The fault of a recipe that an error is about; None where the error is a false one."""
    return next((name for name in FAULTS if name in error), None)


def judge(recipe: Recipe, score: Score, release: str, *, compares: bool = True) -> None:
    """Lint a recipe, plan it on its hardware, and compare it with vplan's own choice."""
    if is_elsewhere(recipe):
        score.elsewhere += 1
        return
    score.commands += 1
    try:
        command = read_command(
            [*(f"{k}={v}" for k, v in recipe.environ.items()), *recipe.words],
            recipe.release or release,
        )
    except PlanError as error:
        score.errors.append((recipe, str(error)))
        return
    for text in lint_errors(command)[:1]:
        score.errors.append((recipe, text))
    if find_entry(command.model) is None:
        score.not_bundled += len(recipe.rigs)
        return
    for gpu, count in recipe.rigs:
        spec = gpu if count == 1 else f"{count}x{gpu}"
        try:
            rig = find_rig(spec)
            result = check_command(command, rig, offline=True)
        except (HardwareError, PlanError):
            continue
        score.planned += 1
        if result.memory is None or result.memory.starts.answer is Answer.NO:
            reason = result.memory.starts.reason if result.memory else result.findings[-1].text
            score.refused.append((recipe, spec, reason))
        elif result.memory.starts.answer is Answer.RISKY:
            score.risky.append((recipe, spec, result.memory.starts.reason))
        elif compares:
            compare(recipe, result, rig, score)


@cache
def own_choice(model_id: str, spec: str, release: str) -> Candidate | None:
    """What vplan itself would run of a model on a rig."""
    card = open_bundled(model_id)
    if card is None or not card.converses:
        return None
    wanted = Requirements(use_case_workload("chat"), "chat", objective=Objective.BALANCED)
    return search(card, find_rig(spec), wanted, find_release(release)).pick


def compare(recipe: Recipe, result: Check, rig: Rig, score: Score) -> None:
    """Where vplan's own choice for the same model and hardware is another."""
    assert result.memory is not None
    release: Release = result.command.release
    own = own_choice(recipe.model, rig.spec, release.name)
    if own is None:
        return
    score.compared += 1
    where = f"{recipe.model} on {rig.spec}"
    theirs, ours = result.memory.config, own.settled.memory.config
    for name, mine, other in (
        (
            "tensor parallel size",
            ours.given.tensor_parallel_size,
            theirs.given.tensor_parallel_size,
        ),
        ("weight format", own.variant.weight_format, result.memory.card.format_kind),
        ("context", ours.max_model_len, theirs.max_model_len),
    ):
        if mine == other:
            continue
        why = reason(name, mine, other, own)
        score.differences.setdefault(f"{name}: {why}", []).append(f"{where}: {other} -> {mine}")


def reason(name: str, mine: Any, other: Any, own: Candidate) -> str:
    """Why vplan chooses otherwise, by kind."""
    if name == "tensor parallel size":
        if mine < other:
            return (
                "fewer GPUs: more are predicted to be less than 5 % faster for one request, or to "
                "be better used as replicas"
            )
        return "more GPUs: the recipe leaves GPUs idle that would answer one request sooner"
    if name == "weight format":
        if other in ("nvfp4", "int4", "mxfp4"):
            return "the recipe's 4 bits lose 0.4 points or more, not given up without --optimize"
        if own.variant.quantization is not None:
            return "16-bit weights quantized to FP8 while they are loaded: faster for 0.1 points"
        if own.variant.loss.points:
            return "a quantized checkpoint of the model that loses up to 0.3 points is faster"
        return "the recipe names a copy, and the checkpoint it was made of is no slower"
    if mine < other:
        return "16k are asked for where nobody says how much; the recipe leaves all the model has"
    return "the recipe cuts the context below the 16k of a chat"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--errors", action="store_true")
    parser.add_argument("--differences", action="store_true")
    parser.add_argument("--vllm", default="0.33.0", help="where a recipe names no release")
    options = parser.parse_args()
    score = Score()
    for recipe in recipes():
        judge(recipe, score, options.vllm)
    report(score)
    if options.errors:
        for recipe, text in score.errors:
            print(f"\n{recipe.file}\n  {shlex.join(recipe.words)}\n  {text}")
        for recipe, spec, text in (*score.refused, *score.risky):
            print(f"\n{recipe.file} on {spec}\n  {shlex.join(recipe.words)}\n  {text}")
    if options.differences:
        for kind, cases in score.differences.items():
            print(f"\n{kind}")
            for case, times in Counter(cases).most_common():
                print(f"  {case}" + (f" ({times})" if times > 1 else ""))


def report(score: Score) -> None:
    """The totals."""
    clean = score.commands - len(score.errors)
    false = [text for _, text in score.errors if fault(text) is None]
    right = score.commands - len(false)
    print(f"commands of other programs, and templates: {score.elsewhere}")
    print(f"no error in {clean} of {score.commands} commands ({clean / score.commands:.1%})")
    for name, count in Counter(fault(text) for _, text in score.errors).most_common():
        if name is not None:
            print(f"  {count:>4} right: {name}, {FAULTS[name]}")
    print(f"no false error in {right} of {score.commands} ({right / score.commands:.1%})")
    for text in false:
        print(f"       false: {text}")
    starts = score.planned - len(score.refused) - len(score.risky)
    print(
        f"\nmemory plan agrees that {starts} of {score.planned} start "
        f"({starts / max(1, score.planned):.1%}); risky {len(score.risky)}, refused "
        f"{len(score.refused)}; not bundled: {score.not_bundled}"
    )
    kinds = Counter(refusal(recipe, text) for recipe, _, text in score.refused)
    kinds += Counter(risk(text) for *_, text in score.risky)
    for kind, count in kinds.most_common():
        print(f"  {count:>4} {kind or 'not explained'}")
    print(f"\nown choice against {score.compared} recipes:")
    for kind, cases in sorted(score.differences.items(), key=lambda item: -len(item[1])):
        print(f"  {len(cases):>4} {kind}")


if __name__ == "__main__":
    main()
