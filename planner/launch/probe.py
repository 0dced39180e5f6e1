"""What a server that is up says of itself, and how it answers requests."""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import inf
from threading import Event as Flag
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from planner.launch.client import Client, ServerError
from planner.launch.load import LevelResult, prompts
from planner.launch.metrics import CacheConfig, Speculation, read_metrics, server_settings
from planner.launch.progress import Asking, Observer, check, ignore
from planner.launch.request import Completion, complete

_OUTPUT_TOKENS: Final = 32
_FIRST_REQUESTS: Final = 4
_FEWEST: Final = 2


class Probe(Struct, frozen=True):
    """What was asked, and the answers. `settings` are those that the server resolved, if it tells.

    `levels` and `speculation` are of the load that follows the first requests.
    """

    model: str
    max_model_len: int | None
    cache: CacheConfig | None
    completions: tuple[Completion, ...]
    settings: Mapping[str, Any] | None = None
    levels: tuple[LevelResult, ...] = ()
    speculation: Speculation | None = None
    seconds: float | None = None  # that this took
    load_seconds: float | None = None  # and the load

    @property
    def ttft(self) -> float | None:
        """The quickest first token; the first request of all warms the server up."""
        return min((answer.ttft for answer in self.completions[1:]), default=None)

    @property
    def tpot(self) -> float | None:
        """The middle of the times per token."""
        times = sorted(answer.tpot for answer in self.completions[1:] if answer.tpot is not None)
        return times[len(times) // 2] if times else None

    def with_load(self, results: tuple[LevelResult, ...], client: Client, seconds: float) -> Probe:
        """The same after a load; the counters of speculation are read again. `ServerError`."""
        told = read_metrics(client).speculation
        return replace(self, levels=results, speculation=told, load_seconds=seconds)


def probe(
    client: Client,
    *,
    generates: bool = True,
    patience: float = inf,
    observer: Observer = ignore,
    cancel: Flag | None = None,
) -> Probe:
    """Ask a server; requests only if its model writes text.

    After `patience` seconds of them two are enough: the first warms the server up. Raises
    `ServerError` where it does not answer as it should: ready does not mean working; and
    `Cancelled` between two requests once `cancel` is set.
    """
    began = time.monotonic()
    listed = client.json("/v1/models")
    try:
        model = str(listed["data"][0]["id"])
        length = listed["data"][0].get("max_model_len")
    except (LookupError, TypeError, AttributeError):
        raise ServerError("/v1/models: no model is listed") from None
    room = length if isinstance(length, int) else _OUTPUT_TOKENS * 8
    output = max(1, min(_OUTPUT_TOKENS, room // 8))
    asked = prompts()[:_FIRST_REQUESTS] if generates else ()
    completions: list[Completion] = []
    for number, prompt in enumerate(asked, start=1):
        check(cancel)
        if len(completions) >= _FEWEST and time.monotonic() - began > patience:
            break
        observer(Asking(f"request {number} of {len(asked)}"))
        completions.append(complete(client, model, prompt[: room // 2], output))
    metrics = read_metrics(client)
    return Probe(
        model,
        length if isinstance(length, int) else None,
        metrics.cache,
        tuple(completions),
        server_settings(client),
        speculation=metrics.speculation,
        seconds=time.monotonic() - began,
    )
