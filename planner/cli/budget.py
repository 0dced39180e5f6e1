"""The memory budget of a GPU as a bar with its legend."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from planner.cli.console import console, show
from planner.cli.format import gib, gib_band
from planner.engine.device import Platform
from planner.memory.budget import Part, budget
from planner.memory.plan import MemoryPlan

_WIDTH = 72
# Each part has a letter, so that the bar reads without colours.
_STYLES = {
    "W": "blue",
    "D": "bright_blue",
    "B": "cyan",
    "A": "magenta",
    "N": "yellow",
    "G": "red",
    "K": "green",
    ".": "bright_black",
    "!": "bold red",
}


def print_budget(memory: MemoryPlan) -> None:
    """Where the memory of the tightest GPU goes."""
    parts = [part for part in budget(memory) if part.spends or part.letter == "!"]
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
    for part in parts:
        table.add_row(
            Text(part.letter, style=_STYLES[part.letter]),
            part.name,
            f"{gib_band(part.size)} GiB",
            part.size.basis.label,
        )
    show(table)


def _bar(parts: list[Part], total: float) -> Text:
    """One letter for each 1/72 of the device; every part that is there gets at least one."""
    text = Text()
    shown = [part for part in parts if part.spends]
    left = _WIDTH
    for index, part in enumerate(shown):
        after = len(shown) - index - 1
        share = max(1, round(_WIDTH * part.size.value / total))
        width = left if after == 0 else min(left - after, share)
        text.append(part.letter * width, style=_STYLES[part.letter])
        left -= width
    return text
