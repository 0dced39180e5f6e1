"""Make `planner/engine/data/variables.json`: how vLLM reads the environment variables it knows.

    python tools/build_variables.py [--before] RELEASE=PATH/TO/vllm/envs.py ...

`environment_variables` of each release is read, not run: what is made a number with `int` or
`float`, and what must be one of the choices of `env_with_choices`. The releases are given from the
oldest to the newest. A variable that some of them read otherwise is left out, but for those that
were read otherwise only before a release ("since"), or only after one ("until"). Of choices it has
those of any release. `--before`: the table stays for the releases it was made of, and older ones
are put before them.
"""

from __future__ import annotations

import argparse
import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from planner.engine.releases import known_releases

OUTPUT = Path(__file__).parent.parent / "planner" / "engine" / "data" / "variables.json"
SOURCE = "vllm/envs.py of "
# Read by releases that do not read all of them when they start, but whatever they serve: where a
# module of theirs is imported or the settings are made (vllm/logger.py, attention/layer.py by
# forward_context.py, entrypoints/openai/api_server.py, engine/arg_utils.py of 0.8.5 to 0.11.0).
ALWAYS_READ = (
    "VLLM_CONFIGURE_LOGGING", "VLLM_LOG_BATCHSIZE_INTERVAL", "VLLM_SERVER_DEV_MODE", "VLLM_USE_V1",
)  # fmt: skip
NUMBERS = {
    "int": "int", "maybe_convert_int": "int", "maybe_convert_bool": "int",
    "float": "float",
}  # fmt: skip
# Readers of one variable that are written apart.
FUNCTIONS = {"get_vllm_port": "int", "disable_compile_cache": "int"}
CHOICES = ("env_with_choices", "env_list_with_choices", "env_set_with_choices")


@dataclass(frozen=True)
class Reader:
    """How one release reads a variable; `choices` if it must be one of some."""

    kind: str | None
    choices: frozenset[str] = frozenset()
    any_case: bool = False


def readers(path: Path) -> Iterator[tuple[str, Reader]]:
    """Those of an envs.py, by the variable."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.value, ast.Dict):
            continue
        if getattr(node.target, "id", None) != "environment_variables":
            continue
        for key, value in zip(node.value.keys, node.value.values, strict=True):
            if isinstance(key, ast.Constant):
                yield str(key.value), reader(str(key.value), value)


def reader(name: str, value: ast.expr) -> Reader:
    if isinstance(value, ast.Name):
        return Reader(FUNCTIONS.get(value.id))
    for call in ast.walk(value):
        if not isinstance(call, ast.Call):
            continue
        function = getattr(call.func, "id", "")
        if function in CHOICES:
            return of_choices(call, several=function != CHOICES[0])
        inside = [each.value for each in ast.walk(call) if isinstance(each, ast.Constant)]
        if function in NUMBERS and name in inside:
            return Reader(NUMBERS[function])
    return Reader(None)


def of_choices(call: ast.Call, *, several: bool) -> Reader:
    """Of `env_with_choices(name, default, choices, case_sensitive)`; None if they are computed."""
    given = {word.arg: word.value for word in call.keywords}
    choices = given.get("choices", call.args[2] if len(call.args) > 2 else None)
    if not isinstance(choices, ast.List):
        return Reader(None)
    any_case = "case_sensitive" in given and not ast.literal_eval(given["case_sensitive"])
    kind = "choices" if several else "choice"
    return Reader(kind, frozenset(ast.literal_eval(choices)), any_case)


def row(reads: list[tuple[str, Reader]]) -> dict[str, object] | None:
    """Of a variable by what each release makes of it; None if that cannot be said."""
    runs = [
        (how, list(same))
        for how, same in groupby(reads, lambda each: (each[1].kind, each[1].any_case))
    ]
    typed = [(how, same) for how, same in runs if how[0] is not None]
    if len(typed) != 1:
        return None
    ((kind, any_case), same) = typed[0]
    found: dict[str, object] = {"kind": kind}
    choices = sorted(frozenset().union(*(one.choices for _, one in same)))
    found |= {"choices": choices} if choices else {}
    found |= {"any_case": True} if any_case else {}
    found |= {"since": same[0][0]} if same[0] != reads[0] else {}
    found |= {"until": same[-1][0]} if same[-1] != reads[-1] else {}
    return found


def known(release: str) -> set[str]:
    """The variables that a release has, whatever it makes of them."""
    facts = json.loads(OUTPUT.with_name("options.json").read_text())["environment"]
    at = known_releases().index(release)
    return {name for name, runs in facts.items() if any(a <= at <= b for a, b in runs)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="+", metavar="RELEASE=PATH")
    parser.add_argument("--before", action="store_true")
    options = parser.parse_args()
    sources = [each.partition("=") for each in options.sources]
    releases = [release for release, _, _ in sources]
    found: dict[str, list[tuple[str, Reader]]] = {}
    for release, _, path in sources:
        for name, one in readers(Path(path)):
            found.setdefault(name, []).append((release, one))
    if options.before:
        kept = json.loads(OUTPUT.read_text())
        later = kept["source"].removeprefix(SOURCE).split(", ")
        for name in known(later[0]) & found.keys() | kept["variables"].keys():
            old = kept["variables"].get(name, {"kind": None})
            choices = frozenset(old.get("choices", ()))
            one = Reader(old["kind"], choices, old.get("any_case", False))
            found.setdefault(name, []).append((old.get("since", later[0]), one))
        releases += later
    table = {name: each for name, reads in sorted(found.items()) if (each := row(reads))}
    source = f"{SOURCE}{', '.join(releases)}"
    lines = [f'"{name}": {json.dumps(row)}' for name, row in table.items()]
    always = json.dumps(ALWAYS_READ)
    head = f'{{\n"source": {json.dumps(source)},\n"always_read": {always},\n"variables": {{\n'
    OUTPUT.write_text(head + ",\n".join(lines) + "\n}\n}\n")
    print(f"{len(table)} variables in {OUTPUT.name}")


if __name__ == "__main__":
    main()
