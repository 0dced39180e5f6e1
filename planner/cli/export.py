"""`--format`, `-o` and `--force`: a plan as something to deploy, printed or written to a file."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Final

from msgspec import Struct

from planner.cli.console import fail, say_verbatim
from planner.command.exports import FORMATS
from planner.command.secrets import STARS
from planner.errors import PlanError

JSON: Final = "json"
FORMAT_HELP: Final = f"Print it as {', '.join(FORMATS)} or json, and nothing else."
OUTPUT_HELP: Final = "Write it to this file instead, which must not exist."
FORCE_HELP: Final = "Overwrite the file of -o."


class Target(Struct, frozen=True):
    """What to put out, and where: standard output if `path` is None."""

    format: str
    path: Path | None
    force: bool

    def write(self, text: str) -> None:
        """Put a text out. Raises `PlanError` where the file cannot be written."""
        if self.format != JSON and STARS in text:
            fail(f"a key of the command is not written: {STARS} stands for it")
        if self.path is None:
            sys.stdout.write(text)
            return
        from planner.files import write_file  # tempfile is slow to import

        try:
            write_file(self.path, text, force=self.force)
        except OSError as error:
            raise PlanError(f"cannot write {self.path}: {error.strerror or error}") from None
        if self.path.is_file():  # what is read through a pipe is the text alone
            say_verbatim(f"Written: {self.path}")


@contextmanager
def printed_to(target: Target | None) -> Iterator[None]:
    """What is printed inside goes to the file of the target, if it has one."""
    if target is None or target.path is None:
        yield
        return
    with redirect_stdout(io.StringIO()) as stream:
        yield
    target.write(stream.getvalue())


def target(format: str | None, output: Path | None, *, force: bool, as_json: bool) -> Target | None:
    """What the options ask for, None for the usual text; raises `PlanError` if they disagree."""
    if format is None and as_json:
        format = JSON
    elif format is None and output is not None:
        format = next(iter(FORMATS))
    if format is None:
        if force:
            raise PlanError("--force is about the file of -o, which is not given")
        return None
    if format not in FORMATS and format != JSON:
        raise PlanError(f"unknown format {format!r}: one of {', '.join(FORMATS)} or {JSON}")
    if as_json and format != JSON:
        raise PlanError(f"--json and --format {format} ask for two things")
    return Target(format, output, force)
