"""CUDA_VISIBLE_DEVICES, which NVML ignores."""

from __future__ import annotations

from collections.abc import Sequence

from hardware_db.nvml import MigSlice, NvmlCard

Unit = tuple[NvmlCard, MigSlice | None]
"""What CUDA sees as one device: a card, or one MIG instance of it."""


def visible_units(cards: Sequence[NvmlCard], selection: str | None) -> list[Unit]:
    """The devices that CUDA shows for ``selection``, in its order; None shows all.

    As in CUDA, entries are indices, UUIDs or their beginnings, and the first entry that fits
    nothing ends the list ("-1" hides all). Unlike in CUDA, which shows the first only, the index
    of a card with MIG stands for all its instances.
    """
    units = [unit for card in cards for unit in _units(card)]
    if selection is None:
        return units
    chosen: list[Unit] = []
    for entry in selection.split(","):
        found = [unit for unit in units if _fits(unit, entry.strip())]
        if not found:
            break
        chosen += [unit for unit in found if unit not in chosen]
    return chosen


def _units(card: NvmlCard) -> list[Unit]:
    return [(card, None)] if card.mig is None else [(card, instance) for instance in card.mig]


def _fits(unit: Unit, entry: str) -> bool:
    card, instance = unit
    if entry.isdecimal():
        return card.index == int(entry)
    if instance is not None and entry.startswith("MIG-"):
        return instance.uuid.startswith(entry)
    return entry.startswith("GPU-") and card.uuid.startswith(entry)
