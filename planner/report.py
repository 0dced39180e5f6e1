"""Plans as JSON: the documented, versioned schema that other programs build on.

`vplan schema` prints it as JSON Schema. Within one `schema_version` fields are only added.
Sizes are bytes, times seconds, rates tokens per second.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hardware_db import Gpu, Rig
from model_cards import ModelCard
from model_cards.sources.search import Found
from planner.command.render import render_command
from planner.memory.plan import MemoryPlan
from planner.quantity import Quantity
from planner.recommendation.alternatives import Alternatives
from planner.recommendation.rank import Recommendation
from planner.recommendation.requirements import Requirements
from planner.recommendation.rigs import RigChoice
from planner.recommendation.settle import Settled, Unfit
from planner.recommendation.speculation import speculation_or_none
from planner.speed.capacity import Serving
from planner.speed.serving import SpeedEstimate
from planner.speed.speculation_choice import SpeculationChoice


class StrictModel(BaseModel):
    """A part of a report: its fields and no others."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class QuantityReport(StrictModel):
    """A number with the band that should hold nine of ten cases."""

    value: float
    low: float
    high: float
    basis: Literal["exact", "measured", "calibrated", "estimated"]

    @classmethod
    def of(cls, quantity: Quantity) -> QuantityReport:
        """From the library's value."""
        return cls.model_validate(
            {
                "value": quantity.value,
                "low": quantity.low,
                "high": quantity.high,
                "basis": quantity.basis.label,
            }
        )


class WeightsReport(StrictModel):
    """Weights of one rank by part."""

    total: QuantityReport
    embedding: int
    attention: int
    mlp: int
    experts: int
    norms: int
    lm_head: int
    encoders: int
    rotary: int
    buffers: int
    draft: int
    lora: int
    offloaded: int
    fetched: int


class RankReport(StrictModel):
    """The memory budget of one pipeline stage's rank."""

    weights: WeightsReport
    persistent_buffers: int
    activation: QuantityReport
    non_torch: QuantityReport
    cuda_graphs: QuantityReport
    cuda_graphs_counted: bool = Field(
        description="whether this release takes the graphs out of the KV cache's share"
    )
    kv_cache: QuantityReport


class VerdictReport(StrictModel):
    """Will it start?"""

    answer: Literal["yes", "risky", "no"]
    reason: str
    chance_of_refusal: float


class MemoryReport(StrictModel):
    """Where the memory of each GPU goes."""

    starts: VerdictReport
    device_total: QuantityReport
    requested: QuantityReport
    ranks: list[RankReport]
    kv_tokens: QuantityReport
    max_concurrency: QuantityReport
    block_size: int
    num_blocks: int
    bytes_per_block: list[int]
    attention_backends: list[str]
    longest_model_len: int = Field(
        description="the longest, up to the planned one, that the cache serves; 0 if none"
    )
    notes: list[str]

    @classmethod
    def of(cls, memory: MemoryPlan) -> MemoryReport:
        """From the library's plan."""
        starts = memory.starts
        ranks = []
        for rank in memory.ranks:
            parts = rank.parts
            ranks.append(
                RankReport(
                    weights=WeightsReport(
                        total=QuantityReport.of(rank.weights),
                        embedding=parts.embedding,
                        attention=parts.attention,
                        mlp=parts.mlp,
                        experts=parts.experts,
                        norms=parts.norms,
                        lm_head=parts.lm_head,
                        encoders=parts.encoders,
                        rotary=parts.rotary,
                        buffers=parts.buffers,
                        draft=parts.draft,
                        lora=parts.lora,
                        offloaded=parts.offloaded,
                        fetched=parts.fetched,
                    ),
                    persistent_buffers=rank.buffers.total,
                    activation=QuantityReport.of(rank.activation),
                    non_torch=QuantityReport.of(rank.non_torch),
                    cuda_graphs=QuantityReport.of(rank.cuda_graphs),
                    cuda_graphs_counted=rank.graphs_counted,
                    kv_cache=QuantityReport.of(rank.kv_cache),
                )
            )
        return cls(
            starts=VerdictReport(
                answer=starts.answer.value,
                reason=starts.reason,
                chance_of_refusal=starts.chance_of_refusal,
            ),
            device_total=QuantityReport.of(memory.device_total),
            requested=QuantityReport.of(memory.requested),
            ranks=ranks,
            kv_tokens=QuantityReport.of(memory.kv_tokens),
            max_concurrency=QuantityReport.of(memory.max_concurrency),
            block_size=memory.block_size,
            num_blocks=memory.kv_cache.num_blocks,
            bytes_per_block=list(memory.kv_cache.bytes_per_block),
            attention_backends=[backend.name for backend in memory.backends],
            longest_model_len=memory.kv_cache.longest_len,
            notes=list(memory.notes),
        )


class SpeedReport(StrictModel):
    """How fast it serves the workload."""

    tpot: QuantityReport
    ttft: QuantityReport | None = Field(description="with an empty queue")
    ttft_loaded: QuantityReport | None = Field(default=None, description="at the load asked for")
    tokens_per_second_per_user: QuantityReport
    tokens_per_second_total: QuantityReport
    ceiling_per_user: float = Field(description="bandwidth over bytes: the physical limit")
    bound_by: str
    admitted_requests: float
    running_requests: float | None = Field(default=None, description="that run at once")
    preemption_risk: float | None = Field(
        default=None, description="chance that the cache is too small for them at any moment"
    )
    notes: list[str]

    @classmethod
    def of(cls, speed: SpeedEstimate) -> SpeedReport:
        """From the library's estimate."""
        return cls(
            tpot=QuantityReport.of(speed.tpot),
            ttft=QuantityReport.of(speed.ttft) if speed.ttft is not None else None,
            ttft_loaded=(
                QuantityReport.of(speed.ttft_loaded) if speed.ttft_loaded is not None else None
            ),
            tokens_per_second_per_user=QuantityReport.of(speed.per_user),
            tokens_per_second_total=QuantityReport.of(speed.total),
            ceiling_per_user=speed.ceiling_per_user,
            bound_by=speed.bound_by,
            admitted_requests=speed.admitted,
            running_requests=speed.running,
            preemption_risk=speed.preemption_risk,
            notes=list(speed.notes),
        )


class LoadReport(StrictModel):
    """What so many users at once get."""

    concurrency: int
    tokens_per_second_per_user: QuantityReport
    tokens_per_second_total: QuantityReport
    ttft: QuantityReport | None

    @classmethod
    def of(cls, load: SpeedEstimate) -> LoadReport:
        """From the library's."""
        return cls(
            concurrency=load.workload.concurrency,
            tokens_per_second_per_user=QuantityReport.of(load.per_user),
            tokens_per_second_total=QuantityReport.of(load.total),
            ttft=QuantityReport.of(load.ttft_loaded) if load.ttft_loaded is not None else None,
        )


class ServingReport(StrictModel):
    """How much a launch serves, and what its tokens cost."""

    speed: SpeedReport | None = Field(description="as asked; null if more comes than it can answer")
    loads: list[LoadReport]
    cache_users: float | None = Field(
        description="requests that the KV cache holds at once, at their mean length; null: any"
    )
    max_requests_per_second: float
    target_users: float | None = Field(description="the most with which the targets are kept")
    target_requests_per_second: float | None
    launches: int | None = Field(description="that the request rate needs, side by side")
    price_per_million_tokens: QuantityReport | None
    joules_per_token: QuantityReport | None = Field(description="upper bound, from the TDP")

    @classmethod
    def of(cls, serving: Serving) -> ServingReport:
        """From the library's."""
        capacity, cost = serving.capacity, serving.cost
        price, joules = cost.price_per_million, cost.joules_per_token
        users = capacity.cache_users
        return cls(
            speed=SpeedReport.of(serving.speed) if serving.speed is not None else None,
            loads=[LoadReport.of(load) for load in capacity.loads],
            cache_users=users if users < float("inf") else None,
            max_requests_per_second=capacity.most_rate,
            target_users=capacity.target_users,
            target_requests_per_second=capacity.target_rate,
            launches=capacity.launches,
            price_per_million_tokens=QuantityReport.of(price) if price is not None else None,
            joules_per_token=QuantityReport.of(joules) if joules is not None else None,
        )


class FlagReport(StrictModel):
    """One option of the command."""

    name: str
    value: str | None
    reason: str


class CommandReport(StrictModel):
    """The command to run."""

    argv: list[str]
    flags: list[FlagReport]

    @classmethod
    def of(cls, settled: Settled) -> CommandReport:
        """The command of settled settings."""
        command = render_command(settled.memory, settled.reasons)
        flags = [FlagReport(name=f.name, value=f.value, reason=f.reason) for f in command.flags]
        return cls(argv=command.argv, flags=flags)


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


class ModelReport(StrictModel):
    """A checkpoint."""

    id: str
    architecture: str
    parameters: int
    active_parameters: int
    weight_format: str
    quantization: str | None
    fidelity: Literal["exact", "estimated"]
    max_model_len: int
    license: str | None
    source: str
    notes: list[str]

    @classmethod
    def of(cls, card: ModelCard) -> ModelReport:
        """From the library's card."""
        return cls(
            id=card.model_id,
            architecture=card.architecture,
            parameters=card.parameters,
            active_parameters=card.active_parameters,
            weight_format=card.format_kind,
            quantization=card.quantization,
            fidelity=card.fidelity.value,
            max_model_len=card.max_model_len,
            license=card.license,
            source=f"{card.origin.kind}: {card.origin.detail}",
            notes=list(card.notes),
        )


class PlanReport(StrictModel):
    """One checkpoint with settings that work."""

    model: ModelReport
    memory: MemoryReport
    speed: SpeedReport | None
    command: CommandReport

    @classmethod
    def of(cls, settled: Settled) -> PlanReport:
        """From settled settings."""
        return cls(
            model=ModelReport.of(settled.memory.card),
            memory=MemoryReport.of(settled.memory),
            speed=SpeedReport.of(settled.speed) if settled.speed is not None else None,
            command=CommandReport.of(settled),
        )


class QualityReport(StrictModel):
    """How good the model is, from published benchmarks."""

    score: float
    standard_error: float
    mode: str
    evidence: str
    newest_evidence: str | None


class ChoiceReport(StrictModel):
    """One row of the ranking."""

    tier: int
    base_model: str
    quality: QualityReport
    seconds_per_answer: QuantityReport | None
    plan: PlanReport


class WorkloadReport(StrictModel):
    """What was asked for."""

    use_case: str
    prompt_tokens: int
    output_tokens: int
    concurrency: int
    context: int | None


class RigReport(StrictModel):
    """The hardware planned for."""

    spec: str
    description: str
    gpus: int
    missing_facts: list[str]
    notes: list[str]

    @classmethod
    def of(cls, rig: Rig) -> RigReport:
        """From the library's rig."""
        return cls(
            spec=rig.spec,
            description=rig.describe(),
            gpus=rig.gpu_count,
            missing_facts=list(rig.missing_facts()),
            notes=list(rig.notes),
        )


class RankingReport(StrictModel):
    """`vplan recommend --gpu RIG --json`."""

    schema_version: Literal[1] = 1
    kind: Literal["ranking"] = "ranking"
    vllm: str
    rig: RigReport
    workload: WorkloadReport
    choices: list[ChoiceReport]
    nearest_miss: str | None
    speculation: SpeculationAdvice | None = Field(None, description="for the first choice")

    @classmethod
    def of(cls, recommendation: Recommendation) -> RankingReport:
        """From a recommendation."""
        choices = []
        for choice in recommendation.choices:
            quality = choice.quality
            seconds = choice.seconds_per_answer
            choices.append(
                ChoiceReport(
                    tier=choice.tier,
                    base_model=choice.base_id,
                    quality=QualityReport(
                        score=quality.score,
                        standard_error=quality.error,
                        mode=quality.mode,
                        evidence=quality.evidence,
                        newest_evidence=quality.newest_evidence,
                    ),
                    seconds_per_answer=QuantityReport.of(seconds) if seconds else None,
                    plan=PlanReport.of(choice.settled),
                )
            )
        miss = recommendation.smallest_unfit
        return cls(
            vllm=recommendation.release.name,
            rig=RigReport.of(recommendation.rig),
            workload=workload_report(recommendation.requirements),
            choices=choices,
            nearest_miss=f"{miss[0]}: {miss[1]}" if miss else None,
            speculation=_advice(recommendation),
        )


def _advice(recommendation: Recommendation) -> SpeculationAdvice | None:
    if not recommendation.choices:
        return None
    settled, wanted = recommendation.choices[0].settled, recommendation.requirements
    choice = speculation_or_none(settled, wanted)
    return SpeculationAdvice.of(choice) if choice is not None else None


class AlternativeReport(StrictModel):
    """Another way to serve the model."""

    what: str
    works: bool
    reason: str | None
    excess_bytes: float = Field(
        description="missing on each GPU for one request of that context; 0 where unknown"
    )
    context: int
    plan: PlanReport | None


class ModelOnRigReport(StrictModel):
    """`vplan recommend --gpu RIG --model MODEL --json`."""

    schema_version: Literal[1] = 1
    kind: Literal["model on rig"] = "model on rig"
    vllm: str
    rig: RigReport
    workload: WorkloadReport
    fits: bool
    reason: str | None
    excess_bytes: float = Field(
        description="missing on each GPU for one request of that context; 0 where unknown"
    )
    plan: PlanReport | None
    alternatives: list[AlternativeReport]
    speculation: SpeculationAdvice | None = None
    serving: ServingReport | None = None


class RigChoiceReport(StrictModel):
    """One rig that serves a model."""

    rig: RigReport
    usd_per_hour: float | None
    plan: PlanReport


class RigsReport(StrictModel):
    """`vplan recommend --model MODEL --json` without a GPU: which rigs serve it."""

    schema_version: Literal[1] = 1
    kind: Literal["rigs for model"] = "rigs for model"
    vllm: str
    model: ModelReport
    workload: WorkloadReport
    rigs: list[RigChoiceReport]


class GpuReport(StrictModel):
    """One GPU of the database."""

    slug: str
    name: str
    vendor: str
    architecture: str
    compute_capability: str | None
    usable_bytes: int | None
    usable_basis: str
    nvml_total_bytes: int | None
    bandwidth_gbs: float | None
    dense_tflops: dict[str, float]
    missing_facts: list[str]
    confidence: str
    note: str | None
    sources: list[str]

    @classmethod
    def of(cls, gpu: Gpu) -> GpuReport:
        """From the database's row."""
        capability = gpu.compute_capability
        rates = {}
        for dtype in ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4"):
            rate = gpu.matmul(dtype)
            if rate is not None:
                rates[dtype] = rate
        return cls(
            slug=gpu.slug,
            name=gpu.name,
            vendor=gpu.vendor,
            architecture=gpu.architecture,
            compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
            usable_bytes=gpu.memory.total_bytes,
            usable_basis=gpu.memory.basis,
            nvml_total_bytes=gpu.memory.nvml_total_bytes,
            bandwidth_gbs=gpu.bandwidth_gbs,
            dense_tflops=rates,
            missing_facts=list(gpu.missing_facts()),
            confidence=gpu.confidence,
            note=gpu.note,
            sources=list(gpu.sources),
        )


class GpusReport(StrictModel):
    """`vplan gpus --json`."""

    schema_version: Literal[1] = 1
    kind: Literal["gpus"] = "gpus"
    gpus: list[GpuReport]


class ModelsReport(StrictModel):
    """`vplan models --json`."""

    schema_version: Literal[1] = 1
    kind: Literal["models"] = "models"
    models: list[ModelReport]


class FoundReport(StrictModel):
    """A model that a search found; null is not known."""

    id: str
    source: Literal["hub", "bundled"]
    bundled: bool
    parameters: int | None
    license: str | None
    gated: bool
    downloads: int | None

    @classmethod
    def of(cls, found: Found) -> FoundReport:
        """From the library's value."""
        return cls.model_validate(asdict(found))


class SearchReport(StrictModel):
    """`vplan models search --json`. `problem`: why the Hub's part is missing."""

    schema_version: Literal[1] = 1
    kind: Literal["search"] = "search"
    models: list[FoundReport]
    problem: str | None


REPORTS: dict[str, type[BaseModel]] = {
    "ranking": RankingReport,
    "model-on-rig": ModelOnRigReport,
    "rigs": RigsReport,
    "gpus": GpusReport,
    "models": ModelsReport,
    "search": SearchReport,
}


def workload_report(requirements: Requirements) -> WorkloadReport:
    """The asked-for workload."""
    workload = requirements.workload
    return WorkloadReport(
        use_case=requirements.use_case,
        prompt_tokens=workload.prompt_tokens,
        output_tokens=workload.output_tokens,
        concurrency=workload.concurrency,
        context=requirements.context,
    )


def _why_not(result: Settled | Unfit) -> str:
    return result.reason if isinstance(result, Unfit) else result.memory.starts.reason


def alternative_reports(alternatives: Alternatives) -> list[AlternativeReport]:
    """Every way out as a row."""
    rows = []
    if alternatives.shorter is not None and isinstance(alternatives.shorter.result, Settled):
        rows.append(
            AlternativeReport(
                what=f"context {alternatives.shorter.context}",
                works=True,
                reason=None,
                excess_bytes=0,
                context=alternatives.shorter.context,
                plan=PlanReport.of(alternatives.shorter.result),
            )
        )
    for checkpoint in alternatives.checkpoints:
        result = checkpoint.result
        rows.append(
            AlternativeReport(
                what=checkpoint.card.model_id,
                works=checkpoint.works,
                reason=_why_not(result) if not checkpoint.works else None,
                excess_bytes=result.excess_bytes if isinstance(result, Unfit) else 0,
                context=checkpoint.context,
                plan=PlanReport.of(result) if isinstance(result, Settled) else None,
            )
        )
    more = [alternatives.more_gpus] if alternatives.more_gpus is not None else []
    for spec, settled in (*more, *alternatives.larger_gpus):
        rows.append(
            AlternativeReport(
                what=spec,
                works=True,
                reason=None,
                excess_bytes=0,
                context=settled.memory.config.max_model_len,
                plan=PlanReport.of(settled),
            )
        )
    return rows


def rig_choice_report(choice: RigChoice) -> RigChoiceReport:
    """One rig that serves a model."""
    return RigChoiceReport(
        rig=RigReport.of(choice.settled.memory.rig),
        usd_per_hour=choice.usd_per_hour,
        plan=PlanReport.of(choice.settled),
    )
