"""Settings: everything that the knobs hold, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from planner.engine_config import EngineConfig
from planner.workload import Workload, use_case_workload

# Variables that change a plan; others of a pasted command may be secrets, and are not kept.
PLANNED_VARIABLES: Final = ("VLLM_CPU_KVCACHE_SPACE",)


@dataclass(frozen=True, slots=True)
class Settings:
    """A launch as it is turned: the hardware, the model, the release, vLLM's settings, the load.

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
    def draft(self) -> str | None:
        """The model that drafts, where it is one of its own."""
        speculative = self.config.speculative_config
        return speculative.model if speculative is not None else None

    def with_engine(self, **changes: Any) -> Settings:
        """The same with other settings of vLLM's; `PlanError` for values it does not take."""
        return replace(self, config=replace(self.config, **changes))
