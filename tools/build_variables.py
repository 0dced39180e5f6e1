"""Make `planner/engine/data/variables.json`: how vLLM reads the environment variables it knows.

    python tools/build_variables.py RELEASE=PATH/TO/vllm/envs.py ...

`environment_variables` of each release is read, not run: what is made a number with `int` or
`float`, and what must be one of the choices of `env_with_choices`. A variable that some of the
releases read otherwise is left out; of choices it has those of any release.
"""

from __future__ import annotations

import argparse
import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OUTPUT = Path(__file__).parent.parent / "planner" / "engine" / "data" / "variables.json"
NUMBERS = {
    "int": "int", "maybe_convert_int": "int", "maybe_convert_bool": "int",
    "float": "float",
}  # fmt: skip
FUNCTIONS = {"get_vllm_port": "int"}  # readers of one variable that are written apart
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="+", metavar="RELEASE=PATH")
    sources = [each.partition("=") for each in parser.parse_args().sources]
    found: dict[str, list[Reader]] = {}
    for _, _, path in sources:
        for name, one in readers(Path(path)):
            found.setdefault(name, []).append(one)
    table: dict[str, object] = {}
    for name, all_of_it in sorted(found.items()):
        kinds = {(one.kind, one.any_case) for one in all_of_it}
        ((kind, any_case), *others) = kinds
        if others or kind is None:
            continue
        choices = sorted(frozenset().union(*(one.choices for one in all_of_it)))
        of_case = {"any_case": True} if any_case else {}
        table[name] = {"kind": kind, "choices": choices} | of_case if choices else {"kind": kind}
    source = f"vllm/envs.py of {', '.join(release for release, _, _ in sources)}"
    lines = [f'"{name}": {json.dumps(row)}' for name, row in table.items()]
    head = f'{{\n"source": {json.dumps(source)},\n"variables": {{\n'
    OUTPUT.write_text(head + ",\n".join(lines) + "\n}\n}\n")
    print(f"{len(table)} variables in {OUTPUT.name}")


if __name__ == "__main__":
    main()
