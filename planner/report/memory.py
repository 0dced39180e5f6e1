"""Where the memory goes, as JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.memory.plan import MemoryPlan
from planner.report.base import QuantityReport, StrictModel


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
