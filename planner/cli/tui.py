"""`vplan tui`: planning by turning knobs."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from hardware_db import HardwareError, find_rig
from planner.cli.status import Status
from planner.engine.releases import find_release
from planner.errors import PlanError

_USUAL_GPU: Final = "rtx-4090"
_USUAL_MODEL: Final = "Qwen/Qwen3-8B"


def tui(
    file: Annotated[
        Path | None, typer.Argument(help="A plan file, as the TUI saves it.", show_default=False)
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", "-g", help="The hardware to begin with, as recommend takes it."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="The model to begin with.")
    ] = None,
    vllm_version: Annotated[
        str | None, typer.Option(help="The vLLM release; the installed one, else the newest.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the Hub.")] = False,
) -> int:
    """Plan by turning knobs, in a terminal."""
    _need_terminal()
    from planner.engine_config import EngineConfig
    from planner.recommendation.requirements import DEFAULT_CONTEXT
    from planner.tui.app import VplanApp  # Textual, which nothing else needs
    from planner.tui.plan_file import read_plan
    from planner.tui.settings import Settings

    if file is not None:
        settings = read_plan(file)
    else:
        config = EngineConfig(max_model_len=DEFAULT_CONTEXT if model is None else None)
        rig = "auto" if gpu is None and _has_gpu() else _USUAL_GPU
        settings = Settings(rig, _USUAL_MODEL, find_release().name, config)
    settings = replace(
        settings,
        gpu=gpu or settings.gpu,
        model=model or settings.model,
        vllm=find_release(vllm_version).name if vllm_version else settings.vllm,
    )
    find_rig(settings.gpu)  # says what is wrong with it before the screen is taken
    gc.freeze()  # what was imported stays
    gc.enable()  # it may run for days
    app = VplanApp(settings, path=file, offline=offline)
    app.run()
    return app.return_code or Status.YES


def is_terminal() -> bool:
    """Whether there is a terminal to draw on and to read keys from."""
    streams = (sys.stdin, sys.stdout)
    return all(each is not None and each.isatty() for each in streams) and _can_draw()


def _can_draw() -> bool:
    return os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def _need_terminal() -> None:
    if not is_terminal():
        raise PlanError(
            "vplan tui needs a terminal that can move its cursor; in a pipe or on a dumb one use "
            "vplan recommend and vplan check"
        )


def _has_gpu() -> bool:
    try:
        find_rig("auto")
    except HardwareError:
        return False
    return True
