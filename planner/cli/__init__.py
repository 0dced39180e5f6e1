"""The `vplan` command: arguments and printing, nothing else."""

from __future__ import annotations

import gc


def main() -> None:
    """Run the command line and exit."""
    gc.freeze()  # what imports and cards leave behind is never garbage
    gc.disable()
    try:
        from planner.cli.app import run

        status = run()
    except KeyboardInterrupt:  # while modules are imported; run() handles the rest
        status = 130
    from planner.cli.console import leave

    leave(status)
