"""Every known GPU, and which of them a text means."""

from __future__ import annotations

import re
from functools import cache

from msgspec import Struct

from hardware_db.errors import UnknownGpu, quoted
from hardware_db.gpu import Gpu
from hardware_db.name_index import NameIndex
from hardware_db.names import Name, parse_name
from hardware_db.rows import load_gpus
from hardware_db.units import GIB, gib

# How far a live total may lie from what the card has: below by ECC (1/16), the driver's reserve and
# rounding; above by ECC switched off. Anything else is another card, a slice or a modification.
_NEAR_LOW, _NEAR_HIGH = 0.90, 1.07
# A word that is no memory size: "4090", "h100". Its digits stand in every name of that model.
_MODEL_NUMBER = re.compile(
    r"(?<![0-9a-z])(?:(?:rtx)?(?P<long>[0-9]{4})(?![0-9])|[a-z](?P<short>[0-9]{3})(?![0-9a-z]))"
)
_NO_SEPARATORS = str.maketrans("", "", " -_./()+")


class GpuMatch(Struct, frozen=True):
    """What a text was taken for."""

    gpu: Gpu
    exact: bool
    """False if the text also fits other cards, or the memory does not fit this one."""
    note: str | None
    """If not exact: what was taken, and how to name the others."""


def all_gpus() -> tuple[Gpu, ...]:
    """Every known GPU, in the order of the data file."""
    return load_gpus()


def find_gpu(text: str, *, memory_bytes: int | None = None) -> GpuMatch:
    """The GPU that ``text`` names: a slug, an alias, a driver's name or a PCI id ("10de:2684").

    ``memory_bytes`` (the NVML or the torch total of a real card, in bytes) tells apart cards that
    share a name. Without it an ambiguous name means the card that the catalogue lists under that
    name, and the match says so; a slug is never ambiguous. Nothing is guessed: a text that is no
    known name raises :class:`UnknownGpu`, which suggests what it resembles.
    """
    match = match_gpu(text, memory_bytes=memory_bytes)
    if match is None:
        raise UnknownGpu(text.strip(), _index().resembling(parse_name(text)))
    return match


def match_gpu(text: str, *, memory_bytes: int | None = None) -> GpuMatch | None:
    """:func:`find_gpu`, with None for an unknown name (cheap: nothing is suggested)."""
    asked = text.strip()
    if (gpu := _slugs().get(asked.casefold())) is not None:
        return GpuMatch(gpu, True, None) if memory_bytes is None else _closest([gpu], memory_bytes)
    name, index = parse_name(asked), _index_for(asked)
    by_name = index.fitting(name) if memory_bytes is None else index.possible(name)
    candidates = index.pci.get(asked.casefold()) or by_name
    if not candidates and asked[-1:].isdigit():  # "3060-12", "a100 40": a size without its unit
        sized = parse_name(f"{asked}GB")
        candidates = index.fitting(sized) if memory_bytes is None else index.possible(sized)
        name = sized
    if not candidates and name.size_gb is not None:  # "h100 94gb": the variant that has so much
        candidates = index.siblings(name)
    if not candidates:
        return None
    if memory_bytes is None:
        return _default(asked, name, candidates)
    return _closest(candidates, memory_bytes)


def fits_memory(gpu: Gpu, memory_bytes: int) -> bool:
    """Whether a card that shows ``memory_bytes`` in total can be a stock ``gpu``."""
    expected = _expected_bytes(gpu)
    return expected is None or _NEAR_LOW <= memory_bytes / expected <= _NEAR_HIGH


def label(gpu: Gpu) -> str:
    """A short name for notes, with the memory size: "RTX 3060 12 GB"."""
    name = gpu.name
    for vendor in ("NVIDIA ", "GeForce ", "Tesla ", "AMD ", "Intel "):
        name = name.removeprefix(vendor)
    size = gpu.memory.nominal_gb
    if size is None or parse_name(name).size_gb is not None:
        return name
    return f"{name} {size:g} GB"


@cache
def _slugs() -> dict[str, Gpu]:
    return {gpu.slug: gpu for gpu in load_gpus()}


@cache
def _index() -> NameIndex:
    return NameIndex(load_gpus())


def _index_for(asked: str) -> NameIndex:
    """The index of every GPU that the text can mean: taking all names apart takes long."""
    found = _MODEL_NUMBER.search(asked.casefold())
    return _index() if found is None else _index_of(found["long"] or found["short"])


@cache
def _index_of(number: str) -> NameIndex:
    return NameIndex(gpu for gpu in load_gpus() if number in _written(gpu))


def _written(gpu: Gpu) -> str:
    """All names of a GPU, run together."""
    names = (gpu.slug, gpu.name, *gpu.aliases, *gpu.reported_names, *gpu.pci_ids)
    return "|".join(names).translate(_NO_SEPARATORS)


def _expected_bytes(gpu: Gpu) -> int | None:
    memory = gpu.memory
    if memory.device_total_bytes is not None:
        return memory.device_total_bytes
    return None if memory.nominal_gb is None else round(memory.nominal_gb * GIB)


def _closest(candidates: list[Gpu], memory_bytes: int) -> GpuMatch:
    def distance(gpu: Gpu) -> float:
        totals = (gpu.memory.nvml_total_bytes, gpu.memory.total_bytes, _expected_bytes(gpu))
        return min((abs(memory_bytes - total) for total in totals if total), default=float("inf"))

    gpu = min(candidates, key=distance)
    if fits_memory(gpu, memory_bytes):
        return GpuMatch(gpu, True, None)
    return GpuMatch(
        gpu,
        False,
        f"{gib(memory_bytes)} is not what a stock {label(gpu)} has: modified or partitioned; "
        "its compute and bandwidth are taken from the stock card",
    )


def _default(asked: str, name: Name, candidates: list[Gpu]) -> GpuMatch:
    gpu, index = candidates[0], _index_for(asked)
    taken = f"{quoted(asked)} is taken as {label(gpu)}"
    full = asked.casefold() in map(str.casefold, gpu.reported_names)
    siblings = [] if full and index.reported(name) == [gpu] else index.siblings(name)
    others = [
        other
        for other in dict.fromkeys((*candidates, *siblings))
        if other is not gpu and not other.is_aftermarket
    ]
    if others:
        sizes = {other.memory.nominal_gb for other in (gpu, *others)}
        by_size = len(sizes) == len(others) + 1
        ways = (
            f"for {_card_of_size(other) if by_size else label(other)} write {other.slug}"
            for other in others
        )
        return GpuMatch(gpu, False, f"{taken}; {', '.join(ways)}")
    # The catalogue may lack the other sizes of a model ("RTX 2060"), and some drivers report
    # names that say no model at all ("AMD Radeon Graphics").
    sizeless = name.size_gb is None and parse_name(gpu.slug).size_gb is not None
    modelless = index.listed(name) is None and not any(map(str.isdigit, asked))
    if sizeless or modelless:
        return GpuMatch(gpu, False, f"{taken}, the only one known by that name")
    return GpuMatch(gpu, True, None)


def _card_of_size(gpu: Gpu) -> str:
    return f"the {gpu.memory.nominal_gb:g} GB card"
