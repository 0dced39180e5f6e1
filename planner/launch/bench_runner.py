"""Runs `vllm bench serve` several times with one import of vLLM, in vLLM's own Python.

A program of its own, which imports nothing of vplan: `bench_runner.py JSON`, a list of argument
lists. It uses the module instead of the `vllm` command, which some builds ship broken. Exit status
3: this vLLM cannot do it.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.util import find_spec


def main(runs: list[list[str]]) -> None:
    """Each run to its end."""
    if any("custom" in run for run in runs) and find_spec("pandas") is None:
        sys.exit(3)
    try:
        from vllm.benchmarks.serve import add_cli_args
        from vllm.benchmarks.serve import main as serve
    except ImportError:
        sys.exit(3)
    for run in runs:
        parser = argparse.ArgumentParser()
        add_cli_args(parser)
        serve(parser.parse_args(run))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
