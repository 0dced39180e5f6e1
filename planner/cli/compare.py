"""`vplan compare`: two plans side by side."""

from __future__ import annotations

import re
from enum import Enum
from typing import Annotated, Final

import typer

from hardware_db import HardwareError, Rig, UnknownGpu, find_rig
from model_cards import open_card
from planner.cli.comparison_text import change, label, shown
from planner.cli.console import fail, print_json, say, say_item, show
from planner.cli.options import (
    AsJson,
    Concurrency,
    Context,
    Gpu,
    Offline,
    UseCase,
    VllmVersion,
    asked_context,
    asked_load,
)
from planner.cli.status import Status
from planner.comparison import (
    Comparison,
    command_side,
    compare_plans,
    recommended_side,
)
from planner.engine.releases import find_release
from planner.errors import PlanError
from planner.files import is_folder
from planner.memory.verdict import Answer
from planner.recommendation.requirements import Requirements

_RELEASE: Final = re.compile(r"v?\d+\.\d+(\.\d+)*(\.?(rc|dev|post)\d+)*")
_COMMAND: Final = re.compile(r"(^|\s)(vllm\s+serve|vllm\.entrypoints|(docker|podman)\s+run)\b")


def compare(
    one: Annotated[str, typer.Argument(help="A model, a GPU, a vLLM release, or a command.")],
    other: Annotated[str, typer.Argument(help="What to compare it with, of the same kind.")],
    gpu: Gpu = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="The model, to compare GPUs or releases.")
    ] = None,
    context: Context = None,
    concurrency: Concurrency = None,
    use_case: UseCase = None,
    vllm_version: VllmVersion = None,
    offline: Offline = False,
    as_json: AsJson = False,
) -> int:
    """Put two plans side by side.

    Two models or commands on --gpu (or a command and a model, with the settings recommended for
    it), two GPUs for --model, or two vLLM releases for --model on --gpu. Exit status: 0 both start,
    1 one does not, 3 one may not.
    """
    load = asked_load(use_case, concurrency)
    requirements = Requirements(load, use_case or "chat", asked_context(context))
    kinds = (_kind(one, model), _kind(other, model))
    _check((one, other), kinds, gpu, model)
    sides = []
    for text, kind in zip((one, other), kinds, strict=True):
        rig = find_rig(text if kind is _Kind.RIG else gpu or "auto")
        if kind is _Kind.COMMAND:
            name = "command" + (" A" if text is one else " B")
            sides.append(command_side(name, text, rig, requirements, vllm_version))
            continue
        card = open_card(text if kind is _Kind.MODEL else model or "", offline=offline)
        release = find_release(text if kind is _Kind.RELEASE else vllm_version)
        names = {_Kind.RIG: rig.spec, _Kind.RELEASE: f"vLLM {release.name}"}
        name = names.get(kind, card.model_id)
        sides.append(recommended_side(name, card, rig, requirements, release))
    found = compare_plans(sides[0], sides[1])
    if as_json:
        from planner.report.comparison import ComparisonReport

        print_json(ComparisonReport.of(found))
    else:
        _print(found)
    return _status(found)


class _Kind(Enum):
    """What a word names."""

    COMMAND = "a command"
    RELEASE = "a vLLM release"
    RIG = "hardware"
    MODEL = "a model"


def _kind(text: str, model: str | None) -> _Kind:
    """What `text` names; beside a `model`, what is no release is hardware, perhaps misspelt."""
    if _COMMAND.search(text):
        return _Kind.COMMAND
    if _RELEASE.fullmatch(text):
        return _Kind.RELEASE
    if "/" in text or is_folder(text):
        return _Kind.MODEL
    try:
        find_rig(text)
    except UnknownGpu:
        return _Kind.MODEL if model is None else _Kind.RIG
    except HardwareError:
        return _Kind.RIG
    return _Kind.RIG


def _check(
    words: tuple[str, str], kinds: tuple[_Kind, _Kind], gpu: str | None, model: str | None
) -> None:
    """Two of a kind, or a command and a model, with the options that they need and no other."""
    both = set(kinds)
    if both == {_Kind.MODEL, _Kind.RIG}:
        named = dict(zip(kinds, words, strict=True))
        name, rig = named[_Kind.MODEL], named[_Kind.RIG]
        if "/" not in name and not is_folder(name):
            find_rig(name)  # a GPU, misspelt: raises with the names that are close
        raise PlanError(
            f"{name} is a model and {rig} is hardware; two of a kind are compared: vplan compare "
            f"{name} OTHER-MODEL --gpu {rig}, or vplan compare {rig} OTHER-GPU --model {name}"
        )
    if len(both) == 2 and both != {_Kind.COMMAND, _Kind.MODEL}:
        (one, other), (its, others) = words, kinds
        raise PlanError(
            f"{one} is {its.value} and {other} is {others.value}; two of a kind are compared"
        )
    if _Kind.RELEASE in both and model is None:
        raise PlanError("two releases of vLLM are compared for a model: give it, --model")
    if _Kind.RIG in both and model is None:
        raise PlanError("two GPUs are compared for a model: give it, --model")
    if _Kind.RIG in both and gpu is not None:
        raise PlanError("--gpu is for two models, releases or commands: leave it out")
    if both & {_Kind.MODEL, _Kind.COMMAND} and model is not None:
        raise PlanError("--model is for two GPUs or releases: leave it out")


def _status(found: Comparison) -> Status:
    answers = {found.one.starts, found.other.starts}
    if Answer.NO in answers:
        return Status.NO
    return Status.RISKY if Answer.RISKY in answers else Status.YES


def _print(found: Comparison) -> None:
    from rich.table import Table

    sides = (found.one, found.other)
    rigs = {_described(side.rig) for side in sides}
    releases = {side.release.name for side in sides}
    models = {side.card.model_id for side in sides}
    shared = [next(iter(same)) for same in (models, rigs) if len(same) == 1]
    if len(releases) == 1:
        shared.append(f"vLLM {next(iter(releases))}")
    say("; ".join(shared), style="bold")
    say()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for side in sides:
        table.add_column(side.name, justify="right", max_width=30)
    table.add_column("change", justify="right")
    for row in found.rows:
        one, other = (shown(row.unit, side) for side in (row.one, row.other))
        table.add_row(label(row.name, row.unit), one, other, change(row))
    show(table)
    if found.differences:
        say("\nSettings that differ:")
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for each in found.differences:
            table.add_row(f"  {each.setting}", each.one, each.other)
        show(table)
    for side in sides:
        if side.problem:
            say_item(f"{side.name}: {side.problem}", "red")
    failed = [side.name for side in sides if side.starts is Answer.NO]
    risky = [side.name for side in sides if side.starts is Answer.RISKY]
    if failed:
        fail(f"{' and '.join(failed)}: does not do as asked")
    elif risky:
        fail(f"{' and '.join(risky)}: may not start")


def _described(rig: Rig) -> str:
    return rig.describe()
