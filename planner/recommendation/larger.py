"""The same GPUs, more of them."""

from __future__ import annotations

from typing import Final

from hardware_db import Rig, find_rig

_MOST_IN_A_NODE: Final = 8


def twice(rig: Rig) -> Rig | None:
    """Twice as many GPUs, as machines are built: up to eight in one, one in a superchip's.

    None for hardware of which nobody has another: a mix, a made-up card, the CPU.
    """
    slot = rig.smallest
    if slot.gpu.vendor in ("custom", "cpu") or rig.mixed:
        return None
    nodes, each = rig.nodes, 2 * len(rig.devices)
    if each > _MOST_IN_A_NODE or slot.gpu.category in ("superchip", "soc"):
        nodes, each = 2 * rig.nodes, len(rig.devices)
    count = f"{nodes}x{each}x" if nodes > 1 else f"{each}x"
    return find_rig(f"{count}{slot.gpu.slug}")
