"""Make `tests/data/oracle.jsonl`: what vLLM 0.33.0's own code answered, case by case.

    python tools/build_oracle.py CASES.jsonl ANSWERS.jsonl

The answers come from vLLM's classes run on CPU with its CUDA platform faked (memory on the meta
device): engine config, model construction, weight post-processing and the KV planner. Kept of
each: the case, the defaults vLLM resolved, bytes by module class for each pipeline stage before
and after post-processing, and the KV plan.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).parent.parent / "tests" / "data" / "oracle.jsonl"
SPEC_FIELDS = (
    "type", "block_size", "page_size_bytes", "num_kv_heads", "head_size", "head_size_v",
    "sliding_window", "attention_chunk_size", "dtype", "mamba_cache_mode",
)  # fmt: skip


def slim_rank(rank: dict[str, Any]) -> dict[str, Any]:
    post = rank.get("post") or {}
    slim = {
        "built": rank["target"]["total"],
        "built_by_class": rank["target"]["by_class"],
        "class": rank["target_class"],
    }
    if "draft" in rank:
        slim["draft"] = rank["draft"]["total"]
    if post:
        slim |= {
            "loaded": post["total"],
            "loaded_by_class": post["by_class"],
            "other": post["other_by_attr"],
            "failed": sorted(post["failed"]),
        }
    return slim


def slim_spec(spec: dict[str, Any]) -> dict[str, Any]:
    kept = {key: spec[key] for key in SPEC_FIELDS if key in spec}
    if "members" in spec:
        kept["members"] = [{**m, "spec": slim_spec(m["spec"])} for m in spec["members"]]
    return kept


def slim_kv(kv: dict[str, Any]) -> dict[str, Any]:
    return {
        "backends": kv["attn_backends"],
        "groups": [{"layers": g["layers"], "spec": slim_spec(g["spec"])} for g in kv["groups"]],
        "bytes_per_block": kv["pool_bytes_per_block_per_rank"],
        "blocks_per_request": kv["blocks_per_max_len_request_per_group"],
        "available": kv["available_kv_bytes"],
        "num_blocks": kv["num_blocks"],
        "tokens": kv["tokens_printed"],
        "concurrency": kv["max_concurrency"],
        "max_model_len": kv["max_model_len_out"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", type=Path)
    parser.add_argument("answers", type=Path)
    arguments = parser.parse_args()
    cases = {}
    for line in arguments.cases.read_text().splitlines():
        case = json.loads(line)
        cases[case["id"]] = case
    written = 0
    with OUTPUT.open("w") as out:
        for line in arguments.answers.read_text().splitlines():
            answer = json.loads(line)
            case = cases[answer["id"]]
            model = case["model"]
            row: dict[str, Any] = {
                "id": answer["id"],
                "model": model.replace("__", "/", 1) if isinstance(model, str) else model,
                "gpu": answer["gpu"],
                "tp": case.get("tp", 1),
                "pp": case.get("pp", 1),
                "engine": case.get("engine", {}),
            }
            for key in ("config_patch", "usage", "language_model_only", "draft_own"):
                if case.get(key):
                    row[key] = case[key]
            if "error" in answer:
                row["error"] = answer["error"][:400]
            else:
                row["defaults"] = answer["defaults"]
                row["ranks"] = [slim_rank(rank) for rank in answer["ranks"]]
                for source, target in (("kv", "kv"), ("kv_with_4x_memory", "kv_4x")):
                    if answer.get(source):
                        row[target] = slim_kv(answer[source])
                if "kv_error" in answer:
                    row["kv_error"] = answer["kv_error"][:400]
                row["kv_memory"] = case.get("kv_mem", [20 * 2**30])
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
            written += 1
    print(f"{OUTPUT.name}: {written} cases, {OUTPUT.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
