"""Add a release to `planner/engine/data/architectures.json`: which model classes it has.

    python tools/build_architectures.py RELEASE PATH/TO/vllm/model_executor/models/registry.py

The registry is read, not run: the keys of its tables.
"""

from __future__ import annotations

import argparse
import ast
import json
from pathlib import Path

OUTPUT = Path(__file__).parent.parent / "planner" / "engine" / "data" / "architectures.json"
NATIVE = (
    "_TEXT_GENERATION_MODELS",
    "_MULTIMODAL_MODELS",
    "_EMBEDDING_MODELS",
    "_LATE_INTERACTION_MODELS",
    "_REWARD_MODELS",
    "_SEQUENCE_CLASSIFICATION_MODELS",
    "_TOKEN_CLASSIFICATION_MODELS",
)


def tables(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.AnnAssign):
            target = node.target
        elif isinstance(node, ast.Assign):
            target = node.targets[0]
        else:
            continue
        if isinstance(target, ast.Name) and isinstance(node.value, ast.Dict):
            keys = [key.value for key in node.value.keys if isinstance(key, ast.Constant)]
            found[target.id] = [key for key in keys if isinstance(key, str)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("release")
    parser.add_argument("registry", type=Path)
    arguments = parser.parse_args()
    found = tables(arguments.registry)
    document = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else {}
    document[arguments.release] = {
        "native": sorted({name for table in NATIVE for name in found.get(table, ())}),
        "transformers": sorted(found.get("_TRANSFORMERS_SUPPORTED_MODELS", ())),
        "dropped": sorted(found.get("_PREVIOUSLY_SUPPORTED_MODELS", ())),
    }
    rows = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(document.items())]
    OUTPUT.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
