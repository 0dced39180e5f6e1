"""What the options of each vLLM release are, as tables of one release and as the files of facts.

A table is what `tools/vllm_parser.py` prints. The files (`planner/engine/data/flags.json` and
`options.json`) hold all releases at once: things that come and go as runs of releases, and values
that change as runs with a value.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "planner" / "engine" / "data"
FLAGS, OPTIONS = "flags.json", "options.json"
SOURCE = "the argparse parser of `vllm serve`, built from each release's own Python files"
CHOICES = (
    "kv_cache_dtype", "quantization", "quantization_deprecated", "moe_backend", "linear_backend",
    "all2all_backend", "attention_backend", "cudagraph_mode",
)  # fmt: skip
KEYS = {
    "CompilationConfig": "compilation_config", "AttentionConfig": "attention_config",
    "KernelConfig": "kernel_config", "EPLBConfig": "eplb_config",
    "KVTransferConfig": "kv_transfer_config",
}  # fmt: skip
Table = dict[str, Any]
Document = dict[str, Any]


def release_key(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split("."))


def table_of(dump: dict[str, Any]) -> Table:
    """A dump of a parser without what no file keeps, and in one order."""
    names: dict[str, list[Any]] = {}
    settings: dict[str, dict[str, Any]] = {}
    for name, flag in dump["flags"].items():
        negations = flag.get("negations", ())
        for each in (name, *flag.get("aliases", ()), *negations):
            names[each] = [flag["dest"], flag["kind"], flag.get("type"), each in negations]
        choices = [str(choice) for choice in flag.get("choices") or () if choice is not None]
        default = flag.get("default")
        settings.setdefault(
            flag["dest"],
            {
                "default": None if default in ([], {}, "==SUPPRESS==") else default,
                "choices": sorted(choices) or None,
                "deprecated": bool(flag.get("deprecated")),
            },
        )
    known = dump["choices"]
    speculative = dump["speculative_config"]
    return {
        "release": dump["vllm_version"],
        "names": dict(sorted(names.items())),
        "settings": dict(sorted(settings.items())),
        "choices": {name: sorted(map(str, known.get(name) or ())) for name in CHOICES},
        "speculative_keys": sorted(speculative["keys"]),
        "speculative_methods": sorted(speculative["methods"]),
        "mtp_methods": sorted(speculative["mtp_methods"]),
        "keys": {
            dest: sorted(dump["config_fields"].get(kind) or ()) for kind, dest in KEYS.items()
        },
        "environment": sorted(dump["env_vars"]),
    }


def compress(tables: list[Table]) -> tuple[Document, Document]:
    """The contents of the two files."""
    releases = [table["release"] for table in tables]
    flags = {
        "source": SOURCE,
        "releases": releases,
        "flags": runs_of([table["names"] for table in tables]),
        "choices": {name: runs_of([t["choices"][name] for t in tables]) for name in CHOICES},
    }
    newest: dict[str, list[Any]] = {}
    for table in tables:
        newest |= table["names"]
    dests = sorted({dest for table in tables for dest in table["settings"]})
    options = {
        "source": SOURCE,
        "columns": ["dest", "kind", "type", "negation"],
        "options": dict(sorted(newest.items())),
        "earlier": {
            name: changes
            for name in sorted(newest)
            if (changes := values_of([t["names"].get(name) for t in tables])[:-1])
        },
        "defaults": {
            dest: values_of([_setting(table, dest, "default") for table in tables])
            for dest in dests
        },
        "closed": {
            dest: runs
            for dest in dests
            if (runs := runs_of([_setting(table, dest, "choices") or () for table in tables]))
        },
        "deprecated": runs_of(
            [[d for d, each in t["settings"].items() if each["deprecated"]] for t in tables]
        ),
        "speculative_config": runs_of([table["speculative_keys"] for table in tables]),
        "speculative_methods": runs_of([table["speculative_methods"] for table in tables]),
        "mtp_methods": runs_of([table["mtp_methods"] for table in tables]),
        "keys": {dest: runs_of([t["keys"][dest] for t in tables]) for dest in KEYS.values()},
        "environment": runs_of([table["environment"] for table in tables]),
    }
    return flags, options


def expand(flags: Document, options: Document) -> list[Table]:
    """The tables that make these files."""

    def there(runs: dict[str, Any], index: int) -> list[str]:
        return sorted(n for n, spans in runs.items() if any(a <= index <= b for a, b in spans))

    def value(runs: list[Any], index: int) -> Any:
        return next((v for first, last, v in runs if first <= index <= last), None)

    tables = []
    for index, release in enumerate(flags["releases"]):
        names = {}
        for name in there(flags["flags"], index):
            earlier = value(options["earlier"].get(name, []), index)
            names[name] = earlier or options["options"][name]
        dests = sorted({row[0] for row in names.values()})
        old = there(options["deprecated"], index)
        tables.append(
            {
                "release": release,
                "names": names,
                "settings": {
                    dest: {
                        "default": value(options["defaults"][dest], index),
                        "choices": there(options["closed"].get(dest, {}), index) or None,
                        "deprecated": dest in old,
                    }
                    for dest in dests
                },
                "choices": {n: there(flags["choices"].get(n, {}), index) for n in CHOICES},
                "speculative_keys": there(options["speculative_config"], index),
                "speculative_methods": there(options["speculative_methods"], index),
                "mtp_methods": there(options["mtp_methods"], index),
                "keys": {d: there(options["keys"][d], index) for d in KEYS.values()},
                "environment": there(options["environment"], index),
            }
        )
    return tables


def _setting(table: Table, dest: str, what: str) -> Any:
    return table["settings"].get(dest, {}).get(what)


def runs_of(present: list[Any]) -> dict[str, list[list[int]]]:
    """Of every name: the index ranges [first, last] in which it is present."""
    found: dict[str, list[list[int]]] = {}
    for index, names in enumerate(present):
        for name in names:
            spans = found.setdefault(name, [])
            if spans and spans[-1][1] == index - 1:
                spans[-1][1] = index
            else:
                spans.append([index, index])
    return dict(sorted(found.items()))


def values_of(values: list[Any]) -> list[list[Any]]:
    """Ranges [first, last, value] of a value that changes; none where it is None."""
    found: list[list[Any]] = []
    for index, value in enumerate(values):
        if value is None:
            continue
        if found and found[-1][1] == index - 1 and found[-1][2] == value:
            found[-1][1] = index
        else:
            found.append([index, index, value])
    return found


def read() -> tuple[Document, Document]:
    """The files as they are."""
    flags, options = (json.loads((DATA / name).read_text()) for name in (FLAGS, OPTIONS))
    return flags, options


def write(tables: list[Table]) -> None:
    """Both files, a line for each entry."""
    tables = sorted(tables, key=lambda table: release_key(table["release"]))
    for name, document in zip((FLAGS, OPTIONS), compress(tables), strict=True):
        (DATA / name).write_text(text_of(document))


def text_of(document: Document) -> str:
    parts = []
    for key, value in document.items():
        if key in ("options", "defaults") and isinstance(value, dict):
            rows = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()]
            parts.append(f"{json.dumps(key)}: {{\n" + ",\n".join(rows) + "\n}")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
