"""The data file: one JSON object a GPU → :class:`Gpu`."""

from __future__ import annotations

from functools import cache
from os.path import dirname, join
from typing import Any

from msgspec.json import decode

from hardware_db.gpu import (
    RESERVE_ERROR,
    DenseRates,
    Gpu,
    GpuMemory,
    NvLink,
    Pcie,
    Price,
    driver_reserve,
)
from hardware_db.units import MIB

_FILE = join(dirname(__file__), "data", "gpus.json")


@cache
def load_gpus() -> tuple[Gpu, ...]:
    """Every GPU of the data file, in its order; read once."""
    with open(_FILE, "rb") as file:
        return tuple(map(_gpu, decode(file.read())))


def _gpu(row: dict[str, Any]) -> Gpu:
    get = row.get
    nvlink, pcie, rates = get("nvlink"), get("pcie"), get("tflops")
    return Gpu(
        slug=row["slug"],
        name=row["name"],
        vendor=row["vendor"],
        category=row["category"],
        architecture=row["architecture"],
        memory=_memory(row["memory"]),
        compute_capability=_capability(get("cc")),
        gfx=get("gfx"),
        reported_names=tuple(get("reported", ())),
        aliases=tuple(get("aliases", ())),
        pci_ids=tuple(get("pci", ())),
        bandwidth_gbs=get("gbs"),
        bandwidth_check=get("gbs_check"),
        rates=DenseRates(**rates) if rates else None,
        sm_count=get("sms"),
        boost_mhz=get("boost_mhz"),
        l2_mib=get("l2_mib"),
        tdp_w=get("tdp_w"),
        nvlink=NvLink(*nvlink) if nvlink else None,
        pcie=Pcie(*pcie) if pcie else None,
        prices=tuple(map(_price, get("prices", ()))),
        note=get("note"),
        confidence=row["confidence"],
        sources=tuple(row["sources"]),
    )


def _memory(facts: dict[str, Any]) -> GpuMemory:
    nvml_mib: int | None = facts.get("nvml_mib")
    nvml = None if nvml_mib is None else nvml_mib * MIB
    seen = [mib * MIB for mib in facts.get("torch_mib", ())]
    total, low, high = _range(seen, nvml, facts.get("windows_mib"))
    return GpuMemory(
        total_bytes=total,
        total_low_bytes=low,
        total_high_bytes=high,
        basis="observed" if seen else "estimated" if total else "unknown",
        observations=len(seen),
        nvml_total_bytes=nvml,
        nvml_basis=None if nvml is None else facts.get("nvml_rule", "observed"),
        nominal_gb=facts.get("gb"),
        type=facts["type"],
        unified=facts.get("unified", False),
        devices_per_board=facts.get("devices_per_board", 1),
    )


def _range(
    seen: list[int], nvml: int | None, windows_mib: int | None
) -> tuple[int | None, int | None, int | None]:
    """Usable bytes: the median and range of what was seen, else an estimate with its error."""
    if seen:
        # Of two middle values the higher: that is where vLLM's own start-up logs lie.
        seen = sorted(seen)
        return seen[len(seen) // 2], seen[0], seen[-1]
    if nvml is not None:
        total = nvml - driver_reserve(nvml)
    elif windows_mib is not None:
        total = windows_mib * MIB
    else:
        return None, None, None
    return total, total - 2 * RESERVE_ERROR, total + 2 * RESERVE_ERROR


def _capability(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    major, minor = text.split(".")
    return int(major), int(minor)


def _price(row: dict[str, Any]) -> Price:
    low, high = row["usd"]
    return Price(low, high, row["per"], row["kind"], row.get("date"), row["source"])
