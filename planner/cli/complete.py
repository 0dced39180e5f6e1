"""What a shell offers at the Tab key: commands, options, and names of GPUs and models.

A key press waits for it, so nothing that takes time is imported: options are read from the source
of a command's module, names from the data files.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from planner.cli.commands import BELOW, COMMANDS

_CLI: Final = Path(__file__).parent
_ROOT: Final = _CLI.parents[1]
_GLOBAL: Final = ("--help", "--version")
# How the text before a GPU's name may look in a rig: "2x", "2x8x", "4090+".
_BEFORE_GPU: Final = re.compile(r"(?:.*\+)?(?:\d+x){0,2}")
_SWITCHES: Final = frozenset({"bool", "bool | None"})


def complete(words: Sequence[str]) -> list[str]:
    """What the last of `words` (those behind `vplan`) may become."""
    *before, word = words or [""]
    if "--" in before:
        return _starting(word, _of_vllm(before[before.index("--") + 1 :], word))
    if not before:
        return _starting(word, _GLOBAL if word.startswith("-") else COMMANDS)
    command, rest = before[0], before[1:]
    if command not in COMMANDS:
        return []
    below = _below(command)
    offered: Iterable[str] = ()
    if rest and rest[0] in below:
        command, rest = f"{command} {rest[0]}", rest[1:]
    elif not rest and not word.startswith("-"):
        offered = below
    signature = _read(command)
    if rest and rest[-1] in signature.options:
        name = signature.options[rest[-1]]
        if name is not None:  # it takes a value
            return _starting(word, _values(command, name, word))
    if word.startswith("-"):
        return _starting(word, ["--help", *(o for o in signature.options if o.startswith("--"))])
    arguments = (_values(command, name, word) for name in signature.arguments[:1])
    return _starting(word, [*offered, *(value for values in arguments for value in values)])


def _starting(word: str, offered: Iterable[str]) -> list[str]:
    """Those that go on with `word`, in any case, as model ids are asked for."""
    found = (each for each in offered if each.lower().startswith(word.lower()))
    return sorted(dict.fromkeys(found))


# --- options ---------------------------------------------------------------------------------


class _Signature(Struct):
    """Of a command: the parameter that each option fills, None for a switch; its arguments."""

    options: dict[str, str | None] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)


def _read(command: str) -> _Signature:
    """Read the parameters of a command: `name: Annotated[type, typer.Option(...)]`."""
    first, _, second = command.partition(" ")
    found = _Signature()
    if second in BELOW.get(first, ()):
        module, function = _module(f"{first}_{second}"), second
    else:
        module = _module(first)
        function = module.commands.get(second, first)
    node = module.functions.get(function)
    for parameter in node.args.args if node is not None else ():
        annotation = parameter.annotation
        if isinstance(annotation, ast.Name):  # one that several parameters share
            annotation = module.annotation(annotation.id)
        if not isinstance(annotation, ast.Subscript) or not isinstance(annotation.slice, ast.Tuple):
            continue
        kind, call = annotation.slice.elts
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            _note(found, parameter.arg, ast.unparse(kind), call)
    return found


def _below(command: str) -> Iterable[str]:
    """Commands below another one."""
    return BELOW.get(command) or _module(command).commands


class _Module(Struct):
    """Of a module's source: functions, annotations with names, functions by their commands."""

    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    annotations: dict[str, ast.expr] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    imported: dict[str, str] = field(default_factory=dict)  # from which of our modules

    def annotation(self, name: str) -> ast.expr | None:
        """What an annotation of that name stands for, here or where it is imported from."""
        if name in self.annotations or name not in self.imported:
            return self.annotations.get(name)
        return _module(self.imported[name]).annotations.get(name)


def _module(name: str) -> _Module:
    found = _Module()
    for node in ast.parse((_CLI / f"{name}.py").read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.annotations[node.targets[0].id] = node.value
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("planner.cli."):
            module = (node.module or "").rpartition(".")[2]
            found.imported |= {each.name: module for each in node.names}
        elif isinstance(node, ast.FunctionDef):
            found.functions[node.name] = node
            for each in node.decorator_list:  # @group.command("name")
                if isinstance(each, ast.Call) and each.args:
                    word = each.args[0]
                    if isinstance(word, ast.Constant) and isinstance(word.value, str):
                        found.commands[word.value] = node.name
    return found


def _note(found: _Signature, name: str, kind: str, call: ast.Call) -> None:
    if isinstance(call.func, ast.Attribute) and call.func.attr == "Argument":
        found.arguments.append(name)
        return
    texts = [each.value for each in call.args if isinstance(each, ast.Constant)]
    flags = [text for text in texts if isinstance(text, str)] or [f"--{name.replace('_', '-')}"]
    for flag in flags:
        found.options[flag] = None if kind in _SWITCHES else name


# --- values ----------------------------------------------------------------------------------


def _values(command: str, name: str, word: str) -> Iterable[str]:
    """What a parameter may be; nothing where the shell's own files do."""
    source = _SOURCES.get(f"{command} {name}") or _SOURCES.get(name)
    return source(word) if source is not None else ()


def _gpus(word: str) -> Iterator[str]:
    rows = json.loads((_ROOT / "hardware_db" / "data" / "gpus.json").read_text("utf-8"))
    yield from (row["slug"] for row in rows)


def _rigs(word: str) -> Iterator[str]:
    """GPUs behind what is written before them; "4090" is found as it is spoken of, too."""
    before = _BEFORE_GPU.match(word)
    text = before[0] if before is not None else ""
    names = list(_gpus(word))
    short = (name.partition("-")[2] for name in names if name.startswith("rtx-"))
    yield from (text + name for name in (*names, *short))
    if not text:
        yield from ("auto", "cpu")


def _models(word: str) -> Iterator[str]:
    """Bundled ones, those the user keeps, those in the Hub's cache."""
    data = (_ROOT / "model_cards" / "data" / "catalogue.jsonl").read_text("utf-8")
    yield from re.findall(r'^\{"id":"([^"]+)"', data, re.MULTILINE)
    yield from _kept(word)
    yield from _cached()


def _kept(word: str) -> Iterator[str]:
    """Names in the user's own catalogue, as their files are called."""
    from platformdirs import user_data_path

    try:
        files = os.listdir(user_data_path("vplan", appauthor=False) / "models")
    except OSError:
        return
    for file in files:
        if file.endswith(".json"):
            yield file.removesuffix(".json").replace("--", "/")


def _cached() -> Iterator[str]:
    try:
        from huggingface_hub import constants  # names of folders and variables, nothing heavy

        folders = os.listdir(constants.HF_HUB_CACHE)
    except (OSError, ValueError):  # no folder, or a variable that it cannot read
        return
    for folder in folders:
        kind, _, name = folder.partition("--")
        if kind == "models":
            yield name.replace("--", "/")


def _releases(word: str) -> Iterator[str]:
    yield from _data("flags.json")["releases"]


def _data(name: str) -> dict[str, dict[str, object]]:
    path = _ROOT / "planner" / "engine" / "data" / name
    found: dict[str, dict[str, object]] = json.loads(path.read_text("utf-8"))
    return found


def _use_cases(word: str) -> Iterable[str]:
    from planner.workload import USE_CASES

    return USE_CASES


def _uses(word: str) -> Iterable[str]:
    return ("classify", "draft", "embed", "generate", "multimodal", "transcribe")


def _of_vllm(words: Sequence[str], word: str) -> Iterable[str]:
    """Of the command behind `--`: the model, then options of vLLM."""
    if word.startswith("-"):
        return _data("flags.json")["flags"]
    if words[-1:] == ["serve"]:
        return _models(word)
    return () if words else ("vllm",)


_SOURCES: Final[dict[str, Callable[[str], Iterable[str]]]] = {
    "gpu": _rigs,
    "model": _models,
    "gpus name": _gpus,
    "models name": _models,
    "models add model": _models,
    "models update model": _kept,
    "vllm_version": _releases,
    "use_case": _use_cases,
    "use": _uses,
    "vendor": lambda word: ("nvidia", "amd", "intel"),
    "shell": lambda word: ("bash", "fish", "zsh"),
}
