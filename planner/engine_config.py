"""EngineConfig: what the user (or a recommendation) tells vLLM, by vLLM's own flag names."""

from __future__ import annotations

from functools import cache
from math import isfinite
from typing import Any, Final, get_type_hints

from msgspec import Struct, ValidationError, convert
from msgspec.structs import asdict, force_setattr

from model_cards.config import shorten
from planner.errors import PlanError

AUTO_LENGTH: Final = -1  # `--max-model-len auto`: as long as the cache allows
RUNNERS: Final = ("auto", "generate", "pooling")
CONVERSIONS: Final = ("auto", "none", "embed", "classify")


class SpeculativeConfig(Struct, frozen=True):
    """`--speculative-config`: the method, tokens drafted each step, and the draft's model if any.

    `num_speculative_tokens_per_batch_size` holds (fewest requests, most requests, tokens). Raises
    `PlanError` for values that no vLLM accepts.
    """

    method: str
    num_speculative_tokens: int
    model: str | None = None
    draft_tensor_parallel_size: int | None = None
    parallel_drafting: bool | None = None
    num_speculative_tokens_per_batch_size: tuple[tuple[int, int, int], ...] | None = None

    def __post_init__(self) -> None:
        if self.num_speculative_tokens < 1:
            raise PlanError(
                f"num_speculative_tokens must be at least 1; {self.num_speculative_tokens} was "
                "asked for"
            )
        if self.num_speculative_tokens_per_batch_size is not None:
            ranges = _batch_ranges(self.num_speculative_tokens_per_batch_size)
            force_setattr(self, "num_speculative_tokens_per_batch_size", ranges)

    def settings(self) -> dict[str, Any]:
        """What `--speculative-config` takes: the keys that are given."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def _batch_ranges(given: Any) -> tuple[tuple[int, int, int], ...]:
    """Drafted tokens by batch size, as v1/spec_decode/dynamic/utils.py takes them."""
    what = "num_speculative_tokens_per_batch_size"
    try:
        ranges = sorted((int(low), int(high), int(tokens)) for low, high, tokens in given)
    except (TypeError, ValueError):
        raise PlanError(f"{what} must be a list of [fewest, most, tokens], not {given!r}") from None
    if not ranges or ranges[0][0] != 1:
        raise PlanError(f"{what} must begin with a batch of 1")
    for index, (low, high, tokens) in enumerate(ranges):
        if high < low or tokens < 0 or (index and low <= ranges[index - 1][1]):
            raise PlanError(f"{what}: [{low}, {high}, {tokens}] is no range of its own")
    return tuple(ranges)


class EplbConfig(Struct, frozen=True):
    """`--eplb-config`: copies of experts in every layer, and the steps whose loads are kept.

    Raises `PlanError` for values that no vLLM accepts.
    """

    num_redundant_experts: int = 0
    window_size: int = 1000

    def __post_init__(self) -> None:
        if self.num_redundant_experts < 0:
            raise PlanError("num_redundant_experts cannot be negative")
        if self.window_size < 1:
            raise PlanError(f"window_size must be at least 1; {self.window_size} was asked for")


class EngineConfig(Struct, frozen=True):
    """Engine settings; None (or "auto") leaves the choice to vLLM, as an absent flag does.

    Raises `PlanError` for values that no vLLM accepts.
    """

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    data_parallel_size_local: int | None = None  # replicas of the machine; 0: only an API server
    data_parallel_backend: str | None = None
    nnodes: int = 1
    distributed_executor_backend: str | None = None
    decode_context_parallel_size: int = 1
    enable_expert_parallel: bool = False
    enable_eplb: bool = False
    eplb_config: EplbConfig | None = None
    runner: str = "auto"
    convert: str = "auto"
    dtype: str = "auto"
    quantization: str | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_memory_bytes: int | None = None
    kv_cache_dtype: str = "auto"
    block_size: int | None = None
    num_gpu_blocks_override: int | None = None
    enable_prefix_caching: bool | None = None
    enable_chunked_prefill: bool | None = None
    async_scheduling: bool | None = None
    cpu_offload_gb: float = 0.0  # GiB
    offload_group_size: int = 0
    offload_num_in_group: int = 1
    offload_prefetch_step: int = 1
    enforce_eager: bool = False
    disable_hybrid_kv_cache_manager: bool = False
    language_model_only: bool = False
    mm_encoder_tp_mode: str = "weights"
    speculative_config: SpeculativeConfig | None = None
    enable_lora: bool = False
    max_loras: int | None = None
    max_lora_rank: int | None = None
    fully_sharded_loras: bool = False
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        for name in whole_numbers():
            value = getattr(self, name)
            if value is None or value >= 1 or (name == "max_model_len" and value == AUTO_LENGTH):
                continue
            if name in ("offload_group_size", "data_parallel_size_local") and value == 0:
                continue
            raise PlanError(f"{name} must be at least 1; {value} was asked for")
        for name, allowed in (("runner", RUNNERS), ("convert", CONVERSIONS)):
            if getattr(self, name) not in allowed:
                raise PlanError(
                    f"{name} must be one of {', '.join(allowed)}; {getattr(self, name)!r} was "
                    "asked for"
                )
        local = self.data_parallel_size_local
        if local is not None and local > self.data_parallel_size:
            raise PlanError(
                f"data_parallel_size_local ({local}) is more than data_parallel_size "
                f"({self.data_parallel_size})"
            )
        if self.cpu_offload_gb < 0:
            raise PlanError(
                f"cpu_offload_gb cannot be negative; {self.cpu_offload_gb} was asked for"
            )
        if 0 < self.offload_group_size < self.offload_num_in_group:
            raise PlanError(
                f"offload_num_in_group ({self.offload_num_in_group}) is more than "
                f"offload_group_size ({self.offload_group_size})"
            )
        utilization = self.gpu_memory_utilization
        if utilization is not None and not 0 < utilization <= 1:
            raise PlanError(
                f"gpu_memory_utilization must lie in (0, 1]; {utilization} was asked for"
            )

    @property
    def world_size(self) -> int:
        """GPUs of one replica: tensor times pipeline parallelism."""
        return self.tensor_parallel_size * self.pipeline_parallel_size

    def departures(self) -> dict[str, Any]:
        """The settings that differ from vLLM's own defaults."""
        usual = _usual()
        return {
            name: value for name, value in asdict(self).items() if value != getattr(usual, name)
        }


@cache
def _usual() -> EngineConfig:
    return EngineConfig()


@cache
def setting_types() -> dict[str, Any]:
    """The type of every setting."""
    return get_type_hints(EngineConfig)


def as_type(kind: Any, name: str, value: Any) -> Any:
    """A value that others wrote, lists as tuples and objects as the types of this module.

    Raises `PlanError` that names it if it is of another type, or a number without an end.
    """
    try:
        found = convert(value, kind)
    except (ValidationError, RecursionError):
        raise PlanError(f"{name} cannot be {shorten(value)}") from None
    if isinstance(found, float) and not isfinite(found):
        raise PlanError(f"{name} cannot be {found}")
    return found


@cache
def whole_numbers() -> tuple[str, ...]:
    """Settings that are whole numbers."""
    kinds = EngineConfig.__annotations__
    return tuple(name for name, kind in kinds.items() if kind.startswith("int"))
