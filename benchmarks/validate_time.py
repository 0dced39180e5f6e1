"""How long `vplan validate` takes beyond vLLM's own start, for half a billion parameters.

    python benchmarks/validate_time.py [--limit 120]

In an environment with vLLM for CPUs (tests/against_vllm/requirements.txt). The model has the shape
of Qwen2.5-0.5B and weights at random. Prints where the time went; exit status 1 if what is beyond
the start takes longer than `--limit` seconds, or the validation is not inside its bands.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "against_vllm")]

from vllm_folders import add_weights, make_folder  # noqa: E402

PARTS = {
    "start": "vLLM's own start",
    "requests": "first requests",
    "load": "load",
    "levels": "  of which requests",
    "stop": "stop",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=120.0)
    limit = parser.parse_args().limit
    with TemporaryDirectory() as scratch:
        folder = add_weights(make_folder(Path(scratch), "qwen2_half_billion"))
        programs = Path(sys.executable)
        command = [
            str(programs.with_name("vplan")), "validate", "--json", "--concurrency", "4", "--",
            str(programs.with_name("vllm")), "serve", str(folder), "--enforce-eager",
            "--max-model-len", "4096", "--kv-cache-memory-bytes", str(2**30),
        ]  # fmt: skip
        changed = {
            "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "PYTHONPATH": str(ROOT),
            "XDG_DATA_HOME": f"{scratch}/data", "VLLM_CACHE_ROOT": f"{scratch}/cache",
        }  # fmt: skip
        began = time.monotonic()
        run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **changed})
        whole = time.monotonic() - began
    if not run.stdout:
        print(run.stderr, file=sys.stderr)
        return 1
    report = json.loads(run.stdout)
    for part, name in PARTS.items():
        seconds = report["spent"][part]
        print(f"{name:20} {'-' if seconds is None else f'{seconds:6.1f} s'}")
    told = [report["spent"][part] or 0.0 for part in ("start", "requests", "load", "stop")]
    beyond = whole - told[0]
    print(f"{'vplan itself':20} {whole - sum(told):6.1f} s")
    print(f"{'beyond the start':20} {beyond:6.1f} s, of {limit:.0f} s")
    requests = sum(level["completed"] for level in report["levels"])
    print(f"verdict: {report['verdict']}; {requests} requests at {len(report['levels'])} levels")
    return 0 if beyond <= limit and report["verdict"] == "inside" else 1


if __name__ == "__main__":
    sys.exit(main())
