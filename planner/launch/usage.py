"""Memory and power during a launch, watched from a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Final, Self

from msgspec import Struct

from hardware_db import Rig
from hardware_db.amdgpu import amd_usage
from hardware_db.host import host_memory
from hardware_db.usage import GpuMeter, GpuUsage
from planner.launch.progress import InUse, Observer

_EVERY: Final = 1.0  # seconds
_NOTHING: Final = 256 * 2**20  # bytes: other programs come and go
_KIB: Final = 1024

Reading = Callable[[], InUse | None]


class Usage(Struct, frozen=True):
    """What was seen: bytes and watts."""

    before: int | None = None
    peak: int | None = None
    mean_watts: float | None = None
    peak_watts: float | None = None
    after: int | None = None

    @property
    def kept(self) -> int:
        """What is in use after that was not before; 0 for as good as nothing, or not known."""
        if self.before is None or self.after is None:
            return 0
        more = self.after - self.before
        return more if more > _NOTHING else 0


class Watch:
    """Reads every second until it is stopped; for a `with`."""

    def __init__(self, reading: Reading, observer: Observer, every: float = _EVERY) -> None:
        self._reading, self._observer, self._every = reading, observer, every
        self._over = Event()
        self._peak: int | None = None
        self._watts: list[float] = []
        self._busy: list[float] = []
        self._is_busy = False
        first = reading()
        self._before = first.memory if first is not None else None
        self._after: int | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """While requests are answered: the power that counts."""
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        self._thread.join()

    def stop(self) -> Usage:
        """The last reading is that of afterwards."""
        self._over.set()
        self._thread.join()
        last = self._reading()
        self._after = last.memory if last is not None else None
        watts = self._busy or self._watts
        return Usage(
            self._before,
            self._peak,
            sum(watts) / len(watts) if watts else None,
            max(watts, default=None),
            self._after,
        )

    def _run(self) -> None:
        while not self._over.wait(self._every):
            now = self._reading()
            if now is None:
                continue
            self._peak = max(now.memory, self._peak or 0)
            if now.watts is not None:
                (self._busy if self._is_busy else self._watts).append(now.watts)
            self._observer(now)


@contextmanager
def meter(rig: Rig, pids: Callable[[], Iterable[int]]) -> Iterator[Reading]:
    """What reads a rig: the driver of this machine's GPUs, the processes' memory for a CPU.

    Of a GPU that shares the CPU's memory NVML knows nothing: there it is what the machine lacks.
    """
    if rig.smallest.gpu.vendor == "cpu":
        yield lambda: _of_processes(pids())
        return
    if rig.smallest.gpu.memory.unified:
        yield _of_the_machine
        return
    indices = [device.index for device in rig.devices if device.index is not None]
    if rig.smallest.gpu.vendor == "amd":
        yield lambda: _in_use(amd_usage(indices=indices))
        return
    try:
        import pynvml
    except ImportError:
        yield lambda: None
        return
    detected = [device for device in rig.devices if device.index is not None]
    with GpuMeter(pynvml, detected) as gpus:
        yield lambda: _in_use(gpus.read())


def _in_use(usage: GpuUsage | None) -> InUse | None:
    if usage is None:
        return None
    return InUse(usage.memory_bytes, usage.watts, usage.gpus)


def _of_the_machine() -> InUse | None:
    memory = host_memory()
    if memory is None:
        return None
    return InUse(memory.total_bytes - memory.available_bytes, None)


def _of_processes(pids: Iterable[int]) -> InUse | None:
    """Their own memory and a fair share of what they have in common (Linux)."""
    sizes = []
    for pid in pids:
        with suppress(OSError, ValueError, StopIteration):
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii")
            line = next(line for line in rollup.splitlines() if line.startswith("Pss:"))
            sizes.append(int(line.split()[1]) * _KIB)
    return InUse(sum(sizes), None) if sizes else None
