"""The memory of a GPU as a stacked bar with its legend."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from planner.cli.format import gib, gib_band
from planner.engine.device import Platform
from planner.memory.plan import MemoryPlan
from planner.tui.budget import Part, counted
from planner.tui.outcome import Outcome
from planner.tui.show import DIM, columns
from planner.tui.widgets.panel import Panel

_UNSURE: Final = "╱"  # how far the KV cache may be smaller
_ROOMY: Final = 96  # columns from which on the legend has bands
_WIDE: Final = 130  # and two columns


class VramBar(Panel):
    """Bar, ruler and legend. What is too large goes beyond the end of the device."""

    def draw(self, outcome: Outcome, width: int) -> None:
        """Show the budget of the tightest GPU."""
        memory = outcome.memory
        if memory is None:
            self.border_title = "Memory"
            self.update(Content.assemble(("no budget: vLLM refuses before it loads", DIM)))
            return
        self.border_title = _title(memory)
        bar = _bar(memory, width)
        legend = _legend(memory, width) if width >= _ROOMY else _short_legend(memory, width)
        self.update(Content("\n").join([bar, bar, _ruler(memory, width), legend]))


def _title(memory: MemoryPlan) -> str:
    each = "GPU" if memory.config.given.world_size == 1 else "each GPU"
    if memory.device.platform is Platform.CPU:
        each = "the machine"
    stages = len(memory.ranks)
    where = f"{each}, tightest of {stages} stages" if stages > 1 else each
    return f"Memory of {where}: {gib(memory.device_total.value)} GiB"


def _scale(memory: MemoryPlan, width: int) -> float:
    """Columns of a byte: the bar holds the device, or all that is asked of it if that is more."""
    asked = sum(max(0.0, part.size.value) for part in counted(memory))
    return width / max(asked, memory.device_total.value, 1.0)


def _bar(memory: MemoryPlan, width: int) -> Content:
    """Every part that is there gets at least one column."""
    scale = _scale(memory, width)
    shown = [part for part in counted(memory) if part.size.value > 0]
    pieces: list[tuple[str, str]] = []
    left, end = width, 0.0
    for index, part in enumerate(shown):
        after = len(shown) - index - 1
        end += part.size.value * scale
        columns_now = max(1, min(left - after, round(end) - (width - left)))
        pieces += _piece(part, columns_now, scale)
        left -= columns_now
    return Content.assemble(*pieces)


def _piece(part: Part, width: int, scale: float) -> list[tuple[str, str]]:
    if part.letter != "K":
        return [(part.letter + part.pattern * (width - 1), part.style)]
    unsure = min(width - 1, round((part.size.value - part.size.low) * scale))
    sure = width - 1 - unsure
    return [("K" + _UNSURE * unsure + part.pattern * sure, part.style)]


def _ruler(memory: MemoryPlan, width: int) -> Content:
    """Where the share that vLLM asks for ends, and where the device does."""
    scale, share = _scale(memory, width), memory.config.gpu_memory_utilization
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
    return Content.assemble(("".join(line), DIM))


def _legend(memory: MemoryPlan, width: int) -> Content:
    """A part a line with its band and basis, in two columns where there is room."""
    rows = []
    for part in counted(memory):
        rows.append(
            [
                (part.letter, f"bold {part.style}"),
                (part.pattern * 2, part.style),
                (part.name, ""),
                (f"{gib_band(part.size)} GiB", "bold"),
                (part.size.basis.label, DIM),
            ]
        )
        if part.letter == "K" and _is_unsure(memory):
            unsure = [(" ", ""), (_UNSURE * 2, part.style), ("of it unsure", DIM)]
            rows.append([*unsure, ("", ""), ("", "")])
    if width >= _WIDE:
        half = (len(rows) + 1) // 2
        blank = [("", "")] * len(rows[0])
        right = [*rows[half:], *[blank] * (2 * half - len(rows))]
        rows = [[*one, ("    ", ""), *two] for one, two in zip(rows[:half], right, strict=True)]
    return columns(rows)


def _is_unsure(memory: MemoryPlan) -> bool:
    cache = memory.tightest.kv_cache
    return cache.value > 0 and cache.low < cache.value


def _short_legend(memory: MemoryPlan, width: int) -> Content:
    """Two or three parts a line."""
    across = 3 if width >= 72 else 2
    cells = [
        (
            (f"{part.letter}{part.pattern}", f"bold {part.style}"),
            (part.name, ""),
            (gib(part.size.value), "bold"),
        )
        for part in counted(memory)
    ]
    rows = []
    for start in range(0, len(cells), across):
        row = [piece for cell in cells[start : start + across] for piece in cell]
        rows.append(row)
    return columns(rows, gap=1 if across == 3 else 2)
