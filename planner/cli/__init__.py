"""The `vplan` command: arguments and printing, nothing else."""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit."""
    from planner.cli.app import run

    raise SystemExit(run())
