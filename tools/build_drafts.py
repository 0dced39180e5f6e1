"""Make `model_cards/data/drafts.jsonl`: which drafts are published for which model.

    python tools/build_drafts.py HEADS.jsonl

HEADS has one JSON object a line: target, head, method, the number of drafted tokens its makers
name (k; k_note where it is but an example) and a source. Small models that can draft for
a family are added here. A family is the beginning of a model's name, without its owner.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Final

OUTPUT: Final = Path(__file__).parent.parent / "model_cards" / "data" / "drafts.jsonl"
_FAMILIES: Final = {
    "Llama-3.x family": "llama-3",
    "Llama-4 family": "llama-4",
    "DeepSeek-R1-Distill-Qwen": "deepseek-r1-distill-qwen",
    "Qwen2.5 family": "qwen2.5-",
    "Qwen3 family": "qwen3-",
    "Llama-3.1-8B": "llama-3.1-8b",
}
_GENERIC: Final = "generic example of the project docs"  # not of this head
# Models that are not bundled, of the dimensions of one that is.
_LIKE: Final = {
    "amd/PARD-Llama-3.2-1B": "meta-llama/Llama-3.2-1B-Instruct",
    "amd/PARD-Qwen2.5-0.5B": "Qwen/Qwen2.5-0.5B-Instruct",
}
_PARALLEL: Final = "+parallel_drafting"
_METHODS: Final = ("eagle", "eagle3", "dflash", "dspark", "mtp", "draft_model")
# Same vocabulary, where the cards say so too: the sizes of one family may differ in it.
_SMALL_MODELS: Final = {
    "llama-3": "meta-llama/Llama-3.2-1B-Instruct",
    "qwen3-": "Qwen/Qwen3-0.6B",
    "qwen2.5-coder": "Qwen/Qwen2.5-Coder-0.5B-Instruct",
    "qwen2.5-": "Qwen/Qwen2.5-0.5B-Instruct",
    "gemma-3": "google/gemma-3-1b-it",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("heads", type=Path)
    lines = parser.parse_args().heads.read_text("utf-8").splitlines()
    rows = [_entry(json.loads(line)) for line in lines]
    rows += [
        {"family": family, "draft": draft, "method": "draft_model", "source": "same vocabulary"}
        for family, draft in _SMALL_MODELS.items()
    ]
    kept = {json.dumps(row, separators=(",", ":")): None for row in rows if row is not None}
    OUTPUT.write_text("".join(f"{line}\n" for line in kept), "utf-8")
    print(f"{len(kept)} drafts: {OUTPUT}")


def _entry(row: dict[str, Any]) -> dict[str, Any] | None:
    method = row["method"].removesuffix(_PARALLEL)
    if method not in _METHODS or "/" not in row["head"] or " " in row["head"]:
        return None  # drafts inside a checkpoint are seen in its config
    family = _FAMILIES.get(row["target"])
    entry = {"family": family} if family else {"target": row["target"]}
    entry |= {"draft": row["head"], "method": method}
    if row["method"].endswith(_PARALLEL):
        entry["parallel"] = True
    if "k" in row and row.get("k_note") != _GENERIC:
        entry["tokens"] = row["k"]
    if row["head"] in _LIKE:
        entry["like"] = _LIKE[row["head"]]
    return entry | {"source": row["source"]}


if __name__ == "__main__":
    main()
