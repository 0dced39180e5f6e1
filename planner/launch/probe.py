"""What a server that is up says of itself, and how it answers a few requests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event as Flag
from typing import Any, Final

from planner.launch.client import Client, ServerError
from planner.launch.progress import Asking, Observer, check, ignore

_OUTPUT_TOKENS: Final = 32
_PROMPTS: Final = (
    "List three things that a lighthouse keeper writes down every evening, and why.",
    "A train leaves at noon with forty people on board. Tell what happens at each stop.",
    "Explain to a child how bread rises, in a few short sentences.",
    "Describe a market on a rainy morning, from the first stall to the last.",
)


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """The KV cache as `vllm:cache_config_info` has it; None where a release does not."""

    num_blocks: int | None
    block_size: int | None
    tokens: int | None
    max_concurrency: float | None
    dtype: str | None


@dataclass(frozen=True, slots=True)
class Completion:
    """One request that was answered; times in seconds."""

    prompt_tokens: int
    output_tokens: int
    ttft: float
    tpot: float | None  # None for an answer of one token


@dataclass(frozen=True, slots=True)
class Probe:
    """What was asked, and the answers."""

    model: str
    max_model_len: int | None
    cache: CacheConfig | None
    completions: tuple[Completion, ...]

    @property
    def ttft(self) -> float | None:
        """The quickest first token; the first request of all warms the server up."""
        return min((answer.ttft for answer in self.completions[1:]), default=None)

    @property
    def tpot(self) -> float | None:
        """The middle of the times per token."""
        times = sorted(answer.tpot for answer in self.completions[1:] if answer.tpot is not None)
        return times[len(times) // 2] if times else None


def probe(
    client: Client,
    *,
    generates: bool = True,
    observer: Observer = ignore,
    cancel: Flag | None = None,
) -> Probe:
    """Ask a server; requests only if its model writes text.

    Raises `ServerError` where it does not answer as it should: ready does not mean working; and
    `Cancelled` between two requests once `cancel` is set.
    """
    listed = client.json("/v1/models")
    try:
        model = str(listed["data"][0]["id"])
        length = listed["data"][0].get("max_model_len")
    except (LookupError, TypeError, AttributeError):
        raise ServerError("/v1/models: no model is listed") from None
    room = length if isinstance(length, int) else _OUTPUT_TOKENS * 8
    output = max(1, min(_OUTPUT_TOKENS, room // 8))
    prompts = _PROMPTS if generates else ()
    completions = []
    for number, prompt in enumerate(prompts, start=1):
        check(cancel)
        observer(Asking(f"request {number} of {len(prompts)}"))
        completions.append(_complete(client, model, prompt[: room // 2], output))
    cache = cache_config(client.text("/metrics"))
    return Probe(model, length if isinstance(length, int) else None, cache, tuple(completions))


def cache_config(metrics: str) -> CacheConfig | None:
    """The labels of `vllm:cache_config_info` in what `/metrics` answers."""
    from prometheus_client.parser import text_string_to_metric_families

    try:
        families = list(text_string_to_metric_families(metrics))
    except ValueError as error:
        raise ServerError(f"/metrics: {error}") from None
    for family in families:
        for sample in family.samples:
            if sample.name == "vllm:cache_config_info":
                labels = sample.labels
                size = labels.get("block_size")
                return CacheConfig(
                    _whole(labels.get("num_gpu_blocks")),
                    _whole(size),
                    _whole(labels.get("kv_cache_size_tokens")),
                    _number(labels.get("kv_cache_max_concurrency")),
                    labels.get("cache_dtype"),
                )
    return None


def _complete(client: Client, model: str, prompt: str, output: int) -> Completion:
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
    usage: dict[str, Any] = {}
    for event in _checked(client.events("/v1/completions", body)):
        if event.get("choices"):
            last = time.perf_counter()
            first = last if first is None else first
        usage = event.get("usage") or usage
    if first is None or last is None:
        raise ServerError("/v1/completions: an answer without a token")
    tokens = int(usage.get("completion_tokens", output))
    tpot = (last - first) / (tokens - 1) if tokens > 1 else None
    return Completion(int(usage.get("prompt_tokens", 0)), tokens, first - began, tpot)


def _checked(events: Iterator[Any]) -> Iterator[dict[str, Any]]:
    for event in events:
        if not isinstance(event, dict) or "error" in event:
            raise ServerError(f"/v1/completions: {str(event)[:300]}")
        yield event


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:  # "None"
        return None


def _whole(text: str | None) -> int | None:
    number = _number(text)
    return int(number) if number is not None else None
