"""Make `planner/engine/data/config_types.json`: model types whose configs need no remote code.

    python tools/build_config_types.py RELEASE PATH/TO/vllm/transformers_utils/config.py \
        PATH/TO/transformers/models/auto/

vLLM registers config classes of its own (`_CONFIG_REGISTRY`, `_ARCHITECTURE_TO_MODEL_TYPE`);
whatever else is neither there nor among transformers' is read by the repository's own code
(`HFConfigParser`). Both are read, not run.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from pathlib import Path

OUTPUT = Path(__file__).parent.parent / "planner" / "engine" / "data" / "config_types.json"
TABLES = ("_CONFIG_REGISTRY", "_ARCHITECTURE_TO_MODEL_TYPE")


def of_vllm(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if node.target.id not in TABLES:
            continue
        for inner in ast.walk(node):
            if isinstance(inner, ast.keyword) and inner.arg is not None:
                found.add(inner.arg)
            elif isinstance(inner, ast.Dict):
                keys = inner.keys if node.target.id == TABLES[0] else inner.values
                found |= {key.value for key in keys if isinstance(key, ast.Constant)}
    return found


def of_transformers(folder: Path) -> set[str]:
    """Keys of the mapping of model types, which is written out in one of the files."""
    found: set[str] = set()
    files = [*sorted(folder.glob("*auto_mappings*.py")), folder / "configuration_auto.py"]
    for file in files:
        for node in ast.parse(file.read_text()).body:
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if isinstance(target, ast.Name) and target.id == "CONFIG_MAPPING_NAMES":
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Tuple) and isinstance(inner.elts[0], ast.Constant):
                        found.add(inner.elts[0].value)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("release")
    parser.add_argument("config", type=Path)
    parser.add_argument("auto", type=Path)
    arguments = parser.parse_args()
    version = re.search(
        r'__version__ = "(.+)"', (arguments.auto.parents[1] / "__init__.py").read_text()
    )
    document = {
        "source": f"vLLM {arguments.release} transformers_utils/config.py, transformers "
        f"{version[1] if version else ''} models/auto",
        "types": sorted(of_vllm(arguments.config) | of_transformers(arguments.auto)),
    }
    OUTPUT.write_text(json.dumps(document, separators=(",", ":")) + "\n")
    print(f"{OUTPUT.name}: {len(document['types'])} types")


if __name__ == "__main__":
    main()
