"""Two pictures of a plan's speed: its steps under the roofline, and latency against throughput.

Needs matplotlib (`pip install 'vplan[plot]'`), which nothing else does.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from planner.errors import PlanError
from planner.files import write_bytes
from planner.memory.plan import MemoryPlan
from planner.speed.capacity import plan_capacity
from planner.speed.step import StepModel
from planner.workload import Workload

FORMATS: Final = ("svg", "png")
_BATCHES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_INTENSITIES: Final = (0.5, 4096.0)  # operations per byte, from and to


def draw(path: Path, memory: MemoryPlan, workload: Workload, *, force: bool = False) -> None:
    """Draw both into `path`, whose ending is one of `FORMATS`.

    Raises `PlanError` for another ending, without matplotlib, or if the file is there and `force`
    is not set; `MissingFact` where there is no speed to draw.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise PlanError(f"{path}: a plot is a file that ends in .svg or .png")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise PlanError("--plot needs matplotlib: pip install 'vplan[plot]'") from None
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_roofline(left, memory, workload)
    _draw_loads(right, memory, workload)
    gpus = memory.config.given.world_size * memory.config.given.data_parallel_size
    figure.suptitle(f"{memory.card.model_id} on {gpus} x {memory.rig.smallest.gpu.name}")
    image = BytesIO()
    figure.savefig(image, format=kind, dpi=150)
    write_bytes(path, image.getvalue(), force=force)


def _draw_roofline(axes: Any, memory: MemoryPlan, workload: Workload) -> None:
    """Decode steps of one GPU at rising batch: below bandwidth x intensity, below the rates."""
    step = StepModel.of(memory)
    rates, bandwidth = step.hardware.rates, step.bandwidth
    peak = max(rates.values(), default=_INTENSITIES[1] * bandwidth)
    ridge = min(peak / bandwidth, _INTENSITIES[1])
    axes.plot(
        [_INTENSITIES[0], ridge], [_INTENSITIES[0] * bandwidth / 1e12, ridge * bandwidth / 1e12],
        color="black", label=f"{bandwidth / 1e9:,.0f} GB/s",
    )  # fmt: skip
    for name, rate in sorted(rates.items(), key=lambda item: item[1]):
        used = name in step.dtypes
        axes.plot(
            [rate / bandwidth, _INTENSITIES[1]], [rate / 1e12] * 2,
            linestyle="-" if used else ":", label=f"{name}: {rate / 1e12:,.0f} TFLOP/s",
        )  # fmt: skip
    points = []
    for batch in _BATCHES:
        if batch > memory.config.max_num_seqs:
            break
        work = step.work(batch, workload.decode_context)
        points.append(
            (work.intensity, work.flops / step.seconds(batch, workload.decode_context).total)
        )
        axes.annotate(str(batch), (points[-1][0], points[-1][1] / 1e12), fontsize=8)
    axes.plot([x for x, _ in points], [y / 1e12 for _, y in points], "o-", label="decode, by batch")
    axes.set(xscale="log", yscale="log", xlabel="operations per byte", ylabel="TFLOP/s of a GPU",
             title="Roofline")  # fmt: skip
    axes.legend(fontsize=8)
    axes.grid(visible=True, which="both", alpha=0.2)


def _draw_loads(axes: Any, memory: MemoryPlan, workload: Workload) -> None:
    """What each user and all users get, at rising concurrency."""
    capacity = plan_capacity(memory, replace(workload, request_rate=None))
    each = [load.per_user for load in capacity.loads]
    total = [load.total.value for load in capacity.loads]
    spread = [[q.value - q.low for q in each], [q.high - q.value for q in each]]
    axes.errorbar([q.value for q in each], total, xerr=spread, fmt="o-", capsize=2)
    for load, together in zip(capacity.loads, total, strict=True):
        axes.annotate(f" {load.workload.concurrency}", (load.per_user.value, together), fontsize=8)
    if workload.tpot_target is not None:
        axes.axvline(1 / workload.tpot_target, color="gray", linestyle="--")
    axes.set(xlabel="tok/s for each user", ylabel="tok/s in total", xlim=(0, None), ylim=(0, None),
             title="Users at once")  # fmt: skip
    axes.grid(visible=True, alpha=0.2)
