"""What earlier runs taught: measured terms, by GPU and release, that correct the fitted ones.

Plans of a program that asks for it (`calibrated_by`, or `calibrate_process` for all threads) take
what was measured into account; the library alone never does. Each term is a normal variable whose
prior is the fitted value with its band. Runs pull it towards what they measured, the more the wider
the band was and the more of them there are, and narrow it; how far runs lie apart is learned, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from functools import cache
from math import sqrt
from pathlib import Path
from typing import Final

from msgspec import Struct

from planner.engine.releases import Release, find_release
from planner.quantity import BAND_SIGMAS, Basis, Quantity

# Before anything is known of it, runs scatter by this share of the fitted value's deviation, which
# counts as much as this many runs.
_PRIOR_SCATTER: Final = 0.5
_PRIOR_RUNS: Final = 2
_LEAST_SCATTER: Final = 0.005  # of the value: what is measured is printed in hundredths of a GiB
_FORMULAS: Final = (
    "memory/activation.py",
    "memory/cuda_graphs.py",
    "memory/data/constants.json",
    "speed/load.py",
    "speed/step.py",
    "speed/data/constants.json",
)


def store_path() -> Path:
    """The store of this user; it need not be there yet."""
    from platformdirs import user_data_path

    return user_data_path("vplan", appauthor=False) / "calibration.sqlite3"


class Term(Enum):
    """What a run can teach. The value is the name in stores and reports."""

    OUTSIDE_TORCH = "outside_torch"  # bytes; subject: the fitted constant that it corrects
    CONTEXT = "context"  # bytes; of CUDA and NCCL before the start
    CPU_PROCESS = "cpu_process"  # bytes; a CPU worker beside its model
    ACTIVATION = "activation"  # bytes; subject: the architecture
    CUDA_GRAPHS = "cuda_graphs"  # bytes
    TPOT = "tpot"  # seconds; subject: the format of the weights
    TTFT = "ttft"

    @property
    def label(self) -> str:
        """In words."""
        return _LABELS[self]

    @property
    def is_ratio(self) -> bool:
        """Whether runs teach a factor for the formula's result, not a size of its own."""
        return self in (Term.ACTIVATION, Term.CUDA_GRAPHS, Term.TPOT, Term.TTFT)


_LABELS: Final = {
    Term.OUTSIDE_TORCH: "memory outside torch",
    Term.CONTEXT: "context at the start",
    Term.CPU_PROCESS: "CPU worker's own memory",
    Term.ACTIVATION: "activation peak",
    Term.CUDA_GRAPHS: "CUDA graphs",
    Term.TPOT: "time per token",
    Term.TTFT: "time to first token",
}


class Observation(Struct, frozen=True):
    """One term of one run: what it came to and what the fitted constants said, in the same unit.

    `formula` names the version of the formula behind `fitted`.
    """

    term: Term
    subject: str
    measured: float
    fitted: float
    formula: str


class Lesson(Struct, frozen=True):
    """The observations of a run with what they hold for."""

    gpu: str  # slug
    release: str
    observations: tuple[Observation, ...]


class Calibration:
    """What runs taught, ready to be asked.

    `certain`: the lessons are of the very launch that is planned, and taken as they are.
    """

    def __init__(self, lessons: Iterable[Lesson] = (), *, certain: bool = False) -> None:
        self._certain = certain
        self._seen: dict[tuple[str, str, Term, str], list[Observation]] = {}
        self._runs: dict[tuple[str, str], int] = {}
        for lesson in lessons:
            place = (lesson.gpu, _class_of(lesson.release))
            useful = [seen for seen in lesson.observations if _is_current(seen)]
            if useful:
                self._runs[place] = self._runs.get(place, 0) + 1
            for seen in useful:
                self._seen.setdefault((*place, seen.term, seen.subject), []).append(seen)

    def runs(self, gpu: str, release: Release) -> int:
        """How many taught something of a GPU under releases like this one."""
        return self._runs.get((gpu, release_class(release)), 0) if self._runs else 0

    def terms(self, gpu: str, release: Release) -> list[Term]:
        """What they taught."""
        place = (gpu, release_class(release))
        return list(dict.fromkeys(key[2] for key in self._seen if key[:2] == place))

    def correct(
        self, term: Term, subject: str, fitted: Quantity, gpu: str, release: Release
    ) -> Quantity:
        """A fitted quantity as the runs would have it; itself where there are none."""
        if not self._seen:
            return fitted
        seen = self._seen.get((gpu, release_class(release), term, subject))
        if not seen or fitted.value <= 0:
            return fitted
        shares = [each.measured / (each.fitted if term.is_ratio else fitted.value) for each in seen]
        value, band = shrunk(shares, (fitted.high - fitted.low) / (2 * fitted.value))
        if self._certain:
            value, band = shares[-1], _LEAST_SCATTER * shares[-1]
        runs = f"{len(seen)} run{'s' if len(seen) > 1 else ''} on this GPU"
        low, high = max(0.0, value - band) * fitted.value, (value + band) * fitted.value
        return Quantity(value * fitted.value, low, high, Basis.MEASURED, runs)


def shrunk(shares: Sequence[float], band: float) -> tuple[float, float]:
    """Value and half-band of the next run, after runs that came to `shares` of the fitted value.

    `band` is the fitted half-band, as a share too. The mean of two normal distributions weighed by
    their precision; the scatter of runs is estimated with a prior of a few of them.
    """
    count, mean = len(shares), sum(shares) / len(shares)
    prior = max(band, _LEAST_SCATTER) / BAND_SIGMAS
    squares = sum((share - mean) ** 2 for share in shares)
    expected = _PRIOR_RUNS * (_PRIOR_SCATTER * prior) ** 2
    scatter = max((expected + squares) / (_PRIOR_RUNS + count - 1), _LEAST_SCATTER**2)
    precision = 1 / prior**2 + count / scatter
    value = (1 / prior**2 + count * mean / scatter) / precision
    return value, BAND_SIGMAS * sqrt(1 / precision + scatter)


@cache
def release_class(release: Release) -> str:
    """Releases between which no fitted constant changes, by the first of them."""
    from planner.memory.constants import shipped_constants

    starts = {str(row["since"]) for rows in shipped_constants().values() for row in rows}
    passed = [start for start in starts if release.at_least(start)]
    return max(passed, key=lambda start: [int(part) for part in start.split(".")])


@cache
def _class_of(release: str) -> str:
    return release_class(find_release(release))


@cache
def formula() -> str:
    """The version of the formulas and constants that fitted values come from."""
    import hashlib  # loads OpenSSL

    folder = Path(__file__).parent
    parts = [(folder / name).read_bytes() for name in _FORMULAS if (folder / name).exists()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def _is_current(seen: Observation) -> bool:
    """A factor belongs to the formula that it was found with."""
    return seen.measured >= 0 and (
        not seen.term.is_ratio or (seen.formula == formula() and seen.fitted > 0)
    )


_OVERRIDE: ContextVar[Calibration | None] = ContextVar("calibration", default=None)
_NONE: Final = Calibration()


class _Process:
    """What all threads of this process use, loaded when a plan first asks."""

    load: Callable[[], Calibration] | None = None
    loaded: Calibration | None = None


@contextmanager
def calibrated_by(calibration: Calibration | None) -> Iterator[None]:
    """Plan with this here; with none of it for None."""
    token = _OVERRIDE.set(calibration if calibration is not None else _NONE)
    try:
        yield
    finally:
        _OVERRIDE.reset(token)


@contextmanager
def calibrate_process(load: Callable[[], Calibration]) -> Iterator[None]:
    """Plan with this in all threads, until the end of the `with`."""
    before = _Process.load
    _Process.load, _Process.loaded = load, None
    try:
        yield
    finally:
        _Process.load, _Process.loaded = before, None


def reload() -> None:
    """The next plan of this process asks anew what was learned."""
    _Process.loaded = None


def in_use() -> Calibration:
    """What plans take into account here and now."""
    override = _OVERRIDE.get()
    if override is not None:
        return override
    if _Process.load is None:
        return _NONE
    if _Process.loaded is None:
        _Process.loaded = _Process.load()
    return _Process.loaded
