"""Make `tests/data/recipes.jsonl`: official commands for models on hardware, each once.

    python tools/build_recipes.py RECIPES.jsonl

RECIPES.jsonl has the commands of vllm-project/recipes (Apache-2.0): those that its scripts generate
for every model and hardware, and those written in its guides. One line a distinct command: model,
flags, environment, release, and the hardware it is given for.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).parent.parent / "tests" / "data" / "recipes.jsonl"
ABOUT = "vllm-project/recipes@8959cf64, Apache-2.0: guides, and commands its scripts generate"
_IMAGE = re.compile(r"vllm-openai[\w.-]*:v(\d+\.\d+\.\d+)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipes", type=Path)
    commands: dict[str, dict[str, Any]] = {}
    for text in parser.parse_args().recipes.read_text("utf-8").splitlines():
        row = json.loads(text)
        if row["kind"] not in ("generated", "guide_command"):
            continue
        line = _line(row)
        key = json.dumps({name: line[name] for name in line if name not in ("on", "file")})
        held = commands.setdefault(key, line)
        if held is not line:
            held["on"] = sorted({*map(tuple, held["on"]), *map(tuple, line["on"])})
    with OUTPUT.open("w", encoding="utf-8") as out:
        out.write(json.dumps({"about": ABOUT}) + "\n")
        for line in sorted(commands.values(), key=lambda each: json.dumps(each)):
            out.write(json.dumps(line, separators=(",", ":")) + "\n")
    print(f"{OUTPUT.name}: {len(commands)} commands, {OUTPUT.stat().st_size / 1024:.0f} KiB")


def _file(source: str) -> str:
    """The guide in that repository, or the page that was generated."""
    generated = source.partition(" run here, ")[2]
    return generated or source.removeprefix("vllm-project/recipes ").partition("@")[0]


def _line(row: dict[str, Any]) -> dict[str, Any]:
    image = row.get("docker_image") or row.get("launcher", "")
    named = _IMAGE.search(image)
    hardware = [(each["gpu"], each["count"]) for each in row.get("hardware", []) if "count" in each]
    line = {
        "model": row["model"],
        "kind": row["kind"].removesuffix("_command"),
        "since": row.get("min_vllm_version"),
        "image": named[1] if named else image.rpartition("/")[2].partition(":")[0] or None,
        "flags": row["flags"],
        "env": row.get("env") or {},
        "on": sorted(set(hardware)),
        "file": _file(row["source"]),
    }
    return {name: value for name, value in line.items() if value not in (None, {}, [])} | {
        "on": line["on"]
    }


if __name__ == "__main__":
    main()
