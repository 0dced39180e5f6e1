"""Add a vLLM release to the facts of planner/engine/data, from an installed package.

    python tools/add_release.py V/bin/python

V is an environment with that vLLM in it; a build for CPUs will do. A release that is there already
is replaced. What is new and what is gone against the release before it is printed. The other facts
of a release (planner/engine/data/releases.json) are read in its sources by hand.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

from release_tables import Table, expand, read, release_key, table_of, write

PARSER = Path(__file__).with_name("vllm_parser.py")


def installed(python: str) -> Table:
    """The table of the vLLM that an interpreter imports."""
    run = subprocess.run([python, str(PARSER)], capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(f"{python} cannot print its parser:\n{run.stderr[-2000:]}")
    return table_of(json.loads(run.stdout[run.stdout.index("{") :]))


def with_release(tables: list[Table], table: Table) -> list[Table]:
    """The tables with that of a release added or replaced, oldest first."""
    others = [each for each in tables if each["release"] != table["release"]]
    return sorted([*others, table], key=lambda each: release_key(each["release"]))


def difference(before: Table, after: Table) -> list[str]:
    """What came and what went, in lines."""
    lines = []
    for what in ("names", "speculative_keys", "speculative_methods", "environment"):
        old, new = set(before[what]), set(after[what])
        lines += [f"+ {what}: {name}" for name in sorted(new - old)]
        lines += [f"- {what}: {name}" for name in sorted(old - new)]
    for name, values in after["choices"].items():
        old, new = set(before["choices"][name]), set(values)
        lines += [f"+ {name}: {value}" for value in sorted(new - old)]
        lines += [f"- {name}: {value}" for value in sorted(old - new)]
    for dest, setting in after["settings"].items():
        was = before["settings"].get(dest, setting)["default"]
        if was != setting["default"]:
            lines.append(f"= default of {dest}: {was} -> {setting['default']}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("python", help="the interpreter of an environment with vLLM in it")
    table = installed(parser.parse_args().python)
    known = expand(*read())
    tables = with_release(known, table)
    at = tables.index(table)
    for line in difference(tables[at - 1], table) if at else ():
        print(line)
    same = next((each for each in known if each["release"] == table["release"]), None)
    write(tables)
    state = "as it was" if same == table else "replaced" if same is not None else "added"
    print(f"vLLM {table['release']}: {len(table['names'])} option strings, {state}")


if __name__ == "__main__":
    main()
