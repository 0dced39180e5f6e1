"""Rendered commands through vLLM's own parser and config layer: how many does it accept?

    python benchmarks/accepted_commands.py V/bin/python [--rigs 4090 8xh100-sxm ...] [--models N]

V is an environment with vLLM 0.32.0 for CPUs (tests/against_vllm/requirements.txt). Every family,
weight format, rig and speculative method that the bundled models allow goes to the parser, as a
command and as a --config file; every bundled model with a config to the config layer, on the first
rig that takes it, with CUDA pretended. What is refused is listed with the package's own message.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from launch_space import RIGS, Launch, launches, representatives
from msgspec import Struct

from hardware_db import find_rig
from model_cards.config import Config
from model_cards.sources.bundled import bundled_config
from planner.command.exports import export
from planner.command.render import render_command

RELEASE = "0.32.0"
DRAFTS = "drafts"  # to faked_cuda.py: every class that drafts
SCRIPT = Path(__file__).parent.parent / "tests" / "against_vllm" / "faked_cuda.py"
# Messages about what is not here, not about what is asked of vLLM: code of the model's repository,
# modules and kernels that the build for CPUs does without.
LACKING = (
    "failed to be inspected", "Please install", "No module named", "requires the CUDA",
    "contains custom code", "does not recognize this architecture",
)  # fmt: skip


class Answer(Struct, frozen=True):
    """What vLLM says to one command; None where it accepts."""

    label: str
    parser: str | None
    config: str | None = None
    asked_config: bool = False


def label(launch: Launch) -> str:
    return f"{launch.card.model_id} on {launch.rig}, {launch.speculation}"


def asked_of_parser(
    all_of_them: Iterable[Launch], folder: Path
) -> list[tuple[str, dict[str, Any]]]:
    """Each launch as a command, and those without speculation as a file, too."""
    asked: list[tuple[str, dict[str, Any]]] = []
    for number, launch in enumerate(all_of_them):
        arguments = render_command(launch.memory).arguments
        asked.append((label(launch), {"arguments": arguments}))
        file = folder / f"{number}.yaml"
        file.write_text(export(launch.memory, "yaml"))
        asked.append((f"{label(launch)}, file", {"arguments": ["--config", str(file)]}))
    return asked


def asked_of_config(
    all_of_them: Iterable[Launch], folder: Path
) -> list[tuple[str, dict[str, Any]]]:
    """The first launch of each model on a CUDA rig, with its config in a folder."""
    asked: list[tuple[str, dict[str, Any]]] = []
    seen: set[tuple[str, str]] = set()
    for launch in all_of_them:
        key = launch.card.model_id, launch.speculation
        gpu = find_rig(launch.rig).smallest.gpu
        files = files_of(launch.card.model_id)
        if key in seen or gpu.compute_capability is None or files is None:
            continue
        seen.add(key)
        where = folder / launch.card.model_id.replace("/", "__")
        where.mkdir(exist_ok=True)
        for name, content in files.items():
            (where / name).write_text(json.dumps(content))
        arguments = render_command(launch.memory).arguments
        facts = {
            "name": launch.memory.device.name,
            "capability": list(gpu.compute_capability),
            "bytes": launch.memory.device.total_bytes,
            "count": len(launch.memory.rig.devices),
        }
        nodes = ["--node-rank", "0"] if launch.memory.config.given.nnodes > 1 else []
        words = [str(where), *arguments[1:], *nodes]
        asked.append((label(launch), {"arguments": words, "gpu": facts}))
    return asked


def files_of(model_id: str) -> dict[str, dict[str, Any]] | None:
    """The bundled configs by file name; None where they are none that a checkpoint has."""
    found = bundled_config(model_id)
    if found is None:
        return None
    config, side = found
    if not config.complete or (side is not None and not side.complete):
        return None
    files = {"config.json": plain(config)}
    return files if side is None else {**files, "hf_quant_config.json": plain(side)}


def plain(config: Config) -> dict[str, Any]:
    return {key: unfolded(config.raw(key)) for key in config}


def unfolded(value: Any) -> Any:
    """A part of a config with its layers by format written out: the snapshot has them in groups."""
    if not isinstance(value, dict):
        return value
    found = {key: unfolded(inner) for key, inner in value.items()}
    for group in found.pop("quantized_layers_folded", ()):
        rest = {key: inner for key, inner in group.items() if key != "paths"}
        layers = found.setdefault("quantized_layers", {})
        layers.update(dict.fromkeys(group["paths"], rest))
    return found


def ask(python: str, asked: Sequence[tuple[str, dict[str, Any]]], cache: Path) -> list[Answer]:
    """vLLM's answers, in one process of its own."""
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(cache), "VLLM_CACHE_ROOT": str(cache)}
    lines = "".join(json.dumps(question) + "\n" for _, question in asked)
    run = subprocess.run(
        [python, str(SCRIPT)], input=lines, capture_output=True, text=True, env=environ, check=False
    )
    said = [json.loads(line) for line in run.stdout.splitlines()]
    if len(said) != len(asked):
        raise SystemExit(f"{len(said)} answers to {len(asked)} questions:\n{run.stderr[-3000:]}")
    return [
        Answer(name, answer["parser"], answer.get("config"), "gpu" in question)
        for (name, question), answer in zip(asked, said, strict=True)
    ]


def inspect(python: str, architectures: Iterable[str], cache: Path) -> None:
    """Let vLLM look at its model classes, once; `DRAFTS` stands for all that draft."""
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(cache), "VLLM_CACHE_ROOT": str(cache)}
    names = "".join(f"{name}\n" for name in sorted(set(architectures)))
    subprocess.run(
        [python, str(SCRIPT), "--inspect"], input=names, capture_output=True, text=True,
        env=environ, check=False,
    )  # fmt: skip


def is_lacking(message: str) -> bool:
    """Whether a refusal is about the environment: modules of images, kernels, plugins."""
    return any(words in message for words in LACKING)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("python", help="the interpreter of an environment with vLLM in it")
    parser.add_argument("--rigs", nargs="+", default=list(RIGS))
    parser.add_argument("--models", type=int, help="so many models only")
    given = parser.parse_args()
    cards = representatives()[: given.models]
    all_of_them = list(launches(RELEASE, given.rigs, cards))
    counted = Counter(launch.speculation for launch in all_of_them)
    print(f"{len(all_of_them)} launches of {len(cards)} models: {dict(counted)}", flush=True)
    with TemporaryDirectory() as name:
        folder = Path(name)
        parsed = ask(given.python, asked_of_parser(all_of_them, folder), folder)
        accepted = sum(answer.parser is None for answer in parsed)
        print(f"parser: {accepted}/{len(parsed)} accepted", flush=True)
        for answer in parsed:
            if answer.parser is not None:
                print(f"  {answer.label}: {answer.parser}")
        asked = asked_of_config(all_of_them, folder)
        names = [launch.card.architecture for launch in all_of_them]
        inspect(given.python, [*names, DRAFTS], folder)
        checked = ask(given.python, asked, folder)
    refused = [answer for answer in checked if answer.config is not None]
    lacking = [answer for answer in refused if is_lacking(answer.config or "")]
    built = len(checked) - len(lacking)
    print(f"config layer: {built - len(refused) + len(lacking)}/{built} accepted", flush=True)
    asked_for = {launch.card.model_id for launch in all_of_them}
    whole = sum(files_of(model_id) is not None for model_id in asked_for)
    print(f"  not built here: {len(lacking)} of {len(checked)}; of {len(asked_for)} models "
          f"{len(asked_for) - whole} are bundled without a whole config")  # fmt: skip
    for answer in refused:
        print(f"  {answer.label}: {answer.config}")


if __name__ == "__main__":
    main()
