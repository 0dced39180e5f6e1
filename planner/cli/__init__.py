"""The `vplan` command: arguments and printing, nothing else."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line and exit."""
    if sys.argv[1:] == ["--version"]:  # before anything is imported
        from planner.version import VERSION

        print(f"vplan {VERSION}")
        return
    if sys.argv[1:2] == ["__complete"]:  # what a shell asks at the Tab key
        from planner.cli.complete import complete

        print(*complete(sys.argv[2:]), sep="\n")
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
