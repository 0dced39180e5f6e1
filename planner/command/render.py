"""The `vllm serve` command of a plan: the flags it depends on, each with a reason.

Only option strings that the release's own parser has are written. What a plan depends on is
stated even where it equals the default, because defaults change between releases and GPUs.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from model_cards import ModelCard
from planner.engine.flags import accepts_choice, accepts_flag, option
from planner.engine.releases import Release
from planner.errors import PlanError
from planner.files import named_path
from planner.memory.plan import MemoryPlan

# Settings that are always written: why, where nobody gave them.
_STATED: Final = {
    "max_model_len": "all the model has",
    "gpu_memory_utilization": "the default, stated: other releases differ",
    "max_num_seqs": "the default here, stated: what vLLM profiles grows with it",
    "max_num_batched_tokens": "the default here, stated for the same reason",
}
# Settings whose effect is worth a word, where nobody gave a reason.
_EFFECTS: Final = {
    "enable_expert_parallel": "whole experts on every rank",
    "enforce_eager": "no CUDA graphs: less memory, slower",
    "trust_remote_code": "as asked for: runs code of the model's repository",
}


class Flag(Struct, frozen=True):
    """One option of the command, with why it is there."""

    name: str
    value: str | None  # None: a switch
    reason: str
    more: tuple[str, ...] = ()  # values after the first

    @property
    def words(self) -> list[str]:
        """As argv."""
        return [self.name] if self.value is None else [self.name, self.value, *self.more]


class Command(Struct, frozen=True):
    """A command line to copy."""

    model: str
    flags: tuple[Flag, ...]

    @property
    def argv(self) -> list[str]:
        """Words of the command."""
        return ["vllm", "serve", *self.arguments]

    @property
    def arguments(self) -> list[str]:
        """What follows `vllm serve`."""
        return [self.model, *(word for flag in self.flags for word in flag.words)]

    def shell(self) -> str:
        """For a POSIX shell, one option a line."""
        lines = [shlex.join(["vllm", "serve", self.model])]
        lines += [shlex.join(flag.words) for flag in self.flags]
        return " \\\n  ".join(lines)


def render_command(memory: MemoryPlan, reasons: dict[str, str] | None = None) -> Command:
    """The command that starts the planned launch.

    `reasons` are words for settings that were chosen, by EngineConfig field.
    """
    flags = tuple(_flags(memory, reasons or {}))
    for flag in flags:
        _check(flag, memory.release)
    return Command(_model(memory.card), flags)


def _flags(memory: MemoryPlan, reasons: dict[str, str]) -> Iterator[Flag]:
    config, given = memory.config, memory.config.given
    if memory.card.origin.revision is not None:
        yield Flag("--revision", memory.card.origin.revision, "the revision that was planned")
    departures = given.departures()
    for name, value in asdict(given).items():
        if name in _STATED:
            otherwise = _STATED[name] if value is None else "as asked for"
            value = getattr(config, name)
            if name == "max_model_len" and config.auto_length:
                value = "auto"
        elif name not in departures:
            continue
        else:
            otherwise = _EFFECTS.get(name, "as asked for")
        yield flag_of(name, value, reasons.get(name, otherwise))


def flag_of(field: str, value: object, reason: str) -> Flag:
    """The option that gives an EngineConfig field a value."""
    return Flag(option(field, value), _written(value), reason)


def _written(value: object) -> str | None:
    """A setting's value as its option takes it; None for a switch."""
    if isinstance(value, bool):
        return None
    if isinstance(value, Struct):
        return json.dumps({key: part for key, part in asdict(value).items() if part is not None})
    return str(value)


# Settings whose values releases add to, and the parser or the config layer refuses the others.
_BY_RELEASE: Final = {"--kv-cache-dtype": "kv_cache_dtype", "--quantization": "quantization"}


def _check(flag: Flag, release: Release) -> None:
    """Only what the release takes is written, whatever was planned."""
    if not accepts_flag(release, flag.name):
        raise PlanError(f"vLLM {release.name} has no option {flag.name}")
    choice = _BY_RELEASE.get(flag.name)
    known = choice is None or accepts_choice(release, choice, flag.value or "")
    auto = flag.name == "--max-model-len" and flag.value == "auto"
    if not known or (auto and not release.fact("auto_max_model_len")):
        raise PlanError(f"vLLM {release.name} does not take {flag.value} for {flag.name}")


def _model(card: ModelCard) -> str:
    """The model as vLLM takes it: it does not expand ~, and a leading dash means an option."""
    if card.origin.kind != "folder":
        return card.model_id
    path = str(named_path(card.model_id))
    return f"./{path}" if path.startswith("-") else path
