"""The `vplan` command: arguments and printing, nothing else."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line and exit."""
    if sys.argv[1:] == ["--version"]:  # before anything is imported
        from planner.version import VERSION

        _print(f"vplan {VERSION}")
        return
    if sys.argv[1:2] == ["__complete"]:  # what a shell asks at the Tab key
        from planner.cli.complete import complete

        _print(*complete(sys.argv[2:]))
        return
    gc.freeze()  # what imports and cards leave behind is never garbage
    gc.disable()
    try:
        from planner.cli.app import run

        status = run()
    except KeyboardInterrupt:  # while modules are imported; run() handles the rest
        status = 130
    from planner.cli.console import leave

    leave(status)


def _print(*lines: str) -> None:
    """Lines, with nothing else imported; there may be no reader, or no room."""
    try:
        print(*lines, sep="\n", flush=True)
    except OSError as error:
        sys.stdout = None  # what is left in it goes nowhere
        if isinstance(error, BrokenPipeError):
            sys.exit(141)
        print(f"vplan: Cannot use the output: {error.strerror}", file=sys.stderr)
        sys.exit(2)
