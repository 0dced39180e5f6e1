"""Rigs and GPUs, as JSON."""

from __future__ import annotations

from typing import Literal

from hardware_db import Gpu, Rig
from planner.report.base import StrictModel


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
