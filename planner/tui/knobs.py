"""Knobs: what each shows, what may be written into it, and the steps it turns through."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from hardware_db import find_rig
from planner.command.values import human_readable
from planner.engine.releases import find_release, known_releases
from planner.engine_config import AUTO_LENGTH
from planner.errors import PlanError
from planner.recommendation.variants import base_id, checkpoint_ids
from planner.tui.outcome import Outcome
from planner.tui.settings import Settings
from planner.workload import USE_CASES

_POWERS: Final = tuple(2**exponent for exponent in range(24))
_SHORTEST_CONTEXT: Final = 512
_SHORTEST_BATCH: Final = 256
_SHARES: Final = tuple(hundredths / 100 for hundredths in range(30, 100))
_KV_DTYPES: Final = (
    "auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", "int8_per_token_head", "nvfp4",
    "turboquant_k8v4", "turboquant_4bit_nc",
)  # fmt: skip
_DEFAULT: Final = ("", "default")


@dataclass(frozen=True, slots=True)
class Knob:
    """One knob.

    `write` takes what a person wrote and raises `PlanError` or `ValueError` with what is wrong;
    `steps` are what the arrow keys go through, none where a list to pick from serves better.
    """

    key: str
    label: str
    hint: str
    text: Callable[[Settings], str]  # as it would be written
    show: Callable[[Settings, Outcome | None], str]
    write: Callable[[Settings, str], Settings]
    steps: Callable[[Settings, Outcome | None], Sequence[str | float]]
    at: Callable[[Settings, Outcome | None], str | float | None]  # where among the steps it is
    picks: bool = False  # Enter opens a list


def turn(knob: Knob, settings: Settings, outcome: Outcome | None, by: int) -> Settings | None:
    """The settings one step on (`by` 1) or back (-1), None at the end."""
    steps, at = list(knob.steps(settings, outcome)), knob.at(settings, outcome)
    if not steps:
        return None
    if isinstance(at, str) or at is None:
        position = (steps.index(at) if at in steps else -by) + by
    else:
        numbers = [step for step in steps if not isinstance(step, str)]
        position = bisect_right(numbers, at) if by > 0 else bisect_left(numbers, at) - 1
    if not 0 <= position < len(steps):
        return None
    step = steps[position]
    return knob.write(settings, step if isinstance(step, str) else f"{step:g}".replace("e+", "e"))


def groups() -> tuple[tuple[str, tuple[Knob, ...]], ...]:
    """All knobs, in two groups that fit side by side."""
    what = (_gpu(), _model(), _checkpoint(), _release(), *_parallel(), _use_case())
    how = (
        _concurrency(), _context(), _kv_dtype(), _utilization(), _sequences(), _batch(), _eager(),
    )  # fmt: skip
    return ("Hardware and model", what), ("Settings and load", how)


# -- knobs that are not vLLM's settings ------------------------------------------------------------


def _gpu() -> Knob:
    def write(settings: Settings, text: str) -> Settings:
        rig = find_rig(text)
        return replace(settings, gpu=text.strip() if text.strip() == "auto" else rig.spec)

    def steps(settings: Settings, outcome: Outcome | None) -> Sequence[str]:
        """So many of the same card, where it is written plainly."""
        plain = re.fullmatch(r"(?:\d+x)?([\w.-]+)", settings.gpu)
        if plain is None or plain[1] in ("cpu", "auto"):
            return ()
        return [plain[1], *(f"{count}x{plain[1]}" for count in (2, 4, 8))]

    return Knob(
        "gpu",
        "GPU",
        "4090, 2x3090+nvlink, 2x8xh100-sxm, custom:24GiB@1008, cpu, auto",
        lambda settings: settings.gpu,
        lambda settings, outcome: settings.gpu,
        write,
        steps,
        lambda settings, outcome: settings.gpu,
        picks=True,
    )


def _with_model(settings: Settings, text: str) -> Settings:
    if not text.strip():
        raise PlanError("the model's name is empty; give a folder or an id like Qwen/Qwen3-8B")
    return replace(settings, model=text.strip())


def _model() -> Knob:
    def show(settings: Settings, outcome: Outcome | None) -> str:
        return settings.model.rpartition("/")[2] or settings.model

    return Knob(
        "model",
        "model",
        "type to search; a folder, or any id of the Hub",
        lambda settings: settings.model,
        show,
        _with_model,
        lambda settings, outcome: (),
        lambda settings, outcome: settings.model,
        picks=True,
    )


def variants(settings: Settings) -> list[str]:
    """The checkpoints there are of a model, itself among them."""
    known = checkpoint_ids(base_id(settings.model))
    return known if settings.model in known else [settings.model, *known]


def _checkpoint() -> Knob:
    def show(settings: Settings, outcome: Outcome | None) -> str:
        known = variants(settings)
        number = f"{known.index(settings.model) + 1} of {len(known)}"
        held = outcome.inputs.card if outcome is not None else None
        if held is None or held.model_id != settings.model:
            return number
        return f"{held.format_kind}, {number}"

    return Knob(
        "checkpoint",
        "weights",
        "quantized copies of this model",
        lambda settings: settings.model,
        show,
        _with_model,
        lambda settings, outcome: variants(settings),
        lambda settings, outcome: settings.model,
        picks=True,
    )


def _release() -> Knob:
    return Knob(
        "vllm",
        "vLLM",
        f"a release from {known_releases()[0]} to {known_releases()[-1]}",
        lambda settings: settings.vllm,
        lambda settings, outcome: settings.vllm,
        lambda settings, text: replace(settings, vllm=find_release(text).name),
        lambda settings, outcome: known_releases(),
        lambda settings, outcome: settings.vllm,
    )


def _use_case() -> Knob:
    def write(settings: Settings, text: str) -> Settings:
        changed = replace(settings, use_case=text.strip().lower())
        _ = changed.workload  # refuses an unknown one
        return changed

    def show(settings: Settings, outcome: Outcome | None) -> str:
        load = settings.workload
        return f"{settings.use_case}, {load.prompt_tokens} + {load.output_tokens}"

    return Knob(
        "use_case",
        "use case",
        f"one of {', '.join(USE_CASES)}: sets the lengths of prompt and answer",
        lambda settings: settings.use_case,
        show,
        write,
        lambda settings, outcome: tuple(USE_CASES),
        lambda settings, outcome: settings.use_case,
    )


def _concurrency() -> Knob:
    def write(settings: Settings, text: str) -> Settings:
        changed = replace(settings, concurrency=_whole(text))
        _ = changed.workload
        return changed

    return Knob(
        "concurrency",
        "concurrency",
        "requests at the same time",
        lambda settings: str(settings.concurrency),
        lambda settings, outcome: f"{settings.concurrency:,}",
        write,
        lambda settings, outcome: _POWERS[:13],
        lambda settings, outcome: settings.concurrency,
    )


# -- vLLM's settings -------------------------------------------------------------------------------


def _parallel() -> tuple[Knob, Knob]:
    def sizes(settings: Settings, outcome: Outcome | None) -> Sequence[int]:
        count = outcome.inputs.rig.gpu_count if outcome is not None else 8
        return sorted({*takewhile(lambda power: power <= count, _POWERS), count})

    return (
        _number("tensor_parallel_size", "tensor (TP)", "GPUs that share every layer", sizes),
        _number("pipeline_parallel_size", "pipeline (PP)", "stages of whole layers", sizes),
    )


def _context() -> Knob:
    def lengths(settings: Settings, outcome: Outcome | None) -> Sequence[int]:
        most = outcome.inputs.card.max_model_len if outcome is not None else 2**20
        powers = (power for power in _POWERS if _SHORTEST_CONTEXT <= power < most)
        return [*powers, most]

    return _number(
        "max_model_len",
        "context",
        "tokens one request may grow to: 16384, 32K; auto: as the cache allows; empty: the model's",
        lengths,
    )


def _sequences() -> Knob:
    return _number(
        "max_num_seqs",
        "max seqs",
        "requests in one batch at most; empty: vLLM's default",
        lambda settings, outcome: _POWERS[:11],
    )


def _batch() -> Knob:
    return _number(
        "max_num_batched_tokens",
        "max batch tok.",
        "tokens in one step at most; empty: vLLM's default",
        lambda settings, outcome: [n for n in _POWERS[:18] if n >= _SHORTEST_BATCH],
    )


def _number(
    name: str,
    label: str,
    hint: str,
    steps: Callable[[Settings, Outcome | None], Sequence[int]],
) -> Knob:
    """A whole number of vLLM's; nothing written leaves it to vLLM, where that has a default."""

    def given(settings: Settings) -> int | None:
        value: int | None = getattr(settings.config, name)
        return value

    def text(settings: Settings) -> str:
        value = given(settings)
        if value == AUTO_LENGTH:
            return "auto"
        return "" if value is None else str(value)

    def at(settings: Settings, outcome: Outcome | None) -> int | None:
        value = given(settings)
        if value in (None, AUTO_LENGTH) and outcome is not None and outcome.memory is not None:
            value = getattr(outcome.memory.config, name)
        return value

    def show(settings: Settings, outcome: Outcome | None) -> str:
        value, used = given(settings), at(settings, outcome)
        if value is not None and value != AUTO_LENGTH:
            return f"{value:,}"
        chosen = "auto" if value == AUTO_LENGTH else "default"
        return chosen if used in (None, AUTO_LENGTH) else f"{used:,} ({chosen})"

    def write(settings: Settings, written: str) -> Settings:
        plain = written.strip().lower()
        if name == "max_model_len" and plain == "auto":
            return settings.with_engine(max_model_len=AUTO_LENGTH)
        if plain in _DEFAULT:
            default = 1 if name.endswith("parallel_size") else None
            return settings.with_engine(**{name: default})
        return settings.with_engine(**{name: _whole(written)})

    return Knob(name, label, hint, text, show, write, steps, at)


def _utilization() -> Knob:
    def used(settings: Settings, outcome: Outcome | None) -> float | None:
        value = settings.config.gpu_memory_utilization
        if value is None and outcome is not None and outcome.memory is not None:
            return outcome.memory.config.gpu_memory_utilization
        return value

    def show(settings: Settings, outcome: Outcome | None) -> str:
        value, given = used(settings, outcome), settings.config.gpu_memory_utilization
        if given is not None:
            return f"{given:g}"
        return "default" if value is None else f"{value:g} (default)"

    def write(settings: Settings, written: str) -> Settings:
        plain = written.strip().lower()
        if plain in _DEFAULT:
            return settings.with_engine(gpu_memory_utilization=None)
        try:
            return settings.with_engine(gpu_memory_utilization=float(plain))
        except ValueError:
            raise PlanError(f"{written.strip()!r} is no share; one looks like 0.9") from None

    return Knob(
        "gpu_memory_utilization",
        "utilization",
        "share of the GPU that vLLM may use, 0.9; empty: vLLM's default",
        lambda settings: f"{settings.config.gpu_memory_utilization or '':}",
        show,
        write,
        lambda settings, outcome: _SHARES,
        used,
    )


def _kv_dtype() -> Knob:
    return Knob(
        "kv_cache_dtype",
        "KV dtype",
        f"{', '.join(_KV_DTYPES[:5])}, ...",
        lambda settings: settings.config.kv_cache_dtype,
        lambda settings, outcome: settings.config.kv_cache_dtype,
        lambda settings, text: settings.with_engine(kv_cache_dtype=text.strip() or "auto"),
        lambda settings, outcome: _KV_DTYPES,
        lambda settings, outcome: settings.config.kv_cache_dtype,
    )


def _eager() -> Knob:
    names = {"no": False, "yes": True}

    def text(settings: Settings) -> str:
        return "yes" if settings.config.enforce_eager else "no"

    def write(settings: Settings, written: str) -> Settings:
        plain = written.strip().lower()
        if plain not in names:
            raise PlanError("yes or no")
        return settings.with_engine(enforce_eager=names[plain])

    return Knob(
        "enforce_eager",
        "eager",
        "yes: no CUDA graphs, less memory, slower",
        text,
        lambda settings, outcome: text(settings),
        write,
        lambda settings, outcome: tuple(names),
        lambda settings, outcome: text(settings),
    )


def _whole(text: str) -> int:
    plain = text.replace(",", "").replace("_", "").strip()
    try:
        return human_readable(plain)
    except ValueError:
        raise PlanError(
            f"{text.strip()!r} is no whole number; one looks like 16384 or 16K"
        ) from None
