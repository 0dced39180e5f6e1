"""This machine's CPU as vLLM's CPU backend sees it (vllm/utils/cpu_resource_utils.py)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from hardware_db.host import HostMemory, host_memory
from hardware_db.units import KIB

# Instructions that decide what vLLM's kernels keep: matrix tiles, and BF16 dot products.
CPU_FLAGS: Final = ("amx_tile", "avx512_bf16")
_UNLIMITED: Final = 1 << 62  # what version 1 of cgroups says where there is no limit
_LIMITS: Final = (  # of a container, with its use: cgroups version 2 and 1
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)


def cpu_memory(root: str = "/") -> HostMemory | None:
    """The memory that a worker may use: of its NUMA node, and within a container's limit.

    None where it cannot be read (not Linux).
    """
    base = Path(root)
    memory = _node_memory(base / "sys/devices/system/node")
    memory = memory or host_memory(str(base / "proc/meminfo"))
    limit, used = _container(base / "sys/fs/cgroup")
    if memory is None or limit is None or limit >= memory.total_bytes:
        return memory
    return HostMemory(limit, max(0, min(memory.available_bytes, limit - used)))


def cpu_flags(root: str = "/") -> tuple[str, ...]:
    """Those of :data:`CPU_FLAGS` that this machine has."""
    try:
        text = (Path(root) / "proc/cpuinfo").read_text("ascii", errors="replace")
    except OSError:
        return ()
    line = next((line for line in text.splitlines() if line.startswith("flags")), "")
    found = line.split()
    return tuple(flag for flag in CPU_FLAGS if flag in found)


def _node_memory(nodes: Path) -> HostMemory | None:
    """Of the node with the first CPU that this process may run on."""
    try:
        first = min(os.sched_getaffinity(0))
        node = next(n for n in nodes.glob("node[0-9]*") if first in _ids(n / "cpulist"))
        fields = _fields((node / "meminfo").read_text("ascii"))
        free = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")
        return HostMemory(fields["MemTotal"], sum(fields[name] for name in free))
    except (AttributeError, StopIteration, OSError, KeyError, ValueError):
        return None


def _fields(text: str) -> dict[str, int]:
    """Lines such as "Node 0 MemTotal: 97421888 kB", in bytes."""
    lines = (line.split() for line in text.splitlines())
    return {words[2].rstrip(":"): int(words[3]) * KIB for words in lines if len(words) > 3}


def _ids(path: Path) -> set[int]:
    """A list such as "0-3,8", read out."""
    parts = (part.partition("-") for part in path.read_text("ascii").strip().split(",") if part)
    return {i for low, _, high in parts for i in range(int(low), int(high or low) + 1)}


def _container(cgroup: Path) -> tuple[int | None, int]:
    """Limit and use of this container; None without a limit."""
    for limit_file, use_file in _LIMITS:
        try:
            limit = int((cgroup / limit_file).read_text("ascii"))  # "max" is no number
            used = int((cgroup / use_file).read_text("ascii"))
        except (OSError, ValueError):
            continue
        if limit < _UNLIMITED:
            return limit, used
    return None, 0
