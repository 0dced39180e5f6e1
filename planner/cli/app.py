"""The Typer application: one command a module, errors as one line and exit status 2."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from errno import ENOENT
from importlib import import_module
from typing import Annotated

import typer
from typer.exceptions import TyperException

from planner.calibration import Calibration, calibrate_process, store_path
from planner.cli.commands import BELOW, COMMANDS
from planner.cli.console import fail, prepare_streams
from planner.cli.status import Status
from planner.version import VERSION


def _version(value: bool) -> None:
    if value:
        typer.echo(f"vplan {VERSION}")
        raise typer.Exit


def _main(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    if context.invoked_subcommand is not None:
        return
    from planner.cli.tui import is_terminal, tui

    if is_terminal():
        raise typer.Exit(tui())
    typer.echo(context.get_help(), err=True)
    raise typer.Exit(Status.BAD_INPUT)


def application(arguments: Sequence[str]) -> typer.Typer:
    """The program with the command that is asked for alone, else with all: each takes time."""
    app = typer.Typer(
        name="vplan",
        help="Plan a vLLM launch before you launch it: will it start, how much KV cache will it "
        "get, how fast will it be, which command to run.",
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    )
    app.callback(invoke_without_command=True)(_main)
    first, second = (*arguments[:2], "", "")[:2]
    if second in BELOW.get(first, ()):
        app.add_typer(_group(first, second), name=first)
        return app
    alone = [name for name in (first,) if name in COMMANDS]
    for name in () if first == "--version" else alone or COMMANDS:
        function = getattr(import_module(f"planner.cli.{name}"), name)
        if isinstance(function, typer.Typer):
            app.add_typer(function, name=name)
        else:
            app.command(context_settings=COMMANDS[name] or None)(function)
    return app


def _group(first: str, second: str) -> typer.Typer:
    """`vplan FIRST` with the one command that is asked for below it."""
    group = typer.Typer(rich_markup_mode=None)
    group.callback()(lambda: None)
    group.command(second)(getattr(import_module(f"planner.cli.{first}_{second}"), second))
    return group


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    prepare_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        command = typer.main.get_command(application(words))
        with calibrate_process(_learned):
            result = command.main(words, prog_name="vplan", standalone_mode=False)
        sys.stdout.flush()
    except TyperException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "vplan"
        said = error.format_message().strip().rstrip(".")
        fail(f"{said}{'' if said.endswith('?') else '.'} See {path} --help.")
        return Status.BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except (BrokenPipeError, SystemExit):  # the reader of the pipe has gone; Typer exits then
        _discard_output()
        return 141
    except OSError as error:
        _discard_output()
        place = "the current folder" if error.errno == ENOENT else "the output"
        fail(f"Cannot use {error.filename or place}: {error.strerror or error}")
        return Status.BAD_INPUT
    except Exception as error:
        if not _is_about_input(error):
            raise
        fail(str(error))
        return Status.BAD_INPUT
    return int(result) if isinstance(result, int) else 0


def _learned() -> Calibration:
    """What earlier validations on this machine taught; a plan does without if it cannot be had."""
    if not store_path().exists():
        return Calibration()
    from planner.calibration_store import StoreError
    from planner.launch.history import open_store

    try:
        return open_store(fail).calibration()
    except StoreError as error:
        fail(f"{error}; the plan does without what earlier runs taught")
        return Calibration()


def _is_about_input(error: Exception) -> bool:
    """Whether it is one of the errors that say what is wrong with what was asked."""
    from hardware_db import HardwareError  # not every command imports them
    from model_cards.errors import CardError
    from planner.errors import PlanError

    return isinstance(error, (HardwareError, CardError, PlanError))


def _discard_output() -> None:
    """What is left in the buffer goes nowhere, so that the interpreter ends in silence."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
