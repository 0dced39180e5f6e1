"""Sending a load: through `vllm bench serve` where that is to be had, else by ourselves."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event as Flag
from typing import Final

from msgspec import Struct

from planner.launch import bench_runner
from planner.launch.client import Client, ServerError
from planner.launch.load import Level, LevelResult, parse_bench, prompts, prompts_file, summed_up
from planner.launch.process import Launch, Watched
from planner.launch.progress import Asking, Observer, check
from planner.launch.request import Completion, complete

_IMPORT_SECONDS: Final = 90.0  # until vLLM's program sends anything
_POLL: Final = 0.2
_FIRST_ID: Final = 16  # token ids below it are often special


class Load(Struct, frozen=True):
    """A load to send, and to whom. `real_text`: prompts that a draft can guess something of."""

    client: Client
    model: str  # as the server calls it
    tokenizer: str  # a folder or a Hub id
    levels: tuple[Level, ...]
    vocabulary: int
    real_text: bool = False
    seed: int = 0


def send(
    load: Load,
    python: Sequence[str] | None,
    folder: Path,
    *,
    seconds: float,
    observer: Observer,
    cancel: Flag | None,
) -> tuple[LevelResult, ...]:
    """Send a load; results of the levels that came to an end in the time.

    `python` are the words that start vLLM's interpreter, None where there is none here. Raises
    `ServerError` if the server fails, `Cancelled`.
    """
    results: tuple[LevelResult, ...] = ()
    if python is not None:
        results = _with_bench(load, python, folder, seconds, observer, cancel)
    if not results:
        until = time.monotonic() + seconds
        results = _by_ourselves(load, until, observer, cancel)
    return results


def _with_bench(
    load: Load,
    python: Sequence[str],
    folder: Path,
    seconds: float,
    observer: Observer,
    cancel: Flag | None,
) -> tuple[LevelResult, ...]:
    files = [folder / f"bench-{number}.json" for number in range(len(load.levels))]
    runs = [_arguments(load, level, file) for level, file in zip(load.levels, files, strict=True)]
    argv = (*python, bench_runner.__file__, json.dumps(runs))
    launch = Launch(argv, _environment(load.client, os.environ), folder / "bench.log")
    results: list[LevelResult] = []
    observer(Asking("vllm bench serve starts"))
    with Watched(launch) as program:
        while len(results) < len(files):
            check(cancel)
            over = program.exit_status is not None  # asked first: the last file is there by then
            level, file = load.levels[len(results)], files[len(results)]
            result = parse_bench(_text(file), level) if file.exists() else None
            if result is not None:
                results.append(result)
                observer(Asking(f"{_words(level)}: {result.output_rate:.0f} tok/s"))
                continue
            if over or program.seconds > seconds + _IMPORT_SECONDS:
                break
            time.sleep(_POLL)
    return tuple(results)


def _arguments(load: Load, level: Level, file: Path) -> list[str]:
    words = [
        "--backend", "openai", "--base-url", load.client.url, "--model", load.model,
        "--tokenizer", load.tokenizer, "--num-prompts", str(level.requests),
        "--max-concurrency", str(level.concurrency), "--ignore-eos", "--disable-tqdm",
        "--seed", str(load.seed), "--save-result", "--result-dir", str(file.parent),
        "--result-filename", file.name,
    ]  # fmt: skip
    if load.real_text:
        return [
            *words, "--dataset-name", "custom", "--dataset-path", str(prompts_file()),
            "--custom-output-len", str(level.output_tokens), "--skip-chat-template",
        ]  # fmt: skip
    return [
        *words, "--dataset-name", "random", "--random-input-len", str(level.prompt_tokens),
        "--random-output-len", str(level.output_tokens),
    ]  # fmt: skip


def _environment(client: Client, ours: Mapping[str, str]) -> dict[str, str]:
    """It reads the key from here, and must not look for a proxy to ourselves."""
    quiet = {"OPENAI_API_KEY": client.api_key, "NO_PROXY": "*", "no_proxy": "*"}
    return {**ours, **quiet, "VLLM_NO_USAGE_STATS": "1"}


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, ValueError):
        return ""


def _by_ourselves(
    load: Load, until: float, observer: Observer, cancel: Flag | None
) -> tuple[LevelResult, ...]:
    results = []
    for level in load.levels:
        observer(Asking(_words(level)))
        result = _level(load, level, until, cancel)
        if result is not None:
            results.append(result)
    return tuple(results)


def _level(load: Load, level: Level, until: float, cancel: Flag | None) -> LevelResult | None:
    """As many threads as requests at once; one that fails ends the level."""
    errors: list[ServerError] = []

    def ask(number: int) -> Completion | None:
        if errors or time.monotonic() > until or (cancel is not None and cancel.is_set()):
            return None
        try:
            prompt = _prompt(load, level, number)
            return complete(load.client, load.model, prompt, level.output_tokens)
        except ServerError as error:
            errors.append(error)
            return None

    began = time.monotonic()
    with ThreadPoolExecutor(level.concurrency) as threads:
        asked = threads.map(ask, range(level.requests))
        answers = [answer for answer in asked if answer is not None]
    check(cancel)
    if errors:
        raise errors[0]
    return summed_up(level, answers, level.requests - len(answers), time.monotonic() - began)


def _prompt(load: Load, level: Level, number: int) -> str | list[int]:
    if load.real_text:
        return prompts()[number % len(prompts())]
    draw = random.Random(f"{load.seed}-{level.concurrency}-{number}")
    last = max(_FIRST_ID + 1, load.vocabulary - 1)
    return [draw.randrange(_FIRST_ID, last) for _ in range(level.prompt_tokens)]


def _words(level: Level) -> str:
    at_once = f", {level.concurrency} at once" if level.concurrency > 1 else ", one at a time"
    return (
        f"{level.requests} requests of {level.prompt_tokens} + {level.output_tokens} tokens"
        f"{at_once}"
    )
