"""The Typer application: one command a module, errors as one line and exit status 2."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import IntEnum
from importlib import metadata
from typing import Annotated

import typer
from typer.exceptions import TyperException

from hardware_db import HardwareError
from model_cards.errors import CardError
from planner.cli.console import fail
from planner.cli.gpus import gpus
from planner.cli.models import models
from planner.cli.recommend import recommend
from planner.cli.schema import schema
from planner.errors import PlanError

app = typer.Typer(
    name="vplan",
    help="Plan a vLLM launch before you launch it: will it start, how much KV cache will it get, "
    "how fast will it be, which command to run.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)


class Status(IntEnum):
    """Exit statuses."""

    YES = 0  # it fits, it starts
    NO = 1  # it does not
    BAD_INPUT = 2
    RISKY = 3  # it may start


def _version(value: bool) -> None:
    if value:
        typer.echo(f"vplan {metadata.version('vplan')}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


app.command()(recommend)
app.command()(gpus)
app.command()(models)
app.command()(schema)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    command = typer.main.get_command(app)
    try:
        result = command.main(
            list(arguments) if arguments is not None else None,
            prog_name="vplan",
            standalone_mode=False,
        )
        sys.stdout.flush()
    except TyperException as error:
        message = error.format_message().strip()
        if not message:  # no arguments: the help was asked for
            return Status.BAD_INPUT
        fail(f"{message.rstrip('.')}. See vplan --help.")
        return Status.BAD_INPUT
    except (HardwareError, CardError, PlanError) as error:
        fail(str(error))
        return Status.BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:  # the reader of the pipe has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return int(result) if isinstance(result, int) else 0
