"""What a search looked at, as JSON."""

from __future__ import annotations

from pydantic import Field

from planner.recommendation.search import Candidate, Rejected
from planner.report.base import QuantityReport, StrictModel


class CandidateReport(StrictModel):
    """A checkpoint and a layout that work as asked."""

    model: str
    weight_format: str
    quantized_online: str | None = Field(description="what vLLM quantizes it to while loading")
    quality_loss: float = Field(description="points that the format costs")
    tensor_parallel_size: int
    pipeline_parallel_size: int
    data_parallel_size: int
    enable_expert_parallel: bool
    kv_cache_dtype: str
    max_model_len: int
    kv_tokens: QuantityReport
    tokens_per_second_per_user: QuantityReport | None
    tokens_per_second_total: QuantityReport | None
    unbeaten: bool = Field(description="no other is at least as good in everything")

    @classmethod
    def of(cls, candidate: Candidate, *, unbeaten: bool) -> CandidateReport:
        """From the library's candidate."""
        settled, variant = candidate.settled, candidate.variant
        speed, layout = settled.speed, settled.layout
        return cls(
            model=variant.model_id,
            weight_format=variant.weight_format,
            quantized_online=variant.quantization,
            quality_loss=variant.loss.points,
            tensor_parallel_size=layout.tensor,
            pipeline_parallel_size=layout.pipeline,
            data_parallel_size=layout.data,
            enable_expert_parallel=layout.expert,
            kv_cache_dtype=settled.config.kv_cache_dtype,
            max_model_len=settled.memory.config.max_model_len,
            kv_tokens=QuantityReport.of(settled.memory.kv_tokens),
            tokens_per_second_per_user=QuantityReport.of(speed.per_user) if speed else None,
            tokens_per_second_total=QuantityReport.of(speed.total) if speed else None,
            unbeaten=unbeaten,
        )


class RejectedReport(StrictModel):
    """A checkpoint that does not do."""

    model: str
    weight_format: str
    reason: str

    @classmethod
    def of(cls, rejected: Rejected) -> RejectedReport:
        """From the library's."""
        variant = rejected.variant
        return cls(
            model=variant.model_id, weight_format=variant.weight_format, reason=rejected.reason
        )
