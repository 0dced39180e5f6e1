"""Make `tests/data/crds.json`: what LeaderWorkerSet and RayService may hold.

    python tests/planner/record_crds.py NAME=CRD.yaml ...

The schemas are those of the projects' own CustomResourceDefinitions, with descriptions left out;
pod templates are left open, since Kubernetes' own schema of a pod is there to check them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

OUTPUT = Path(__file__).parent.parent / "data" / "crds.json"
POD_TEMPLATES = {"template", "leaderTemplate", "workerTemplate"}


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """As the API server prunes it: nothing else may be in an object whose properties are listed."""
    kept = {
        key: value
        for key, value in schema.items()
        if key in ("type", "required", "enum", "minimum", "maximum", "pattern", "format")
    }
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    if "properties" in schema:
        kept["properties"] = {
            name: {"type": "object"} if name in POD_TEMPLATES else closed(inner)
            for name, inner in schema["properties"].items()
        }
        kept["additionalProperties"] = False
    elif isinstance(schema.get("additionalProperties"), dict):
        kept["additionalProperties"] = closed(schema["additionalProperties"])
    if "items" in schema:
        kept["items"] = closed(schema["items"])
    return kept


def main() -> None:
    found: dict[str, Any] = {}
    for argument in sys.argv[1:]:
        source, _, path = argument.partition("=")
        definition = yaml.safe_load(Path(path).read_text())["spec"]
        version = next(each for each in definition["versions"] if each["name"] == "v1")
        schema = closed(version["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"type": "object"}
        del schema["properties"]["status"]
        kind = definition["names"]["kind"]
        group = f"{definition['group']}/v1"
        found[kind] = {"source": source, "apiVersion": group, "schema": schema}
    OUTPUT.write_text(json.dumps(found, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
