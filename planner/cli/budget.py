"""The memory budget of a GPU as a bar with its legend."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from planner.cli.console import console, show
from planner.cli.format import gib, gib_band
from planner.engine.device import Platform
from planner.memory.plan import MemoryPlan, RankMemory
from planner.quantity import Quantity

_WIDTH = 72
# A letter a part, so that the bar reads without colours.
_STYLES = {
    "W": ("weights", "blue"),
    "B": ("buffers", "cyan"),
    "A": ("activation peak", "magenta"),
    "N": ("outside torch", "yellow"),
    "G": ("CUDA graphs", "red"),
    "K": ("KV cache", "green"),
    ".": ("not requested", "bright_black"),
}


def print_budget(memory: MemoryPlan) -> None:
    """Where the memory of the tightest GPU goes."""
    rank = memory.tightest
    parts = _parts(memory, rank)
    total = memory.device_total.value
    stages = len(memory.ranks)
    given = memory.config.given
    each = "GPU" if given.world_size * given.data_parallel_size == 1 else "each GPU"
    if memory.device.platform is Platform.CPU:
        each = "the machine"
    where = f"{each}, tightest of {stages} stages" if stages > 1 else each
    console().print(f"Memory of {where}: {gib(total)} GiB, as vLLM sees it")
    console().print(_bar(parts, total))
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for letter, quantity in parts:
        name, style = _STYLES[letter]
        table.add_row(
            Text(letter, style=style),
            name,
            f"{gib_band(quantity)} GiB",
            quantity.basis.label,
        )
    show(table)


def _parts(memory: MemoryPlan, rank: RankMemory) -> list[tuple[str, Quantity]]:
    parts = [
        ("W", rank.weights),
        ("B", Quantity.exact(rank.buffers.total)),
        ("A", rank.activation),
        ("N", rank.non_torch),
    ]
    if rank.graphs_counted:
        parts.append(("G", rank.cuda_graphs))
    parts.append(("K", rank.kv_cache))
    parts.append((".", memory.left_over))
    return [(letter, quantity) for letter, quantity in parts if quantity.value]


def _bar(parts: list[tuple[str, Quantity]], total: float) -> Text:
    """One letter for each 1/72 of the device; every part that is there gets at least one."""
    text = Text()
    shown = [(letter, max(0.0, quantity.value)) for letter, quantity in parts]
    left = _WIDTH
    for index, (letter, value) in enumerate(shown):
        after = len(shown) - index - 1
        width = left if after == 0 else min(left - after, max(1, round(_WIDTH * value / total)))
        if value > 0:
            text.append(letter * width, style=_STYLES[letter][1])
            left -= width
    return text
