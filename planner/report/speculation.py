"""What `vplan speculate --json` prints."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from planner.command.render import render_command
from planner.recommendation.requirements import Requirements
from planner.report.base import QuantityReport, StrictModel
from planner.report.hardware import RigReport
from planner.report.models import ModelReport
from planner.report.workload import WorkloadReport
from planner.speed.speculation_choice import SpeculationChoice
from planner.speed.speculative_option import SpeculativeOption


class SpeculationAdvice(StrictModel):
    """Whether speculative decoding would pay for a plan; `vplan speculate` compares all methods."""

    pays: bool
    reason: str
    method: str | None
    speculative_config: dict[str, Any] | None
    speedup: QuantityReport | None
    break_even_batch: int | None = Field(description="the largest that is no slower with it")

    @classmethod
    def of(cls, choice: SpeculationChoice) -> SpeculationAdvice:
        """From the library's choice."""
        chosen = choice.chosen
        gain = chosen.gain if chosen is not None else None
        return cls(
            pays=chosen is not None,
            reason=choice.reason,
            method=chosen.kind if chosen is not None else None,
            speculative_config=chosen.config.settings() if chosen is not None else None,
            speedup=QuantityReport.of(gain) if gain is not None else None,
            break_even_batch=chosen.break_even if chosen is not None else None,
        )


class GainReport(StrictModel):
    """A speed-up at a batch, with the best number of drafted tokens there."""

    batch: int
    num_speculative_tokens: int
    speedup: QuantityReport


class MethodReport(StrictModel):
    """A speculative method for the target."""

    method: str = Field(description="eagle, eagle3, peagle, dflash, dspark, mtp, pard, ...")
    model: str | None
    draft_card: Literal["exact", "estimated"]
    speculative_config: dict[str, Any]
    draft_bytes: int = Field(description="weights on each GPU of the last pipeline stage")
    kv_tokens: QuantityReport | None
    first_token_acceptance: QuantityReport
    acceptance_length: QuantityReport = Field(
        description="tokens a step emits, the target's own included"
    )
    acceptance_source: str
    synthetic_acceptance_rates: list[float] = Field(
        description="survival of each position, as vLLM's rejection_sample_method synthetic takes"
    )
    speedup: QuantityReport | None = Field(description="under the workload")
    speedups: list[GainReport]
    break_even_batch: int = Field(description="the largest that is no slower with it")
    made_for_context: int | None = Field(
        description="what the draft was trained for, where the launch allows more"
    )
    problem: str | None = Field(description="why it cannot be used")

    @classmethod
    def of(cls, option: SpeculativeOption) -> MethodReport:
        """From the library's option."""
        expected, tokens, memory = option.acceptance, option.tokens, option.memory
        ends = (expected.likely, expected.low, expected.high)
        first = [each.first for each in ends]
        length = [float(each.length(tokens)) for each in ends]
        basis = expected.basis.label
        gain = option.gain
        return cls(
            method=option.kind,
            model=option.draft.model,
            draft_card="exact" if option.draft_exact else "estimated",
            speculative_config=option.config.settings(),
            draft_bytes=option.draft_bytes,
            kv_tokens=QuantityReport.of(memory.kv_tokens) if memory is not None else None,
            first_token_acceptance=_quantity(first, basis),
            acceptance_length=_quantity(length, basis),
            acceptance_source=expected.source,
            synthetic_acceptance_rates=[
                round(share, 4) for share in expected.likely.survival(tokens)
            ],
            speedup=QuantityReport.of(gain) if gain is not None else None,
            speedups=[
                GainReport(batch=batch, num_speculative_tokens=k, speedup=QuantityReport.of(each))
                for batch, k, each in option.gains
            ],
            break_even_batch=option.break_even,
            made_for_context=option.made_for,
            problem=option.problem,
        )


class SpeculationReport(StrictModel):
    """`vplan speculate --json`."""

    schema_version: Literal[1] = 1
    kind: Literal["speculation"] = "speculation"
    vllm: str
    rig: RigReport
    model: ModelReport
    workload: WorkloadReport
    task: str
    temperature: float
    kv_tokens: QuantityReport = Field(description="without drafts")
    advice: SpeculationAdvice
    methods: list[MethodReport]
    command: list[str] | None = Field(description="with the method, where one pays")

    @classmethod
    def of(
        cls, choice: SpeculationChoice, requirements: Requirements, temperature: float
    ) -> SpeculationReport:
        """From the library's choice."""
        plain, chosen = choice.plain, choice.chosen
        memory = chosen.memory if chosen is not None else None
        return cls(
            vllm=plain.release.name,
            rig=RigReport.of(plain.rig),
            model=ModelReport.of(plain.card),
            workload=WorkloadReport.of(requirements),
            task=choice.task,
            temperature=temperature,
            kv_tokens=QuantityReport.of(plain.kv_tokens),
            advice=SpeculationAdvice.of(choice),
            methods=[MethodReport.of(option) for option in choice.options],
            command=render_command(memory).argv if memory is not None else None,
        )


def _quantity(ends: list[float], basis: str) -> QuantityReport:
    value, low, high = ends
    return QuantityReport.model_validate({"value": value, "low": low, "high": high, "basis": basis})
