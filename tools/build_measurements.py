"""Write tests/data/measurements.jsonl: the published speeds that the score and constants rest on.

    python tools/build_measurements.py MEASUREMENTS.jsonl

Kept are rows without speculation that state a time between tokens, with the facts that a plan needs
and where each was published.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any, Final

OUTPUT: Final = Path(__file__).parent.parent / "tests" / "data" / "measurements.jsonl"
KEPT: Final = (
    "id", "source", "engine", "engine_version", "gpu_slug", "n_gpus", "tp", "pp", "dp", "ep",
    "repo_id", "quant", "kv_dtype", "concurrency", "isl", "osl", "ctx_mean", "mode",
    "out_tok_s_user", "tpot_ms", "ttft_ms", "cuda_graphs",
)  # fmt: skip
# What the notes say of how a row was measured.
TELLING: Final = re.compile(r"mean about 0?\.\d+x|incl\. prefill")
_USUAL: Final[dict[str, Any]] = {"pp": 1, "dp": 1, "ep": 1, "kv_dtype": "auto", "cuda_graphs": True}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    lines = []
    for row in map(json.loads, parser.parse_args().file.read_text("utf-8").splitlines()):
        if row.get("spec") or not (row.get("tpot_ms") or row.get("out_tok_s_user")):
            continue
        kept = {key: row[key] for key in KEPT if row.get(key) not in (None, _USUAL.get(key))}
        if "tpot_ms" in kept:
            kept.pop("out_tok_s_user", None)
        told = TELLING.search(row.get("notes", ""))
        if told is not None:
            kept["notes"] = told[0]
        lines.append(json.dumps(kept))
    OUTPUT.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
