"""Knobs for vLLM's own settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final

from planner.engine_config import AUTO_LENGTH
from planner.errors import PlanError
from planner.settings import Settings
from planner.tui.knob import POWERS, Knob, whole
from planner.tui.outcome import Outcome

_SHORTEST_CONTEXT: Final = 512
_SHORTEST_BATCH: Final = 256
_SHARES: Final = tuple(hundredths / 100 for hundredths in range(30, 100))
_KV_DTYPES: Final = (
    "auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", "int8_per_token_head", "nvfp4",
    "turboquant_k8v4", "turboquant_4bit_nc",
)  # fmt: skip
_DEFAULT: Final = ("", "default")


def parallel() -> tuple[Knob, Knob]:
    """Tensor and pipeline parallelism."""

    def sizes(settings: Settings, outcome: Outcome | None) -> Sequence[int]:
        count = outcome.inputs.rig.gpu_count if outcome is not None else 8
        return sorted({*takewhile(lambda power: power <= count, POWERS), count})

    return (
        _number("tensor_parallel_size", "tensor (TP)", "GPUs that share every layer", sizes),
        _number("pipeline_parallel_size", "pipeline (PP)", "stages of whole layers", sizes),
    )


def others() -> tuple[Knob, ...]:
    """All other settings, what is turned most first."""
    return _context(), _kv_dtype(), _utilization(), _sequences(), _batch(), _eager()


def _context() -> Knob:
    def lengths(settings: Settings, outcome: Outcome | None) -> Sequence[int]:
        most = outcome.inputs.card.max_model_len if outcome is not None else 2**20
        powers = (power for power in POWERS if _SHORTEST_CONTEXT <= power < most)
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
        lambda settings, outcome: POWERS[:11],
    )


def _batch() -> Knob:
    return _number(
        "max_num_batched_tokens",
        "max batch tok.",
        "tokens in one step at most; empty: vLLM's default",
        lambda settings, outcome: [n for n in POWERS[:18] if n >= _SHORTEST_BATCH],
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
        return settings.with_engine(**{name: whole(written)})

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
