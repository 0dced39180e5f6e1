"""Settings: a launch and its load, as a plan file holds them and the TUI's knobs turn them."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from planner.engine_config import AUTO_LENGTH, EngineConfig
from planner.workload import Workload, use_case_workload

# Variables that change a plan; others of a pasted command may be secrets, and are not kept.
PLANNED_VARIABLES: Final = (
    "VLLM_CPU_KVCACHE_SPACE",
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
    "VLLM_USE_FLASHINFER_SAMPLER",
    "VLLM_USE_V2_MODEL_RUNNER",
)


class Settings(Struct, frozen=True):
    """The hardware, the model, the release, vLLM's settings and the load, all by name.

    `config` may hold more than there are knobs for: what a pasted command asked for is kept.
    """

    gpu: str
    model: str
    vllm: str
    config: EngineConfig = field(default_factory=EngineConfig)
    use_case: str = "chat"
    concurrency: int = 1
    environ: tuple[tuple[str, str], ...] = ()

    @property
    def workload(self) -> Workload:
        """What the server is asked to do; `PlanError` for what no server can."""
        return use_case_workload(self.use_case, self.concurrency)

    @property
    def context(self) -> int | None:
        """The context that is asked for; None where it is left to the model or to the cache."""
        length = self.config.max_model_len
        return None if length == AUTO_LENGTH else length

    @property
    def draft(self) -> str | None:
        """The model that drafts, where it is one of its own."""
        speculative = self.config.speculative_config
        return speculative.model if speculative is not None else None

    def with_engine(self, **changes: Any) -> Settings:
        """The same with other settings of vLLM's; `PlanError` for values it does not take."""
        return replace(self, config=replace(self.config, **changes))
