"""The memory of a GPU as a stacked bar with its legend."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from planner.cli.format import gib, gib_band
from planner.engine.device import Platform
from planner.memory.budget import Part
from planner.memory.plan import MemoryPlan
from planner.tui.budget import LOOKS, UNSURE, bar, columns_of_a_byte, listed
from planner.tui.outcome import Outcome
from planner.tui.show import DIM, columns
from planner.tui.widgets.panel import Panel

_WIDE: Final = 130  # columns from which on the legend says all in two columns
_ROOMY: Final = 71  # and from which on there is room for two parts a line
_TALL: Final = 34  # lines of the terminal from which on the bar takes two
_MOST_STAGES: Final = 8  # each with a bar of its own


class VramBar(Panel):
    """Bar, ruler and legend. What is too large goes beyond the end of the device."""

    def draw(self, outcome: Outcome, width: int) -> None:
        """Show the budget of the tightest GPU, and how full those of other stages are."""
        memory = outcome.memory
        if memory is None:
            self.entitle("Memory")
            self.update(Content.assemble(("no budget: vLLM refuses before it loads", DIM)))
            return
        self.entitle(_title(memory))
        tall = self.app.size.height >= _TALL
        short = _short_legend(memory, 2 if width >= _ROOMY else 1)
        legend = _legend(memory) if width >= _WIDE else short
        self.update(Content("\n").join([*_bars(memory, width, tall), legend]))


def _title(memory: MemoryPlan) -> str:
    each = "GPU" if memory.config.given.world_size == 1 else "each GPU"
    if memory.device.platform is Platform.CPU:
        each = "the machine"
    stages = len(memory.ranks)
    tightest = f", ▸ the tightest of {stages} stages" if stages > 1 else ""
    total = gib(memory.device_total.value)
    return f"Memory of {each} in GiB: {total}{tightest}, {UNSURE} may be less"


def _bars(memory: MemoryPlan, width: int, tall: bool) -> list[Content]:
    """A bar for each stage, and the ruler below them."""
    if not 1 < len(memory.ranks) <= _MOST_STAGES:
        drawn = bar(memory, memory.tightest, columns_of_a_byte(memory, width), width)
        ruler = Content.assemble((_ruler(memory, width), DIM))
        return [drawn, drawn, ruler] if tall else [drawn, ruler]
    room = width - 2
    scale = columns_of_a_byte(memory, room)
    lines = []
    for rank in memory.ranks:
        mark = "▸ " if rank is memory.tightest else "  "
        lines.append(Content.assemble(mark, bar(memory, rank, scale, room)))
    return [*lines, Content.assemble("  ", (_ruler(memory, room), DIM))]


def _ruler(memory: MemoryPlan, width: int) -> str:
    """Where the share that vLLM asks for ends, and where the device does."""
    scale, share = columns_of_a_byte(memory, width), memory.config.gpu_memory_utilization
    device = max(1, min(width, round(memory.device_total.value * scale)))
    asked = max(1, min(device, round(memory.requested.value * scale)))
    line = ["─"] * device + [" "] * (width - device)
    line[0] = "└"
    line[asked - 1], line[device - 1] = "┴", "┘"
    label = f" asked for: {100 * share:.0f} % = {gib(memory.requested.value)} GiB "
    beyond = f" ◂ the GPU ends here: {gib(memory.device_total.value)} GiB"
    if device < width:
        room = width - device
        line[device:] = list(beyond[:room].ljust(room)) if room >= len(beyond) else line[device:]
        if room < len(beyond) <= device - 2:
            note = f" the GPU ends here: {gib(memory.device_total.value)} GiB ▸"
            line[device - 1 - len(note) : device - 1] = list(note)
    elif len(label) < asked - 2:
        start = asked - 1 - len(label)
        line[start : asked - 1] = list(label)
    return "".join(line)


def _legend(memory: MemoryPlan) -> Content:
    """Two parts a line, with band and basis."""
    rows = []
    for part in listed(memory):
        pattern, style = LOOKS[part.letter]
        rows.append(
            [
                (part.letter, f"bold {style}"),
                (pattern * 2, style),
                (part.name, ""),
                *_size(part),
                (part.size.basis.label, DIM),
            ]
        )
    half = (len(rows) + 1) // 2
    blank = [("", "")] * len(rows[0])
    right = [*rows[half:], *[blank] * (2 * half - len(rows))]
    pairs = zip(rows[:half], right, strict=True)
    return columns([[*one, ("    ", ""), *two] for one, two in pairs], right=(3, 10))


def _short_legend(memory: MemoryPlan, across: int) -> Content:
    """So many parts a line, in GiB with their bands, in the order of the bar."""
    cells: list[tuple[tuple[str, str], ...]] = []
    for part in listed(memory):
        pattern, style = LOOKS[part.letter]
        size, band = _size(part)
        cells.append(((part.letter + pattern, f"bold {style}"), (part.name, ""), size, band))
    many = len(cells[0])
    rows = [
        [piece for cell in cells[start : start + across] for piece in cell]
        for start in range(0, len(cells), across)
    ]
    return columns(rows, gap=1, right=range(2, many * across, many))


def _size(part: Part) -> tuple[tuple[str, str], tuple[str, str]]:
    """In GiB, and the band."""
    size, _, band = gib_band(part.size).partition(" ")
    return (size, "bold"), (band, "bold")
