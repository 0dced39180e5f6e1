"""Write tests/data/launches.jsonl: the published launches that the score and the constants rest on.

    python tools/build_launches.py LAUNCHES.jsonl

Kept are complete and nearly complete rows that are consistent in themselves, of vLLM as published,
with the facts that plans are compared with and where each was published.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Final

OUTPUT: Final = Path(__file__).parent.parent / "tests" / "data" / "launches.jsonl"
KEPT: Final = (
    "case_id", "source", "source_group", "tier", "vllm_version", "engine", "gpu", "gpu_kind",
    "n_gpus", "model", "quantization", "dtype", "tp", "pp", "dp", "dcp", "max_model_len",
    "gpu_memory_utilization", "kv_cache_dtype", "max_num_seqs", "max_num_batched_tokens",
    "enforce_eager", "speculative", "other_flags", "weights_gib", "non_torch_gib",
    "activation_peak_gib", "cudagraph_estimate_gib", "kv_cache_gib", "kv_tokens",
    "max_concurrency", "outcome", "error_available_gib", "error_est_max_len",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    rows = map(json.loads, parser.parse_args().file.read_text("utf-8").splitlines())
    lines = [
        json.dumps({key: row[key] for key in KEPT if row.get(key) is not None})
        for row in rows
        if row["tier"] in "AB" and row.get("consistent") is not False and not row["engine_fork"]
    ]
    OUTPUT.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
