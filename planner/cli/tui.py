"""`vplan tui`: planning by turning knobs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec.structs import replace

from hardware_db import HardwareError
from planner.cli.options import Gpu, Offline, VllmVersion
from planner.cli.status import Status
from planner.engine.releases import find_release
from planner.errors import PlanError

if TYPE_CHECKING:
    from planner.settings import Settings
    from planner.tui.library import Library

_USUAL_GPU: Final = "rtx-4090"
_USUAL_MODEL: Final = "Qwen/Qwen3-8B"


def tui(
    file: Annotated[
        Path | None, typer.Argument(help="A plan file, as the TUI saves it.", show_default=False)
    ] = None,
    gpu: Gpu = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="The model to begin with.")
    ] = None,
    vllm_version: VllmVersion = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew, not where the last session ended.")
    ] = False,
    offline: Offline = False,
) -> int:
    """Plan by turning knobs, in a terminal.

    Begins where the last session ended, unless a file, hardware, a model or a release is given.
    """
    _need_terminal()
    from planner.tui.app import VplanApp  # Textual, which nothing else needs
    from planner.tui.library import Library

    settings, greeting, library = None, "", Library(offline=offline)
    if file is None and not (fresh or gpu or model or vllm_version):
        from planner.tui.session import restore

        settings, greeting = restore()
    if settings is None:
        settings = _read(file) if file is not None else _usual(gpu, model, library)
        settings = replace(
            settings,
            gpu=gpu or settings.gpu,
            model=model or settings.model,
            vllm=find_release(vllm_version).name if vllm_version else settings.vllm,
        )
        library.rig(settings.gpu)  # says what is wrong with it before the screen is taken
    app = VplanApp(settings, library, path=file, greeting=greeting, alone=True)
    app.run()
    return app.return_code or Status.YES


def _read(file: Path) -> Settings:
    from planner.plan_file import read_plan

    return read_plan(file)


def _usual(gpu: str | None, model: str | None, library: Library) -> Settings:
    """What to begin with: a small model, on the hardware here or on a common one."""
    from planner.engine_config import EngineConfig
    from planner.recommendation.requirements import DEFAULT_CONTEXT
    from planner.settings import Settings

    config = EngineConfig(max_model_len=DEFAULT_CONTEXT if model is None else None)
    here = "auto" if gpu is None and _has_gpu(library) else _USUAL_GPU
    return Settings(gpu or here, model or _USUAL_MODEL, find_release().name, config)


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


def _has_gpu(library: Library) -> bool:
    try:
        library.rig("auto")
    except HardwareError:
        return False
    return True
