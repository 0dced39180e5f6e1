"""Devices described by hand: "custom:24GiB@1008,bf16=165,cc=8.9" and "cpu:64GiB@80,amx_tile"."""

from __future__ import annotations

import re

from hardware_db.cpu import CPU_FLAGS
from hardware_db.errors import InvalidRig, quoted
from hardware_db.gpu import DenseRates, Gpu, GpuMemory, memory_of
from hardware_db.units import exact_size, parse_size

CUSTOM_EXAMPLE = "custom:23.5GiB@1008,bf16=165,cc=8.9"
CPU_EXAMPLE = "cpu:64GiB@80"
_RATES = tuple(name for name in DenseRates.__struct_fields__ if name != "basis")
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,20})?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._()/-]{0,79}")


def parse_custom(text: str) -> Gpu:
    """``SIZE[@GB/s][,bf16=TFLOP/s][,fp8=...][,cc=8.9][,name=...]`` as a Gpu.

    SIZE is the usable memory, GB/s the memory bandwidth; the rates are dense, with FP32
    accumulation. Raises :class:`InvalidRig`.
    """
    head, *options = text.split(",")
    total, bandwidth = _size_and_bandwidth(head, CUSTOM_EXAMPLE)
    values: dict[str, str] = {}
    for option in options:
        key, equals, value = (part.strip() for part in option.partition("="))
        if not equals or key not in (*_RATES, "cc", "name") or key in values:
            keys = ", ".join((*_RATES, "cc", "name"))
            raise _invalid(f"{quoted(option)} is not one option of {keys}", CUSTOM_EXAMPLE)
        values[key] = value
    name, cc = values.pop("name", "custom GPU"), values.pop("cc", None)
    if not _NAME.fullmatch(name):
        raise _invalid(f"the name {quoted(name)} has other than plain characters", CUSTOM_EXAMPLE)
    rates = {
        key: _positive(value, f"the {key} rate", CUSTOM_EXAMPLE) for key, value in values.items()
    }
    return custom_gpu(
        name,
        memory_of(total, "given"),
        bandwidth_gbs=bandwidth,
        compute_capability=None if cc is None else _capability(cc),
        rates=DenseRates(**rates, basis="given") if rates else None,
    )


def custom_gpu(
    name: str,
    memory: GpuMemory,
    *,
    bandwidth_gbs: float | None,
    compute_capability: tuple[int, int] | None,
    rates: DenseRates | None,
    check: str = "given",
) -> Gpu:
    """A GPU that the catalogue does not have; ``check`` says where its bandwidth comes from."""
    return Gpu(
        slug="custom",
        name=name,
        vendor="custom",
        category="custom",
        architecture="unknown",
        memory=memory,
        compute_capability=compute_capability,
        bandwidth_gbs=bandwidth_gbs,
        bandwidth_check=None if bandwidth_gbs is None else check,
        rates=rates,
    )


def custom_text(gpu: Gpu, total_bytes: int | None) -> str:
    """``gpu`` as text that :func:`parse_custom` reads, prefix included."""
    parts = ["custom:" + _head(total_bytes, gpu.bandwidth_gbs)]
    for dtype in _RATES:
        rate = None if gpu.rates is None else getattr(gpu.rates, dtype)
        if rate is not None:
            parts.append(f"{dtype}={_plain(rate)}")
    if gpu.compute_capability is not None:
        parts.append("cc={}.{}".format(*gpu.compute_capability))
    if gpu.name != "custom GPU":
        plain = re.sub(r"[^A-Za-z0-9 ._()/-]", "-", gpu.name)[:80].lstrip(" ._()/-")
        parts.append(f"name={plain or 'GPU'}")
    return ",".join(parts)


def parse_cpu(text: str) -> Gpu:
    """``SIZE[@GB/s][,amx_tile][,avx512_bf16]`` as a CPU.

    Its memory, its bandwidth if given, and which of those instructions it has. Raises
    :class:`InvalidRig`.
    """
    head, *flags = (part.strip() for part in text.split(","))
    total, bandwidth = _size_and_bandwidth(head, CPU_EXAMPLE)
    for flag in flags:
        if flag not in CPU_FLAGS:
            raise _invalid(f"{quoted(flag)} is not one of {', '.join(CPU_FLAGS)}", CPU_EXAMPLE)
    memory = memory_of(total, "given", type="system", unified=True)
    return cpu_gpu(memory, bandwidth, tuple(flag for flag in CPU_FLAGS if flag in flags))


def cpu_gpu(
    memory: GpuMemory, bandwidth_gbs: float | None = None, flags: tuple[str, ...] = ()
) -> Gpu:
    """The CPU as a device, with those instructions of `CPU_FLAGS` that it has."""
    return Gpu(
        slug="cpu",
        name="CPU",
        vendor="cpu",
        category="cpu",
        architecture="unknown",
        memory=memory,
        bandwidth_gbs=bandwidth_gbs,
        bandwidth_check=None if bandwidth_gbs is None else "given",
        cpu_flags=flags,
    )


def cpu_text(gpu: Gpu, total_bytes: int | None) -> str:
    """``gpu`` as text that reads back."""
    if total_bytes is None:
        return "cpu"
    return "cpu:" + ",".join((_head(total_bytes, gpu.bandwidth_gbs), *gpu.cpu_flags))


def _head(total_bytes: int | None, bandwidth_gbs: float | None) -> str:
    size = "" if total_bytes is None else exact_size(total_bytes)
    return size if bandwidth_gbs is None else f"{size}@{_plain(bandwidth_gbs)}"


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)


def _size_and_bandwidth(text: str, example: str) -> tuple[int, float | None]:
    size, at, bandwidth = text.partition("@")
    try:
        total = parse_size(size)
    except ValueError as error:
        raise _invalid(str(error), example) from None
    return total, _positive(bandwidth.strip(), "the bandwidth", example) if at else None


def _positive(text: str, what: str, example: str) -> float:
    if not _NUMBER.fullmatch(text) or not float(text):
        raise _invalid(f"{what} {quoted(text)} is not a positive number", example)
    return float(text)


def _capability(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]{1,2})\.([0-9])", text)
    if match is None:
        raise _invalid(f"the compute capability {quoted(text)} is not like 8.9", CUSTOM_EXAMPLE)
    return int(match[1]), int(match[2])


def _invalid(why: str, example: str) -> InvalidRig:
    return InvalidRig(f"{why[0].upper()}{why[1:]}; write for example {example}")
