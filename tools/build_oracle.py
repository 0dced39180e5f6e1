"""Add to `tests/data/oracle.jsonl`: what vLLM 0.33.0's own code answered, case by case.

    python tools/build_oracle.py ANSWERS.jsonl CONFIGS_FOLDER

The answers come from vLLM's classes run on CPU with its CUDA platform faked (memory on the meta
device): engine config, model construction, weight post-processing and the KV planner. Rows keep
their form; what no check reads is left out. Where the bundled config of a model was corrected,
`config_patch` gives back what vLLM was asked with. A case that is there already is replaced by an
answer that follows loading at least as far.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from build_cards import slim_config

from model_cards.sources.bundled import bundled_config, find_entry

OUTPUT = Path(__file__).parent.parent / "tests" / "data" / "oracle.jsonl"

KEPT = (
    "id", "model", "gpu", "tp", "pp", "engine", "config_patch", "draft_patch", "usage",
    "language_model_only", "draft_own", "vllm", "defaults", "refusal", "kv_mem",
)  # fmt: skip
KEPT_OF_KV = (
    "attn_backends", "pool_bytes_per_block_per_rank", "blocks_per_max_len_request_per_group",
    "available_kv_bytes", "num_blocks", "tokens_printed", "max_concurrency", "max_model_len_out",
)  # fmt: skip
ERROR_CHARACTERS = 300
# Keys that tools/build_cards.py puts right in bundled configs.
CORRECTED = (
    "architectures", "model_type", "quantization_config", "vision_config",
    "num_nextn_predict_layers", "rotary_dim", "use_routing_bias", "tie_word_embeddings",
    "audio_config", "q_lora_rank", "model_max_length", "text_config",
)  # fmt: skip


def slim_rank(rank: dict[str, Any]) -> dict[str, Any]:
    """Bytes as built by class, and after loading."""
    slim: dict[str, Any] = {"target": {key: rank["target"][key] for key in ("total", "by_class")}}
    if "draft" in rank:
        slim["draft"] = {key: rank["draft"][key] for key in ("total", "by_class")}
    post = rank.get("post")
    if post:
        slim["post"] = {
            "total": post["total"],
            "delta": post["delta"],
            "other_by_attr": post["other_by_attr"],
            "failed": sorted(post["failed"]),
        }
    return slim


def slim_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row with what the checks read."""
    slim = {key: row[key] for key in KEPT if row.get(key) is not None}
    if "ranks" in row:
        slim["ranks"] = [slim_rank(rank) for rank in row["ranks"]]
    for key in ("kv", "kv_with_4x_memory"):
        if row.get(key):
            slim[key] = {name: row[key][name] for name in KEPT_OF_KV}
    for key in ("error", "kv_error"):
        if key in row:
            slim[key] = row[key][:ERROR_CHARACTERS]
    return slim


def asked_config(name: str, configs: Path) -> dict[str, Any] | None:
    """The patch that makes the bundled config what vLLM was given, None if it is that.

    A key that the patch sets to null was absent.
    """
    model_id = name.replace("__", "/", 1)
    entry, bundled = find_entry(model_id), bundled_config(model_id)
    if entry is None or bundled is None or not entry.corrected:
        return None
    config = json.loads((configs / name / "config.json").read_text())
    kept = slim_config(config)
    differs = [
        key
        for key in CORRECTED
        if bundled[0].names(key) != (key in kept) or bundled[0].raw(key) != kept.get(key)
    ]
    return {key: config.get(key) for key in differs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("answers", type=Path, help="rows as the oracle wrote them")
    parser.add_argument("configs", type=Path, help="the configs vLLM was asked with")
    arguments = parser.parse_args()
    rows = {row["id"]: row for row in map(json.loads, OUTPUT.read_text().splitlines())}
    for line in arguments.answers.read_text().splitlines():
        row = json.loads(line)
        if "engine" not in row:  # vLLM was not asked
            continue
        if row["id"] in rows and failures(row) > failures(rows[row["id"]]):
            continue
        row["config_patch"] = row.get("config_patch") or asked_config(
            row["model"], arguments.configs
        )
        draft = (row["engine"].get("speculative_config") or {}).get("model")
        if isinstance(draft, str):
            row["draft_patch"] = asked_config(draft, arguments.configs)
        rows[row["id"]] = slim_row(row)
    with OUTPUT.open("w") as out:
        for row in rows.values():
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
    print(f"{OUTPUT.name}: {len(rows)} cases, {OUTPUT.stat().st_size / 1024:.0f} KiB")


def failures(row: dict[str, Any]) -> int:
    """Modules whose loading could not be followed to its end."""
    return sum(len(rank["post"]["failed"]) for rank in row.get("ranks", ()) if rank.get("post"))


if __name__ == "__main__":
    main()
