"""Gpu: one device as CUDA, HIP or the vLLM CPU backend sees it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from hardware_db.units import MIB

Vendor = Literal["nvidia", "amd", "intel", "custom", "cpu"]
MemoryBasis = Literal["observed", "estimated", "given", "live", "unknown"]

# What the driver keeps of the NVML total, on Linux: least squares over 70 observations on 31
# cards (reserved = 340 MiB + 0.25 % of the total, standard deviation 134 MiB).
_RESERVE_BASE = 340 * MIB
_RESERVE_PER_TOTAL = 0.0025
RESERVE_ERROR = 134 * MIB


def driver_reserve(nvml_total_bytes: int) -> int:
    """Bytes the driver keeps for itself of ``nvml_total_bytes``, estimated (Linux)."""
    return _RESERVE_BASE + round(nvml_total_bytes * _RESERVE_PER_TOTAL)


def nvml_total_of(usable_bytes: int) -> int:
    """The NVML total a card with ``usable_bytes`` would show: :func:`driver_reserve` inverted."""
    return round((usable_bytes + _RESERVE_BASE) / (1 - _RESERVE_PER_TOTAL))


class GpuMemory(Struct, frozen=True):
    """Device memory, in bytes.

    ``total_bytes`` is what ``torch.cuda.mem_get_info`` gives as total on Linux, which is vLLM's
    base for ``gpu_memory_utilization``; it is smaller than the NVML total by the driver's reserve.
    ``total_low_bytes`` and ``total_high_bytes`` are the range of the observations, or two standard
    deviations of the estimate. None means not known.
    """

    total_bytes: int | None
    total_low_bytes: int | None
    total_high_bytes: int | None
    basis: MemoryBasis
    observations: int
    """How many Linux observations ``total_bytes`` is the median of."""
    nvml_total_bytes: int | None
    nvml_basis: str | None
    """``"observed"``, or the rule that predicts ``nvml_total_bytes``."""
    nominal_gb: float | None
    """The figure on the box."""
    type: str
    unified: bool
    """The CPU's memory is the GPU's memory: the system's total is the device's total."""
    devices_per_board: int

    @property
    def device_total_bytes(self) -> int | None:
        """The total that vLLM's own defaults key on: NVML's, else what torch reports."""
        return self.total_bytes if self.nvml_total_bytes is None else self.nvml_total_bytes


def memory_of(
    total_bytes: int | None,
    basis: MemoryBasis,
    *,
    nvml_total_bytes: int | None = None,
    type: str = "",
    unified: bool = False,
) -> GpuMemory:
    """The memory of a device of which one total is known (given by a user, or asked live)."""
    nvml_basis = "observed"
    if nvml_total_bytes is None and total_bytes is not None and not unified:
        nvml_total_bytes, nvml_basis = nvml_total_of(total_bytes), "usable + 340 MiB + 0.25 %"
    return GpuMemory(
        total_bytes=total_bytes,
        total_low_bytes=total_bytes,
        total_high_bytes=total_bytes,
        basis="unknown" if total_bytes is None else basis,
        observations=0,
        nvml_total_bytes=nvml_total_bytes,
        nvml_basis=None if nvml_total_bytes is None else nvml_basis,
        nominal_gb=None,
        type=type,
        unified=unified,
        devices_per_board=1,
    )


# vLLM's dtype names and the common short ones → the fields to read, best first. vLLM's kernels
# accumulate in FP32, so the `_fp32acc` figure wins where a card has one (GeForce: half rate).
_MATMUL_FIELDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("fp32", "float32", "float"), ("fp32",)),
    "tf32": ("tf32",),
    **dict.fromkeys(("fp16", "float16", "half"), ("fp16_fp32acc", "fp16")),
    **dict.fromkeys(("bf16", "bfloat16"), ("bf16",)),
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2"), ("fp8_fp32acc", "fp8")),
    "int8": ("int8",),
    **dict.fromkeys(("fp4", "nvfp4", "mxfp4"), ("fp4",)),
}


class DenseRates(Struct, frozen=True):
    """Peak dense matrix rates in TFLOP/s (int8: TOP/s), by type; None means not known.

    Never with sparsity. ``fp16`` and ``fp8`` may be peaks with FP16 accumulation, which vLLM's
    kernels do not use: ask :meth:`matmul`.
    """

    fp32: float | None = None
    tf32: float | None = None
    fp16: float | None = None
    fp16_fp32acc: float | None = None
    bf16: float | None = None
    fp8: float | None = None
    fp8_fp32acc: float | None = None
    int8: float | None = None
    fp4: float | None = None
    basis: str = ""

    def matmul(self, dtype: str) -> float | None:
        """TFLOP/s that vLLM's kernels can reach for ``dtype``: FP32 accumulation, dense.

        ``dtype`` is a vLLM name or a short one ("bf16", "bfloat16", "fp8", "nvfp4", ...).
        None if the figure is not known. Raises ``ValueError`` for a name that is no dtype.
        """
        fields = _MATMUL_FIELDS.get(dtype)
        if fields is None:
            raise ValueError(f"{dtype!r} is not one of {', '.join(_MATMUL_FIELDS)}")
        for field in fields:
            rate: float | None = getattr(self, field)
            if rate is not None:
                return rate
        return None


class NvLink(Struct, frozen=True):
    """NVLink of one GPU. ``generation`` 0: the card is known to have none."""

    generation: int
    gbs_bidirectional: float
    """GB/s, both directions together, all links."""
    how: str

    @property
    def bridge(self) -> bool:
        """True if it needs an optional bridge, which joins two cards."""
        return "bridge" in self.how


class Pcie(Struct, frozen=True):
    """The PCIe link of one GPU."""

    generation: int
    lanes: int

    @property
    def gbs_per_direction(self) -> float:
        """GB/s one way: 16 for Gen3 x16, doubling each generation, scaled by the lanes."""
        return float(2 ** (self.generation - 3) * self.lanes)

    def __str__(self) -> str:
        return f"PCIe {self.generation}.0 x{self.lanes}"


class Price(Struct, frozen=True):
    """A price seen somewhere, in US dollars; ``usd_low`` equals ``usd_high`` for one figure."""

    usd_low: float
    usd_high: float
    per: Literal["hour", "card"]
    kind: str
    """"spot", "on-demand", "street", "launch", ..."""
    date: str | None
    source: str


class Gpu(Struct, frozen=True):
    """What is known about one GPU model. None or an empty tuple means not known.

    For a board with several dies this is one device as torch sees it.
    """

    slug: str
    name: str
    vendor: Vendor
    category: str
    architecture: str
    memory: GpuMemory
    compute_capability: tuple[int, int] | None = None
    gfx: str | None = None
    reported_names: tuple[str, ...] = ()
    """What drivers report; several models may share one name."""
    aliases: tuple[str, ...] = ()
    pci_ids: tuple[str, ...] = ()
    bandwidth_gbs: float | None = None
    """Peak memory bandwidth in GB/s (10**9)."""
    bandwidth_check: str | None = None
    """How well it is checked: "two or more sources agree", "one source", "unconfirmed", ..."""
    rates: DenseRates | None = None
    sm_count: int | None = None
    boost_mhz: float | None = None
    l2_mib: float | None = None
    tdp_w: int | None = None
    nvlink: NvLink | None = None
    pcie: Pcie | None = None
    prices: tuple[Price, ...] = ()
    cpu_flags: tuple[str, ...] = ()
    """Of a CPU: instructions that vLLM's kernels ask for, as Linux names them."""
    note: str | None = None
    confidence: Literal["high", "medium", "low"] = "low"
    sources: tuple[str, ...] = ()

    @property
    def driver_name(self) -> str:
        """The name that vLLM sees: the first reported one, else the catalogue's."""
        return self.reported_names[0] if self.reported_names else self.name

    def matmul(self, dtype: str) -> float | None:
        """:meth:`DenseRates.matmul`, or None without any rates."""
        return None if self.rates is None else self.rates.matmul(dtype)

    @property
    def is_aftermarket(self) -> bool:
        """Whether no maker sells it so (a card with more memory soldered on)."""
        return self.note is not None and self.note.startswith("aftermarket")

    def missing_facts(self) -> tuple[str, ...]:
        """What planning lacks for this GPU, in plain words; empty if nothing."""
        cc = self.compute_capability
        missing = []
        if self.memory.total_bytes is None:
            missing.append("usable memory")
        if self.bandwidth_gbs is None:
            missing.append("memory bandwidth")
        if cc is None and self.vendor in ("nvidia", "custom"):
            missing.append("compute capability")
        # Below 8.0 there is no bf16; vLLM runs such cards in fp16.
        half = "fp16" if cc is not None and cc < (8, 0) else "bf16"
        if self.matmul(half) is None:
            missing.append(f"{half} rate")
        if cc is not None and cc >= (8, 9) and self.matmul("fp8") is None:
            missing.append("fp8 rate")
        return tuple(missing)
