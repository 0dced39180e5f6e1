"""What vLLM's CPU backend finds on a machine, from files like the kernel's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hardware_db.cpu import cpu_flags, cpu_memory
from hardware_db.host import HostMemory

KIB = 1024


def write(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def node(number: int, cpus: str, total: int, free: int) -> dict[str, str]:
    fields = {
        "MemTotal": total,
        "MemFree": free,
        "MemUsed": total - free,
        "Active(file)": 30,
        "Inactive(file)": 20,
        "SReclaimable": 7,
    }
    folder = f"sys/devices/system/node/node{number}"
    lines = (f"Node {number} {name}:  {kib} kB\n" for name, kib in fields.items())
    return {f"{folder}/cpulist": cpus, f"{folder}/meminfo": "".join(lines)}


@pytest.fixture(autouse=True)
def cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {6, 9, 12}, raising=False)


def test_the_worker_gets_the_memory_of_its_node(tmp_path: Path) -> None:
    nodes = node(0, "0-3,8-11", 5000, 4000) | node(1, "4-7,12-15\n", 9000, 1000)
    assert cpu_memory(write(tmp_path, nodes)) == HostMemory(9000 * KIB, 1057 * KIB)


def test_without_nodes_it_is_the_machines(tmp_path: Path) -> None:
    meminfo = {"proc/meminfo": "MemTotal: 100 kB\nMemAvailable: 60 kB\n"}
    assert cpu_memory(write(tmp_path, meminfo)) == HostMemory(100 * KIB, 60 * KIB)
    assert cpu_memory(str(tmp_path / "none")) is None


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"memory.max": "4096\n", "memory.current": "1024\n"}, HostMemory(4096, 3072)),
        ({"memory.max": "4096\n", "memory.current": "9999\n"}, HostMemory(4096, 0)),
        ({"memory.max": "max\n", "memory.current": "1\n"}, HostMemory(8000 * KIB, 7057 * KIB)),
        (
            {"memory/memory.limit_in_bytes": "4096", "memory/memory.usage_in_bytes": "96"},
            HostMemory(4096, 4000),
        ),
        (
            {
                "memory/memory.limit_in_bytes": "9223372036854771712",
                "memory/memory.usage_in_bytes": "96",
            },
            HostMemory(8000 * KIB, 7057 * KIB),
        ),
    ],
)
def test_a_containers_limit_bounds_it(
    tmp_path: Path, files: dict[str, str], expected: HostMemory
) -> None:
    write(tmp_path, node(0, "0-15", 8000, 7000))
    write(tmp_path, {f"sys/fs/cgroup/{name}": text for name, text in files.items()})
    assert cpu_memory(str(tmp_path)) == expected


def test_flags(tmp_path: Path) -> None:
    cpuinfo = "processor : 0\nflags : fpu avx512_bf16 amx_bf16 amx_tile\nbugs : spectre_v1\n"
    assert cpu_flags(write(tmp_path, {"proc/cpuinfo": cpuinfo})) == ("amx_tile", "avx512_bf16")
    assert cpu_flags(write(tmp_path, {"proc/cpuinfo": "processor : 0\n"})) == ()
    assert cpu_flags(str(tmp_path / "none")) == ()
