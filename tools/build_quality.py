"""Make `planner/recommendation/data/quality.jsonl`: how good each open model is.

    python tools/build_quality.py FOLDER

FOLDER holds models.jsonl (one fitted score a model and mode, from published benchmarks) and
quant_penalty.json (score points lost by weight format and size). First line: the scale, its
sources and the penalties; then one line a model, with `of` for a quantized copy of another.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).parent.parent / "planner" / "recommendation" / "data" / "quality.jsonl"
ABOUT = {
    "scale": "Llama-3.1-8B-Instruct = 40, DeepSeek-V3 (2024-12) = 60; open-ended; one standard "
    "deviation of all measured models is 18 points",
    "method": "one ability for each model and mode, fitted to 117 public benchmarks and arena "
    "ratings with an intercept, slope and noise each; a prior by size and date where data is thin",
    "state": "2026-11-29",
    "sources": "LiveBench, LMArena, Open LLM Leaderboard v2, BigCodeBench, EvalPlus, BFCL, Aider, "
    "tau2-bench, OpenHands, SWE-rebench, NYT Connections, NoLiMa, RULER; makers' own numbers at "
    "half weight; quantization: published pairs of baseline and quantized scores",
}
PENALTIES = ("fp8", "int4-w4a16", "int8-w8a16", "int8-w8a8", "mxfp4", "nvfp4")


def copy_or_own(line: dict[str, Any], lines: list[dict[str, Any]]) -> dict[str, Any]:
    """A model whose released checkpoint is rated too, under its name without "-BF16": a copy."""
    stem = line["id"].removesuffix("-BF16")
    if stem == line["id"] or all(other["id"] != stem for other in lines):
        return line
    return {"id": line["id"], "of": stem, "format": "bf16"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    penalties: dict[str, dict[str, list[float]]] = {}
    for row in json.loads((folder / "quant_penalty.json").read_text()):
        if row["weight_format"] in PENALTIES and row["params"] != "?":
            points = [row[f"points_{end}"] for end in ("median", "lo", "hi")]
            penalties.setdefault(row["weight_format"], {})[row["params"]] = points
    lines: list[dict[str, Any]] = [{"about": ABOUT, "penalties": penalties}]
    for text in (folder / "models.jsonl").read_text().splitlines():
        row = json.loads(text)
        if row["score"] is None:
            continue
        if row["weight_format"] and row["base_model"]:
            lines.append(
                {"id": row["repo_id"], "of": row["base_model"], "format": row["weight_format"]}
            )
            continue
        modes = {
            mode: {
                key: value[key]
                for key in ("score", "se", "evidence", "newest_evidence", "categories")
                if value[key]
            }
            for mode, value in row["modes"].items()
        }
        lines.append(
            {
                "id": row["repo_id"],
                "modes": modes,
                "uses": row["use_cases"],
                "released": row["release_date"],
                "context": row["context_length"],
                "total": row["params_total"],
                "active": row["params_active"],
            }
        )
    lines[1:] = [copy_or_own(line, lines[1:]) for line in lines[1:]]
    lines[1:] = sorted(lines[1:], key=lambda line: str(line["id"]).lower())
    with OUTPUT.open("w") as out:
        for line in lines:
            out.write(json.dumps(line, separators=(",", ":")) + "\n")
    print(f"{OUTPUT.name}: {len(lines) - 1} models, {OUTPUT.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
