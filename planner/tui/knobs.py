"""All knobs, and those that are not settings of vLLM's: hardware, model, release, load."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from hardware_db import find_rig
from planner.engine.releases import find_release, known_releases
from planner.errors import PlanError
from planner.recommendation.variants import base_id, checkpoint_ids
from planner.settings import Settings
from planner.tui import engine_knobs
from planner.tui.knob import POWERS, Knob, whole
from planner.tui.outcome import Outcome
from planner.tui.speculation_knob import speculation
from planner.workload import USE_CASES


def groups() -> tuple[tuple[str, tuple[Knob, ...]], ...]:
    """All knobs, in two groups that fit side by side."""
    what = (_gpu(), _model(), _checkpoint(), _release(), *engine_knobs.parallel(), _use_case())
    how = (_concurrency(), *engine_knobs.others(), speculation())
    return ("Hardware and model", what), ("Settings and load", how)


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
        number = f"({known.index(settings.model) + 1} of {len(known)})"
        held = outcome.inputs.card if outcome is not None else None
        if held is None or held.model_id != settings.model:
            return number if len(known) > 1 else "-"
        return f"{held.format_kind} {number}"

    return Knob(
        "checkpoint",
        "checkpoint",
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
        changed = replace(settings, concurrency=whole(text))
        _ = changed.workload
        return changed

    return Knob(
        "concurrency",
        "concurrency",
        "requests at the same time",
        lambda settings: str(settings.concurrency),
        lambda settings, outcome: f"{settings.concurrency:,}",
        write,
        lambda settings, outcome: POWERS[:13],
        lambda settings, outcome: settings.concurrency,
    )
