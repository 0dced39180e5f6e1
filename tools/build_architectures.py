"""Add a release to `planner/engine/data/architectures.json`: which model classes it has.

    python tools/build_architectures.py RELEASE PATH/TO/vllm/model_executor/models/registry.py

Read, not run: the keys of the registry's tables, and of every model class whether it or a base
class is `SupportsPP`.
"""

from __future__ import annotations

import argparse
import ast
import json
from functools import cache
from pathlib import Path

OUTPUT = Path(__file__).parent.parent / "planner" / "engine" / "data" / "architectures.json"
GENERATIVE = ("_TEXT_GENERATION_MODELS", "_MULTIMODAL_MODELS")
NATIVE = (
    *GENERATIVE,
    "_EMBEDDING_MODELS",
    "_LATE_INTERACTION_MODELS",
    "_REWARD_MODELS",
    "_SEQUENCE_CLASSIFICATION_MODELS",
    "_TOKEN_CLASSIFICATION_MODELS",
)


def tables(path: Path) -> dict[str, dict[str, tuple[str, str] | None]]:
    """Tables of the registry: architecture -> (module, class), None where it names none."""
    found: dict[str, dict[str, tuple[str, str] | None]] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.AnnAssign):
            target = node.target
        elif isinstance(node, ast.Assign):
            target = node.targets[0]
        else:
            continue
        if isinstance(target, ast.Name) and isinstance(node.value, ast.Dict):
            found[target.id] = {
                key.value: _place(value)
                for key, value in zip(node.value.keys, node.value.values, strict=True)
                if isinstance(key, ast.Constant) and isinstance(key.value, str)
            }
    return found


def _place(value: ast.expr) -> tuple[str, str] | None:
    names = [item.value for item in getattr(value, "elts", ()) if isinstance(item, ast.Constant)]
    return (str(names[0]), str(names[1])) if len(names) >= 2 else None


@cache
def names_of(path: Path, package: str) -> dict[str, tuple[str, str] | list[str]]:
    """What a module's names are: (module, name) of an import, the bases of a class."""
    imports: dict[str, tuple[str, str]] = {}
    classes: dict[str, list[str]] = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            parent = package.split(".")[: len(package.split(".")) + 1 - node.level]
            module = ".".join([*(parent if node.level else ()), *filter(None, [node.module])])
            imports |= {a.asname or a.name: (module, a.name) for a in node.names}
        elif isinstance(node, ast.ClassDef):
            classes[node.name] = [ast.unparse(base).partition("[")[0] for base in node.bases]
    return {**imports, **classes}


def supports_pipeline(
    root: Path, module: str, name: str, seen: frozenset[tuple[str, str]] = frozenset()
) -> bool:
    """Whether a class is `SupportsPP`; `seen` are the places on the way to it."""
    if name == "SupportsPP" or (module, name) in seen:
        return name == "SupportsPP"
    seen |= {(module, name)}
    path = root / module.replace(".", "/")
    is_package = not path.with_suffix(".py").exists()
    file = path / "__init__.py" if is_package else path.with_suffix(".py")
    if not file.exists():
        return False
    found = names_of(file, module if is_package else module.rpartition(".")[0]).get(name, [])
    if isinstance(found, tuple):
        return supports_pipeline(root, *found, seen)
    return any(supports_pipeline(root, module, base, seen) for base in found)


def module_of(name: str) -> str:
    """The full name of a module that the registry names."""
    return name if name.startswith("vllm.") else f"vllm.model_executor.models.{name}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("release")
    parser.add_argument("registry", type=Path)
    arguments = parser.parse_args()
    found = tables(arguments.registry)
    root = arguments.registry.resolve().parents[3]
    no_pipeline = {
        name
        for table in GENERATIVE
        for name, place in found.get(table, {}).items()
        if place is not None and not supports_pipeline(root, module_of(place[0]), place[1])
    }
    document = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else {}
    document[arguments.release] = {
        "native": sorted({name for table in NATIVE for name in found.get(table, ())}),
        "transformers": sorted(found.get("_TRANSFORMERS_SUPPORTED_MODELS", ())),
        "dropped": sorted(found.get("_PREVIOUSLY_SUPPORTED_MODELS", ())),
        "no_pipeline": sorted(no_pipeline),
    }
    rows = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(document.items())]
    OUTPUT.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
