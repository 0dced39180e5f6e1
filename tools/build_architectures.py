"""Add a release to `planner/engine/data/architectures.json`: which model classes it has.

    python tools/build_architectures.py RELEASE PATH/TO/vllm/model_executor/models/registry.py

Read, not run: the keys of the registry's tables, and of every model class what it inherits:
whether it is `SupportsPP`, `SupportsLoRA` and, itself or the language model inside, a
`MixtureOfExperts` (by name or by what it has), whose experts can be balanced; and whether
`embedding_modules` names any and `is_3d_moe_weight` is true.
"""

from __future__ import annotations

import argparse
import ast
import json
from functools import cache
from pathlib import Path

OUTPUT = Path(__file__).parent.parent / "planner" / "engine" / "data" / "architectures.json"
_NONE = ("", "{}")
# Inherit `SupportsPP`, but have nothing that a stage is handed (`make_empty_intermediate_tensors`).
WITHOUT_STAGES = {"Glm5NextForCausalLM", "Glm5NextForConditionalGeneration"}
# The language model's class inside a multimodal one.
LANGUAGE_MODELS = {
    "Qwen3VLForConditionalGeneration": "Qwen3ForCausalLM",
    "Qwen3VLMoeForConditionalGeneration": "Qwen3MoeForCausalLM",
    "Qwen3_5ForConditionalGeneration": "Qwen3_5ForCausalLM",
    "Qwen3_5MoeForConditionalGeneration": "Qwen3_5MoeForCausalLM",
    "Llama4ForConditionalGeneration": "Llama4ForCausalLM",
    "KimiK25ForConditionalGeneration": "DeepseekV2ForCausalLM",
    "KimiK3ForConditionalGeneration": "KimiLinearForCausalLM",
    "DeepseekV41ForCausalLM": "DeepseekV4ForCausalLM",
}
NATIVE = (
    "_TEXT_GENERATION_MODELS",
    "_MULTIMODAL_MODELS",
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
        target: ast.expr
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
def names_of(path: Path, package: str) -> dict[str, tuple[str, str] | ast.ClassDef]:
    """What a module's names are: (module, name) of an import, or a class."""
    imports: dict[str, tuple[str, str]] = {}
    classes: dict[str, ast.ClassDef] = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            parent = package.split(".")[: len(package.split(".")) + 1 - node.level]
            module = ".".join([*(parent if node.level else ()), *filter(None, [node.module])])
            imports |= {a.asname or a.name: (module, a.name) for a in node.names}
        elif isinstance(node, ast.ClassDef):
            classes[node.name] = node
    return {**imports, **classes}


def ancestry(root: Path, module: str, name: str) -> list[tuple[str, ast.ClassDef | None]]:
    """A class and all it inherits from, nearest first; None for what cannot be read."""
    found: list[tuple[str, ast.ClassDef | None]] = []
    todo, seen = [(module, name)], set()
    while todo:
        module, name = place = todo.pop(0)
        if place in seen:
            continue
        seen.add(place)
        path = root / module.replace(".", "/")
        is_package = not path.with_suffix(".py").exists()
        file = path / "__init__.py" if is_package else path.with_suffix(".py")
        package = module if is_package else module.rpartition(".")[0]
        node = names_of(file, package).get(name) if file.exists() else None
        if isinstance(node, tuple):
            todo.insert(0, node)
            continue
        found.append((name, node))
        bases = node.bases if node is not None else ()
        todo = [(module, ast.unparse(base).partition("[")[0]) for base in bases] + todo
    return found


def attribute(classes: list[tuple[str, ast.ClassDef | None]], name: str) -> str:
    """The nearest value of a class attribute, as written; "" without one."""
    for _, node in classes:
        for line in node.body if node is not None else ():
            target: ast.expr
            if isinstance(line, ast.AnnAssign):
                target, value = line.target, line.value
            elif isinstance(line, ast.Assign):
                target, value = line.targets[0], line.value
            else:
                continue
            if isinstance(target, ast.Name) and target.id == name and value is not None:
                return ast.unparse(value)
    return ""


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
    classes = {
        name: ancestry(root, module_of(place[0]), place[1])
        for table in NATIVE
        for name, place in found.get(table, {}).items()
        if place is not None
    }

    def inherit(base: str) -> set[str]:
        return {name for name, line in classes.items() if base in {each for each, _ in line}}

    with_lora = inherit("SupportsLoRA")
    with_eplb = inherit("MixtureOfExperts") | {
        name
        for name, line in classes.items()
        if any(node is not None and "num_moe_layers" in ast.unparse(node) for _, node in line)
    }
    document = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else {}
    document[arguments.release] = {
        "native": sorted({name for table in NATIVE for name in found.get(table, ())}),
        "transformers": sorted(found.get("_TRANSFORMERS_SUPPORTED_MODELS", ())),
        "dropped": sorted(found.get("_PREVIOUSLY_SUPPORTED_MODELS", ())),
        "no_pipeline": sorted(set(classes) - (inherit("SupportsPP") - WITHOUT_STAGES)),
        "eplb": sorted(name for name in classes if {name, LANGUAGE_MODELS.get(name)} & with_eplb),
        "lora": sorted(with_lora),
        "lora_embeddings": sorted(
            name
            for name in with_lora
            if attribute(classes[LANGUAGE_MODELS.get(name, name)], "embedding_modules") not in _NONE
        ),
        "lora_3d_experts": sorted(
            name for name in with_lora if attribute(classes[name], "is_3d_moe_weight") == "True"
        ),
    }
    rows = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(document.items())]
    OUTPUT.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
