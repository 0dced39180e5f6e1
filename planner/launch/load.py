"""What is sent to a server to see how fast it is: levels of concurrency, and what each came to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from planner.launch.request import Completion
from planner.workload import Workload

_LEVEL_SECONDS: Final = 15.0  # that a level may take, as far as one can tell before
_PART: Final = 0.25  # of it, for the prompt of one request, or for its answer
_FEWEST: Final = 2  # requests for each of those that run at once, where there is time
_MOST: Final = 64
_SHORTEST: Final = 16  # tokens, or there is no time per token to speak of
_SLOWER: Final = 1.5  # a guess: how much longer a request takes among others


class Level(Struct, frozen=True):
    """Requests of one size, so many of them at once."""

    concurrency: int
    requests: int
    prompt_tokens: int
    output_tokens: int

    @property
    def workload(self) -> Workload:
        """The same as what a plan is asked for."""
        return Workload(self.prompt_tokens, self.output_tokens, self.concurrency)


class LevelResult(Struct, frozen=True):
    """What a level came to. Times in seconds, over all requests; rate in tokens per second."""

    level: Level
    completed: int
    failed: int
    mean_ttft: float
    median_ttft: float
    mean_tpot: float | None
    median_tpot: float | None
    output_rate: float
    by: str  # what sent the requests
    seconds: float = 0.0  # from the first request to the last answer


def levels(
    workload: Workload, longest: int, seen: Sequence[Completion], requests: int | None
) -> tuple[Level, ...]:
    """One request at a time, and as many as the workload has, of its lengths.

    `longest` is the server's context. Lengths shrink where a level would take too long by what the
    requests that were `seen` took; `requests` sets their number instead, for each level.
    """
    output = min(workload.output_tokens, longest // 2)
    prompt = max(1, min(workload.prompt_tokens, longest - output - 1))
    reading, writing = _paces(seen)
    if requests is None:  # at least one request in the time, if need be a shorter one
        output, prompt = _within(output, writing), _within(prompt, reading)
    found = []
    for concurrency in dict.fromkeys((1, workload.concurrency)):
        slower = _SLOWER if concurrency > 1 else 1.0  # prompts are read one after the other
        each = concurrency * prompt * reading + output * writing * slower
        fewest = _FEWEST if each < _LEVEL_SECONDS / _FEWEST else 1
        rounds = int(_LEVEL_SECONDS / max(each, 1e-3))
        number = max(min(rounds * concurrency, _MOST), fewest * concurrency)
        found.append(Level(concurrency, requests or number, prompt, output))
    return tuple(found)


def _paces(seen: Sequence[Completion]) -> tuple[float, float]:
    """Seconds for a token of a prompt, and of an answer; the first request warms the server up."""
    writing = max((each.tpot for each in seen[1:] if each.tpot is not None), default=0.0)
    reading = min(
        ((each.ttft - writing) / each.prompt_tokens for each in seen[1:] if each.prompt_tokens),
        default=0.0,
    )
    return max(0.0, reading), writing


def _within(tokens: int, pace: float) -> int:
    """As many as a part of the time is enough for, but some."""
    most = int(_LEVEL_SECONDS * _PART / pace) if pace else tokens
    return max(min(tokens, _SHORTEST), min(tokens, most))


def parse_bench(text: str, level: Level) -> LevelResult | None:
    """The result file of `vllm bench serve`; None if it is none, or no request was answered."""
    try:
        told = json.loads(text)
        completed = int(told["completed"])
        if completed < 1:
            return None
        sized = replace(
            level,
            prompt_tokens=round(told["total_input_tokens"] / completed),
            output_tokens=max(1, round(told["total_output_tokens"] / completed)),
        )
        return LevelResult(
            sized,
            completed,
            int(told.get("failed", 0)),
            told["mean_ttft_ms"] / 1000,
            told["median_ttft_ms"] / 1000,
            told["mean_tpot_ms"] / 1000 or None,
            told["median_tpot_ms"] / 1000 or None,
            float(told["output_throughput"]),
            "vllm bench serve",
            float(told["duration"]),
        )
    except (ValueError, LookupError, TypeError, OverflowError):
        return None


def summed_up(
    level: Level, answers: Sequence[Completion], failed: int, seconds: float
) -> LevelResult | None:
    """The result of requests of our own; None if none was answered."""
    if not answers:
        return None
    times = [answer.tpot for answer in answers if answer.tpot is not None]
    first = [answer.ttft for answer in answers]
    sized = replace(
        level,
        prompt_tokens=max(1, round(fmean(answer.prompt_tokens for answer in answers))),
        output_tokens=max(1, round(fmean(answer.output_tokens for answer in answers))),
    )
    return LevelResult(
        sized,
        len(answers),
        failed,
        fmean(first),
        median(first),
        fmean(times) if times else None,
        median(times) if times else None,
        sum(answer.output_tokens for answer in answers) / seconds,
        "requests of vplan's own",
        seconds,
    )


def prompts_file() -> Path:
    """Real text, one JSON object a line, as `vllm bench serve --dataset-name custom` reads it."""
    return Path(__file__).parent / "data" / "prompts.jsonl"


@cache
def prompts() -> tuple[str, ...]:
    """Its prompts."""
    lines = prompts_file().read_text("utf-8").splitlines()
    return tuple(json.loads(line)["prompt"] for line in lines)
