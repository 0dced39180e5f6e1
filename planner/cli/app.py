"""The Typer application: one command a module, errors as one line and exit status 2."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.exceptions import TyperException

from hardware_db import HardwareError
from model_cards.errors import CardError
from planner.cli.check import check
from planner.cli.console import fail, prepare_streams
from planner.cli.diagnose import diagnose
from planner.cli.gpus import gpus
from planner.cli.models import models
from planner.cli.recommend import recommend
from planner.cli.schema import schema
from planner.cli.status import Status
from planner.cli.tui import is_terminal, tui
from planner.cli.validate import validate
from planner.errors import PlanError

app = typer.Typer(
    name="vplan",
    help="Plan a vLLM launch before you launch it: will it start, how much KV cache will it get, "
    "how fast will it be, which command to run.",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)


def _version(value: bool) -> None:
    if value:
        from importlib import metadata

        typer.echo(f"vplan {metadata.version('vplan')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _main(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    if context.invoked_subcommand is None and is_terminal():
        raise typer.Exit(tui())
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(Status.BAD_INPUT)


app.command()(recommend)
app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})(
    check
)
app.command()(diagnose)
app.command()(gpus)
app.command()(models)
app.command()(schema)
app.command()(tui)
app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})(
    validate
)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    prepare_streams()
    program = typer.main.get_command(app)
    try:
        result = program.main(
            list(arguments) if arguments is not None else None,
            prog_name="vplan",
            standalone_mode=False,
        )
        sys.stdout.flush()
    except TyperException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "vplan"
        fail(f"{error.format_message().strip().rstrip('.')}. See {command} --help.")
        return Status.BAD_INPUT
    except (HardwareError, CardError, PlanError) as error:
        fail(str(error))
        return Status.BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except (BrokenPipeError, SystemExit):  # the reader of the pipe has gone; Typer exits then
        _discard_output()
        return 141
    except OSError as error:
        _discard_output()
        fail(f"Cannot use {error.filename or 'the output'}: {error.strerror or error}")
        return Status.BAD_INPUT
    return int(result) if isinstance(result, int) else 0


def _discard_output() -> None:
    """What is left in the buffer goes nowhere, so that the interpreter ends in silence."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
