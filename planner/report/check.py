"""What `vplan check --json` prints."""

from __future__ import annotations

from typing import Any, Literal

from msgspec.structs import asdict
from pydantic import Field

from planner.diagnosis.check import Check
from planner.diagnosis.fix import Fixed
from planner.diagnosis.together import Together
from planner.memory.plan import MemoryPlan
from planner.report.base import QuantityReport, StrictModel
from planner.report.findings import FindingReport, RemedyReport
from planner.report.hardware import RigReport
from planner.report.memory import MemoryReport
from planner.report.models import ModelReport
from planner.report.speed import ServingReport
from planner.speed.capacity import Serving


class NeighbourReport(StrictModel):
    """A command that runs on the same GPUs."""

    model: str
    answer: Literal["yes", "risky", "no"]
    held_bytes: QuantityReport | None = Field(description="of each GPU")
    working_share: float | None = Field(
        description="a gpu_memory_utilization with which all start, where they do not"
    )


class ChangeReport(StrictModel):
    """What a corrected command has otherwise."""

    what: str
    why: str


class FixReport(StrictModel):
    """`--fix`: the corrected command, which the rest of the report is about."""

    command: list[str]
    changes: list[ChangeReport]

    @classmethod
    def of(cls, fixed: Fixed) -> FixReport:
        """From the library's."""
        changes = [ChangeReport(what=each.what, why=each.why) for each in fixed.changes]
        return cls(command=fixed.command.argv, changes=changes)


class CheckReport(StrictModel):
    """`vplan check --json`."""

    schema_version: Literal[1] = 1
    kind: Literal["check"] = "check"
    vllm: str
    rig: RigReport
    model: ModelReport
    answer: Literal["yes", "risky", "no"]
    chance_of_refusal: float
    findings: list[FindingReport]
    settings: dict[str, Any] = Field(description="settings given, and those that vLLM resolves")
    memory: MemoryReport | None
    remedies: list[RemedyReport]
    beside: list[NeighbourReport] = Field(
        default=[], description="what is started before, in that order"
    )
    working_share: float | None = Field(
        default=None, description="the command's own gpu_memory_utilization with which all start"
    )
    fixed: FixReport | None = Field(default=None, description="with --fix")
    serving: ServingReport | None = Field(
        default=None, description="its speed; null where it does not start or none is known"
    )

    @classmethod
    def of(
        cls, check: Check, fixed: Fixed | None = None, serving: Serving | None = None
    ) -> CheckReport:
        """From the library's."""
        return cls(
            vllm=check.command.release.name,
            rig=RigReport.of(check.rig),
            model=ModelReport.of(check.card),
            answer=check.answer.value,
            chance_of_refusal=check.chance_of_refusal,
            findings=[FindingReport.of(finding) for finding in check.findings],
            settings=_settings(check),
            memory=MemoryReport.of(check.memory) if check.memory is not None else None,
            remedies=[RemedyReport.of(remedy) for remedy in check.remedies],
            fixed=FixReport.of(fixed) if fixed is not None else None,
            serving=ServingReport.of(serving) if serving is not None else None,
        )

    @classmethod
    def beside_others(cls, together: Together) -> CheckReport:
        """Of a command that others on the same GPUs were started before."""
        shares = together.shares or (None,) * (len(together.neighbours) + 1)
        reports = [
            NeighbourReport(
                model=neighbour.check.card.model_id,
                answer=neighbour.check.answer.value,
                held_bytes=QuantityReport.of(neighbour.held) if neighbour.held else None,
                working_share=share,
            )
            for neighbour, share in zip(together.neighbours, shares, strict=False)
        ]
        alone = cls.of(together.check)
        return alone.model_copy(update={"beside": reports, "working_share": shares[-1]})


def _settings(check: Check) -> dict[str, Any]:
    """What was given, and vLLM's choice where nothing was."""
    plain = {
        name: value if isinstance(value, str | int | float | bool) else asdict(value)
        for name, value in check.config.departures().items()
    }
    return plain | (_resolved(check.memory) if check.memory is not None else {})


def _resolved(memory: MemoryPlan) -> dict[str, Any]:
    config = memory.config
    return {
        "dtype": config.dtype,
        "max_model_len": config.max_model_len,
        "max_num_seqs": config.max_num_seqs,
        "max_num_batched_tokens": config.max_num_batched_tokens,
        "gpu_memory_utilization": config.gpu_memory_utilization,
        "kv_cache_dtype": config.kv_cache_dtype,
        "enable_prefix_caching": config.prefix_caching,
        "async_scheduling": config.async_scheduling,
        "cudagraph_capture_sizes": list(config.cudagraph_sizes),
    }
