"""`vplan gpus`: the GPU database."""

from __future__ import annotations

from typing import Annotated

import typer

from hardware_db import Gpu, UnknownGpu, all_gpus, find_gpu
from hardware_db.selection import SORTS, GpuSelection
from planner.cli.console import print_json, say, show
from planner.cli.format import gib
from planner.cli.options import AsJson


def gpus(
    name: Annotated[
        str | None,
        typer.Argument(help='A GPU ("4090", "h100 sxm") or part of a name; all if left out.'),
    ] = None,
    vendor: Annotated[str | None, typer.Option(help="nvidia, amd or intel.")] = None,
    min_memory: Annotated[str | None, typer.Option(help='At least so much: "24GiB".')] = None,
    max_memory: Annotated[str | None, typer.Option(help='At most so much: "48GiB".')] = None,
    capability: Annotated[
        str | None, typer.Option(help='At least this compute capability: "8.9", "sm_90".')
    ] = None,
    sort: Annotated[str, typer.Option(help=f"By {', '.join(SORTS)}.")] = "name",
    as_json: AsJson = False,
) -> None:
    """List the GPUs vplan knows, or show one with its sources."""
    selection = GpuSelection.of(
        vendor=vendor,
        min_memory=min_memory,
        max_memory=max_memory,
        capability=capability,
        sort=sort,
    )
    found, note = _find(name) if name is not None else (list(all_gpus()), None)
    if selection != GpuSelection():
        found = selection.select(_named(name))
    if as_json:
        from planner.report.hardware import GpuReport, GpusReport

        print_json(GpusReport(gpus=[GpuReport.of(gpu) for gpu in found]))
    elif name is not None and len(found) == 1 and selection == GpuSelection():
        if note:
            say(f"Note: {note}")
        _show(found[0])
    else:
        _list(found)


def _find(name: str) -> tuple[list[Gpu], str | None]:
    """The GPU of that name, with what was assumed; else those whose names it is part of."""
    try:
        match = find_gpu(name)
    except UnknownGpu:
        found = _named(name)
        if not name.strip() or not found:
            raise
        return found, None
    return [match.gpu], match.note


def _named(name: str | None) -> list[Gpu]:
    """Those whose names it is part of."""
    part = (name or "").strip().lower()
    return [gpu for gpu in all_gpus() if part in gpu.slug or part in gpu.name.lower()]


def _list(found: list[Gpu]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("GPU", no_wrap=True)
    table.add_column("usable GiB", justify="right")
    table.add_column("GB/s", justify="right")
    table.add_column("16-bit TFLOP/s", justify="right")
    table.add_column("cc")
    table.add_column("missing")
    for gpu in found:
        total, rate = gpu.memory.total_bytes, gpu.matmul("bf16") or gpu.matmul("fp16")
        table.add_row(
            gpu.slug,
            gib(total) if total is not None else "-",
            f"{gpu.bandwidth_gbs:.0f}" if gpu.bandwidth_gbs is not None else "-",
            f"{rate:.0f}" if rate is not None else "-",
            _capability(gpu),
            ", ".join(fact for fact in gpu.missing_facts() if fact != "fp8 rate"),
        )
    show(table)
    say(f"\n{len(found)} GPUs. vplan gpus NAME shows one with its sources.")


def _show(gpu: Gpu) -> None:
    from rich.table import Table

    memory = gpu.memory
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column()
    table.add_row("name", gpu.name)
    table.add_row("slug", gpu.slug)
    table.add_row("architecture", f"{gpu.architecture}, {_capability(gpu)}")
    if memory.total_bytes is not None:
        low, high = memory.total_low_bytes, memory.total_high_bytes
        band = f" [{gib(low)}-{gib(high)}]" if low and high and low != high else ""
        seen = f", {memory.observations} observations" if memory.observations else ""
        table.add_row(
            "memory vLLM sees", f"{gib(memory.total_bytes)} GiB{band} ({memory.basis}{seen})"
        )
    if memory.nvml_total_bytes is not None:
        table.add_row(
            "nvidia-smi total",
            f"{memory.nvml_total_bytes >> 20} MiB ({memory.nvml_basis})",
        )
    if gpu.bandwidth_gbs is not None:
        table.add_row("bandwidth", f"{gpu.bandwidth_gbs:g} GB/s ({gpu.bandwidth_check})")
    rates = [(d, gpu.matmul(d)) for d in ("bf16", "fp16", "fp8", "int8", "fp4")]
    dense = ", ".join(f"{dtype} {rate:g}" for dtype, rate in rates if rate is not None)
    if dense:
        table.add_row("dense TFLOP/s", f"{dense} (as vLLM's kernels accumulate)")
    if gpu.nvlink is not None and gpu.nvlink.gbs_bidirectional:
        table.add_row("NVLink", f"{gpu.nvlink.gbs_bidirectional:g} GB/s both ways")
    if gpu.pcie is not None:
        table.add_row("PCIe", str(gpu.pcie))
    missing = gpu.missing_facts()
    if missing:
        table.add_row("not known", ", ".join(missing))
    if gpu.note:
        table.add_row("note", gpu.note)
    table.add_row("confidence", gpu.confidence)
    table.add_row("sources", "\n".join(gpu.sources))
    show(table)


def _capability(gpu: Gpu) -> str:
    if gpu.compute_capability is not None:
        return f"{gpu.compute_capability[0]}.{gpu.compute_capability[1]}"
    return gpu.gfx or "-"
