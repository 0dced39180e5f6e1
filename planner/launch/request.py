"""One request to a server, and how long it took."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from planner.launch.client import Client, ServerError

_MOST_TOKENS: Final = 2**31 - 1  # vLLM counts them in int32
# Without a word of an answer: the first request of all may have kernels compiled.
_ANSWER_SECONDS: Final = 120.0


class Completion(Struct, frozen=True):
    """One request that was answered; times in seconds."""

    prompt_tokens: int
    output_tokens: int
    ttft: float
    tpot: float | None  # None for an answer of one token


def complete(client: Client, model: str, prompt: str | Sequence[int], output: int) -> Completion:
    """Ask for `output` tokens after a prompt, a text or token ids. Raises `ServerError`."""
    body = {
        "model": model,
        "prompt": prompt,
        "max_tokens": output,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    began = time.perf_counter()
    first = last = None
    usage: Any = {}
    patient = client.patient(_ANSWER_SECONDS)
    for event in _checked(patient.events("/v1/completions", body)):
        if event.get("choices"):
            last = time.perf_counter()
            first = last if first is None else first
        usage = event.get("usage") or usage
    if first is None or last is None:
        raise ServerError("/v1/completions: an answer without a token")
    tokens = _counted(usage, "completion_tokens", output)
    tpot = (last - first) / (tokens - 1) if tokens > 1 else None
    return Completion(_counted(usage, "prompt_tokens", 0), tokens, first - began, tpot)


def _counted(usage: Any, name: str, default: int) -> int:
    """A count of tokens; the default where the server gives none."""
    told = usage.get(name) if isinstance(usage, dict) else None
    count = told if told is not None else default
    if type(count) is not int or not 0 <= count <= _MOST_TOKENS:
        raise ServerError(f"/v1/completions: {name} is {str(count)[:30]}")
    return count


def _checked(events: Iterator[Any]) -> Iterator[dict[str, Any]]:
    for event in events:
        if not isinstance(event, dict) or "error" in event:
            raise ServerError(f"/v1/completions: {str(event)[:300]}")
        yield event
