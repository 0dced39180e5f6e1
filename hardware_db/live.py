"""One detected card, or MIG instance, as a device of a rig."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from hardware_db.catalogue import GpuMatch, match_gpu
from hardware_db.custom import custom_gpu
from hardware_db.errors import quoted
from hardware_db.gpu import DenseRates, Gpu, driver_reserve, memory_of
from hardware_db.host import HostMemory
from hardware_db.nvml import MigSlice, NvmlCard, NvmlMemory
from hardware_db.rig import Device, sized
from hardware_db.units import GIB
from hardware_db.visible import Unit

# A chip that shares the CPU's memory and yet reports less than this reports nonsense (8128 MiB was
# seen); a coherent part with memory of its own, a Grace superchip, has 96 GB or more.
_NONSENSE = 16 * GIB


class _Sizes(NamedTuple):
    total: int | None
    free: int | None
    nvml_total: int | None


def live_device(unit: Unit, host: HostMemory | None, wsl: bool) -> tuple[Device, list[str]]:
    """The device, with notes on what was assumed about it."""
    card, instance = unit
    match = _match(card, host)
    if instance is not None:
        return _slice(card, instance, match, wsl)
    unified = _shares_memory(card) if match is None else match.gpu.memory.unified
    sizes = _host_sizes(host) if unified else _card_sizes(card.memory, wsl)
    if match is None:
        gpu = _unknown_gpu(card, sizes, unified)
        notes = [
            f"{quoted(card.name)} is not in the catalogue: its bandwidth is estimated from bus "
            "width x memory clock, its compute rates are not known"
        ]
    else:
        notes = [] if match.note is None else [match.note]
        if "(modified)" in match.gpu.name:
            notes.append(f"{quoted(card.name)} is taken as {match.gpu.name} by its memory")
        gpu = match.gpu
        if sizes.total is not None:
            gpu = sized(gpu, sizes.total, "live", sizes.nvml_total)
    if sizes.total is None:
        table = gpu.memory.total_bytes
        notes.append("its memory cannot be read" + (", the table's is taken" if table else ""))
        return Device(gpu, table, index=card.index), notes
    return Device(gpu, sizes.total, sizes.free, index=card.index, live=True, wsl=wsl), notes


def _match(card: NvmlCard, host: HostMemory | None) -> GpuMatch | None:
    """The card in the catalogue: by what the driver calls it, else by its PCI id."""
    for text in (card.name, card.pci_id):
        match = None if text is None else match_gpu(text)
        if text is None or match is None:
            continue
        if match.gpu.memory.unified:
            total = None if host is None else host.total_bytes
        else:
            total = None if card.memory is None else card.memory.total
        return match if total is None else match_gpu(text, memory_bytes=total)
    return None


def _shares_memory(card: NvmlCard) -> bool:
    return card.ats and (card.memory is None or card.memory.total < _NONSENSE)


def _host_sizes(host: HostMemory | None) -> _Sizes:
    # vLLM does the same for integrated GPUs: the system's total, and what is available as free.
    if host is None:
        return _Sizes(None, None, None)
    return _Sizes(host.total_bytes, host.available_bytes, None)


def _card_sizes(memory: NvmlMemory | None, wsl: bool) -> _Sizes:
    """What torch will see: on Linux the NVML total minus what the driver reserves."""
    if memory is None:
        return _Sizes(None, None, None)
    if wsl:  # Windows hides no reserve from the total
        reserved = 0
    elif memory.reserved is not None:
        reserved = memory.reserved
    else:
        reserved = driver_reserve(memory.total)
    total = memory.total - reserved
    return _Sizes(total, min(memory.free, total), memory.total)


def _unknown_gpu(card: NvmlCard, sizes: _Sizes, unified: bool) -> Gpu:
    bandwidth = None
    if card.bus_width_bits and card.memory_clock_mhz:
        # NVML gives half the data rate of GDDR and HBM: 384 bit / 8 x 10501 MHz x 2 = 1008 GB/s.
        bandwidth = card.bus_width_bits / 8 * card.memory_clock_mhz * 2 / 1000
    memory = memory_of(sizes.total, "live", nvml_total_bytes=sizes.nvml_total, unified=unified)
    gpu = custom_gpu(
        card.name,
        memory,
        bandwidth_gbs=bandwidth,
        compute_capability=card.compute_capability,
        rates=None,
        check="estimated",
    )
    pci_ids = () if card.pci_id is None else (card.pci_id,)
    return replace(
        gpu, vendor="nvidia", reported_names=(card.name,), pci_ids=pci_ids, pcie=card.pcie
    )


def _slice(
    card: NvmlCard, instance: MigSlice, match: GpuMatch | None, wsl: bool
) -> tuple[Device, list[str]]:
    """A MIG instance: its own memory, its SMs' share of the rates.

    That bandwidth is shared out like memory is an assumption; no measurement was seen.
    """
    sizes = _card_sizes(instance.memory, wsl)
    whole = None if match is None else match.gpu
    memory = memory_of(sizes.total, "live", nvml_total_bytes=sizes.nvml_total)
    bandwidth = rates = None
    if whole is not None and whole.memory.device_total_bytes and sizes.nvml_total:
        share = min(1.0, sizes.nvml_total / whole.memory.device_total_bytes)
        bandwidth = None if whole.bandwidth_gbs is None else whole.bandwidth_gbs * share
    if whole is not None and whole.rates is not None and whole.sm_count and instance.sm_count:
        rates = _scaled(whole.rates, instance.sm_count / whole.sm_count)
    gpu = replace(
        custom_gpu(
            instance.name or f"{card.name} MIG",
            memory,
            bandwidth_gbs=bandwidth,
            compute_capability=card.compute_capability,
            rates=rates,
            check="estimated",
        ),
        slug=f"{'custom' if whole is None else whole.slug}-mig",
        vendor="nvidia",
        category="mig",
        architecture="unknown" if whole is None else whole.architecture,
        reported_names=(instance.name,) if instance.name else (),
        sm_count=instance.sm_count,
    )
    notes = ["a MIG instance: its bandwidth is taken to be shared out like the memory"]
    if sizes.total is None:
        notes.append("its memory cannot be read")
    live = sizes.total is not None
    device = Device(gpu, sizes.total, sizes.free, index=card.index, live=live)
    return replace(device, instance=instance.uuid or None), notes


def _scaled(rates: DenseRates, share: float) -> DenseRates:
    scaled: dict[str, float] = {}
    for name in DenseRates.__struct_fields__:
        rate = getattr(rates, name)
        if name != "basis" and rate is not None:
            scaled[name] = rate * share
    return DenseRates(**scaled, basis=f"share of the SMs; {rates.basis}")
