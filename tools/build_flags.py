"""Make `planner/engine/data/flags.json` and `options.json`: the options of each vLLM release.

    python tools/build_flags.py FOLDER

FOLDER holds one `<release>.json` for each release, with `accepted_names` (every option string of
that release's `vllm serve` parser), `choices`, and of each option what it sets and takes. Names are
kept as runs of releases; what an option takes, as the newest release that has it says.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "planner" / "engine" / "data"
OUTPUT, OPTIONS = DATA / "flags.json", DATA / "options.json"
CHOICES = ("kv_cache_dtype", "quantization")


def release_key(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split("."))


def runs(present: list[bool]) -> list[list[int]]:
    """Index ranges [first, last] in which a thing is present."""
    found: list[list[int]] = []
    for index, there in enumerate(present):
        if not there:
            continue
        if found and found[-1][1] == index - 1:
            found[-1][1] = index
        else:
            found.append([index, index])
    return found


def options_of(tables: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Of every option string: what it sets, what it takes and of what type, whether it unsets."""
    found: dict[str, list[Any]] = {}
    for table in tables:  # oldest first: the newest has the last word
        for name, flag in table["flags"].items():
            negations = flag.get("negations", ())
            for each in (name, *flag.get("aliases", ()), *negations):
                found[each] = [flag["dest"], flag["kind"], flag.get("type"), each in negations]
    return dict(sorted(found.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    files = sorted(folder.glob("*.json"), key=lambda path: release_key(path.stem))
    tables = [json.loads(path.read_text()) for path in files]
    releases = [path.stem for path in files]

    def by_value(values: list[set[str]]) -> dict[str, list[list[int]]]:
        every = sorted(set().union(*values))
        return {name: runs([name in known for known in values]) for name in every}

    flags = by_value([set(table["accepted_names"]) for table in tables])
    choices = {
        name: by_value([set(table["choices"].get(name) or ()) for table in tables])
        for name in CHOICES
    }
    document = {
        "source": "the argparse parser of `vllm serve`, built from each release's own Python files",
        "releases": releases,
        "flags": flags,
        "choices": choices,
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in document.items()]
    OUTPUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    options = options_of(tables)
    keys = by_value([set(table["speculative_config"]["keys"]) for table in tables])
    table = {
        "source": document["source"],
        "columns": ["dest", "kind", "type", "negation"],
        "options": options,
        "speculative_config": keys,
    }
    inner = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in options.items()]
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in table.items()]
    lines[2] = '"options": {\n' + ",\n".join(inner) + "\n}"
    OPTIONS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{OUTPUT.name}: {len(releases)} releases, {len(flags)} option strings")


if __name__ == "__main__":
    main()
