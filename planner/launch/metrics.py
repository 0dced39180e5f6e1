"""What a server tells of itself without being asked to write: /metrics and /server_info."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from planner.launch.client import Client, ServerError

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

_DRAFTS = "vllm:spec_decode_num_drafts_total"
_DRAFTED = "vllm:spec_decode_num_draft_tokens_total"
_ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
_MOST: Final = 1e18


class CacheConfig(Struct, frozen=True):
    """The KV cache as `vllm:cache_config_info` has it; None where a release does not.

    `labels` is all of it, as text.
    """

    num_blocks: int | None
    block_size: int | None
    tokens: int | None
    max_concurrency: float | None
    dtype: str | None
    labels: Mapping[str, str]


class Speculation(Struct, frozen=True):
    """Counters of speculative decoding, and of each position of a draft."""

    drafts: int
    draft_tokens: int
    accepted: int
    per_position: tuple[int, ...] = ()

    @property
    def acceptance_length(self) -> float | None:
        """Tokens of a step, with the bonus token; None before the first draft."""
        return 1 + self.accepted / self.drafts if self.drafts else None

    @property
    def acceptance_rates(self) -> tuple[float, ...]:
        """Of each position, among all drafts."""
        return tuple(count / self.drafts for count in self.per_position) if self.drafts else ()

    def since(self, before: Speculation) -> Speculation:
        """What came after an earlier reading."""
        earlier = (*before.per_position, *[0] * len(self.per_position))
        return Speculation(
            self.drafts - before.drafts,
            self.draft_tokens - before.draft_tokens,
            self.accepted - before.accepted,
            tuple(now - then for now, then in zip(self.per_position, earlier, strict=False)),
        )


class Metrics(Struct, frozen=True):
    """One reading of /metrics."""

    cache: CacheConfig | None
    speculation: Speculation | None  # None without speculative decoding


def read_metrics(client: Client) -> Metrics:
    """Ask a server. Raises `ServerError`."""
    return parse_metrics(client.text("/metrics"))


def parse_metrics(text: str) -> Metrics:
    """What `/metrics` answers; engines of one server are added up. Raises `ServerError`."""
    from prometheus_client.parser import text_string_to_metric_families

    try:
        families = list(text_string_to_metric_families(text))
    except ValueError as error:
        raise ServerError(f"/metrics: {error}") from None
    cache: CacheConfig | None = None
    counts: dict[str, int] = {}

    def counted(sample: Sample) -> int:
        number = _whole(sample.value)
        if number is None:
            raise ServerError(f"/metrics: {sample.name} is {sample.value:g}")
        return number

    positions: dict[int, int] = {}
    for family in families:
        for sample in family.samples:
            if sample.name == "vllm:cache_config_info":
                cache = cache or _cache_config(sample.labels)
            elif sample.name in (_DRAFTS, _DRAFTED, _ACCEPTED):
                counts[sample.name] = counts.get(sample.name, 0) + counted(sample)
            elif sample.name == _PER_POSITION:
                position = _whole(_number(sample.labels.get("position")))
                if position is not None:
                    positions[position] = positions.get(position, 0) + counted(sample)
    if _DRAFTS not in counts:
        return Metrics(cache, None)
    per_position = tuple(positions[position] for position in sorted(positions))
    drafted, accepted = counts.get(_DRAFTED, 0), counts.get(_ACCEPTED, 0)
    return Metrics(cache, Speculation(counts[_DRAFTS], drafted, accepted, per_position))


def server_settings(client: Client) -> dict[str, Any] | None:
    """The settings that a server resolved, by part; None where it does not tell (/server_info is
    there in development mode alone)."""
    try:
        told = client.json("/server_info?config_format=json")
        settings = told["vllm_config"]
    except (ServerError, LookupError, TypeError):
        return None
    return settings if isinstance(settings, dict) else None


def _cache_config(labels: Mapping[str, str]) -> CacheConfig:
    return CacheConfig(
        _whole(_number(labels.get("num_gpu_blocks"))),
        _whole(_number(labels.get("block_size"))),
        _whole(_number(labels.get("kv_cache_size_tokens"))),
        _number(labels.get("kv_cache_max_concurrency")),
        labels.get("cache_dtype"),
        dict(labels),
    )


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else None
    except ValueError:  # "None"
        return None
    return number if number is not None and isfinite(number) else None


def _whole(number: float | None) -> int | None:
    """A count; None for what nothing counts to."""
    return int(number) if number is not None and 0 <= number < _MOST else None
