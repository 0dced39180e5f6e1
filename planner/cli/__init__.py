"""The `vplan` command: arguments and printing, nothing else."""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit."""
    try:
        from planner.cli.app import run

        status = run()
    except KeyboardInterrupt:  # while modules are imported; run() handles the rest
        status = 130
    raise SystemExit(status)
