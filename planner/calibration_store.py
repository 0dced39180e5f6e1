"""Where runs and what they taught are kept: an SQLite file in the user's data directory.

One writer at a time, others wait; a file that is damaged is set aside and never deleted, and one of
a newer vplan is left alone. A file with values that no run has is damaged, too.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from planner.calibration import Calibration, Lesson, Observation, Term, store_path
from planner.command.secrets import redacted
from planner.errors import PlanError

_VERSION: Final = 1
_WAIT_SECONDS: Final = 30.0
_SIZES: Final = (1e-9, 1e18)  # between them lies every measured time and size, in seconds and bytes
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_SCHEMA: Final = """
CREATE TABLE run (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL UNIQUE,
    began TEXT NOT NULL,
    gpu TEXT NOT NULL,
    release TEXT NOT NULL,
    model TEXT NOT NULL,
    verdict TEXT NOT NULL,
    command TEXT NOT NULL,
    source TEXT NOT NULL
);
CREATE TABLE observation (
    run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    term TEXT NOT NULL,
    subject TEXT NOT NULL,
    measured REAL NOT NULL,
    fitted REAL NOT NULL,
    formula TEXT NOT NULL
);
CREATE INDEX observation_run ON observation(run);
"""


class StoreError(PlanError):
    """The store cannot be used; the text says why."""


class Run(Struct, frozen=True):
    """A validation as the store keeps it. `number` is the store's; 0 before it has one."""

    began: str  # ISO 8601
    gpu: str
    release: str
    model: str
    verdict: str
    command: str
    observations: tuple[Observation, ...]
    uid: str = ""
    source: str = "this machine"
    number: int = 0

    @property
    def lesson(self) -> Lesson:
        """What it taught."""
        return Lesson(self.gpu, self.release, self.observations)

    @property
    def makes_sense(self) -> bool:
        """Whether it can be a run: whatever else is in a file, nobody measured it."""
        from planner.engine.releases import find_release

        texts = [self.began, self.gpu, self.release, self.model, self.verdict, self.command]
        texts += [self.uid, self.source]
        texts += [text for seen in self.observations for text in (seen.subject, seen.formula)]
        if not all(isinstance(text, str) for text in texts):
            return False
        try:
            find_release(self.release)
        except PlanError:
            return False
        return all(_is_size(n) for seen in self.observations for n in (seen.measured, seen.fitted))


class CalibrationStore:
    """The runs of a file, which is made when first written to.

    `refill` gives runs for a new file that takes the place of a damaged one; `warn` is told what
    happened, in a line. Methods raise `StoreError`.
    """

    def __init__(
        self,
        path: Path | None = None,
        refill: Callable[[], Iterable[Run]] = tuple,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.path = path if path is not None else store_path()
        self._refill, self._warn = refill, warn

    def add(self, runs: Iterable[Run]) -> int:
        """Keep runs; how many were not there yet. They are all kept, or none is."""
        known = list(runs)
        if not all(run.makes_sense for run in known):
            raise StoreError("a run with values that nobody measures is not kept")
        with self._open() as base:
            return sum(_insert(base, run) for run in known)

    def runs(self) -> list[Run]:
        """All of them, oldest first."""
        if not self.path.exists():
            return []
        with self._open() as base:
            return list(_select(base))

    def calibration(self) -> Calibration:
        """What they taught."""
        return Calibration(run.lesson for run in self.runs())

    def forget(self, numbers: Iterable[int] | None) -> int:
        """Drop runs, all for None; how many there were."""
        if not self.path.exists():
            return 0
        with self._open() as base:
            if numbers is None:
                return base.execute("DELETE FROM run").rowcount
            return sum(
                base.execute("DELETE FROM run WHERE id = ?", (number,)).rowcount
                for number in dict.fromkeys(numbers)
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The file in a transaction that is kept if nothing goes wrong, with no one else in it."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _alone(self.path.with_suffix(".lock")), closing(self._connect()) as base:
                base.execute("BEGIN IMMEDIATE")
                try:
                    yield base
                except BaseException:
                    base.execute("ROLLBACK")
                    raise
                base.execute("COMMIT")
        except (OSError, sqlite3.Error, UnicodeDecodeError) as error:  # of names of columns
            raise StoreError(f"{self.path} cannot be used: {error}") from None

    def _connect(self) -> sqlite3.Connection:
        try:
            return _connected(self.path)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", None) not in _DAMAGED:
                raise
        aside = self._set_aside()
        base = _connected(self.path)
        base.execute("BEGIN IMMEDIATE")
        count = sum(_insert(base, run) for run in self._refill() if run.makes_sense)
        base.execute("COMMIT")
        self._warn(
            f"{self.path} was damaged and is now {aside.name}; a new one holds {count} runs from "
            "the reports that are still there"
        )
        return base

    def _set_aside(self) -> Path:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        for number in range(1, 1000):
            aside = self.path.with_name(f"{self.path.name}.damaged-{stamp}-{number}")
            if not aside.exists():
                break
        for suffix in ("-journal", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                self.path.with_name(self.path.name + suffix).rename(f"{aside}{suffix}")
        self.path.rename(aside)
        return aside


def _connected(path: Path) -> sqlite3.Connection:
    """A connection to a file that is whole and of our version."""
    base = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)
    base.text_factory = partial(str, encoding="utf-8", errors="replace")  # SQLite checks no text
    try:
        base.execute("PRAGMA foreign_keys = ON")
        version = base.execute("PRAGMA user_version").fetchone()[0]
        if version > _VERSION:
            raise StoreError(f"{path} was written by a newer vplan; this one leaves it alone")
        state = base.execute("PRAGMA quick_check(1)").fetchone()[0]
        if state == "ok" and version == _VERSION:
            state = "ok" if all(run.makes_sense for run in _select(base)) else "no runs"
        if state != "ok":
            error = sqlite3.DatabaseError(state)
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error
        if version == 0:
            base.executescript(f"BEGIN;{_SCHEMA}PRAGMA user_version = {_VERSION};COMMIT;")
    except BaseException:
        base.close()
        raise
    return base


def _is_size(value: Any) -> bool:
    """Whether a value can be a time or a size, or the difference of two."""
    least, most = _SIZES
    return type(value) in (int, float) and (value == 0 or least <= abs(value) <= most)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """The only process inside, where the system has file locks; SQLite's own are the others'."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    until = time.monotonic() + _WAIT_SECONDS
    with lock.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise StoreError(f"another vplan holds {lock}") from None
                time.sleep(0.02)
            except OSError:  # a file system without locks
                break
        yield


def _insert(base: sqlite3.Connection, run: Run) -> int:
    """1 if it was not there."""
    uid = run.uid or uuid4().hex
    if base.execute("SELECT 1 FROM run WHERE uid = ?", (uid,)).fetchone():
        return 0
    model, command = redacted(run.model), redacted(run.command)
    row = (uid, run.began, run.gpu, run.release, model, run.verdict, command, run.source)
    added = base.execute(
        "INSERT INTO run (uid, began, gpu, release, model, verdict, command, source) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    )
    base.executemany(
        "INSERT INTO observation VALUES (?, ?, ?, ?, ?, ?)",
        [
            (added.lastrowid, each.term.value, each.subject, each.measured, each.fitted,
             each.formula)
            for each in run.observations
        ],
    )  # fmt: skip
    return 1


def _select(base: sqlite3.Connection) -> Iterator[Run]:
    seen: dict[int, list[Observation]] = {}
    for number, term, subject, *sizes, formula in base.execute("SELECT * FROM observation"):
        with suppress(ValueError):  # a term of a newer vplan
            measured, fitted = sizes
            observation = Observation(Term(term), subject, measured, fitted, formula)
            seen.setdefault(number, []).append(observation)
    columns = "id, uid, began, gpu, release, model, verdict, command, source"
    rows = base.execute(f"SELECT {columns} FROM run ORDER BY id")
    for number, uid, began, gpu, release, model, verdict, command, source in rows:
        taught = tuple(seen.get(number, ()))
        yield Run(began, gpu, release, model, verdict, command, taught, uid, source, number)


def exported(runs: Iterable[Run]) -> str:
    """Runs as JSON, for another machine, without secrets."""
    rows = [
        {
            "uid": run.uid, "began": run.began, "gpu": run.gpu, "release": run.release,
            "model": run.model, "verdict": run.verdict, "command": run.command,
            "observations": [
                {"term": seen.term.value, "subject": seen.subject, "measured": seen.measured,
                 "fitted": seen.fitted, "formula": seen.formula}
                for seen in run.observations
            ],
        }
        for run in runs
    ]  # fmt: skip
    content = {"kind": "calibration", "schema_version": _VERSION, "runs": rows}
    return redacted(json.dumps(content, indent=2))


def imported(text: str, source: str) -> list[Run]:
    """Runs of an export. Raises `PlanError` for any other text."""
    try:
        content = json.loads(text)
        if content["kind"] != "calibration":
            raise ValueError
        if content["schema_version"] > _VERSION:
            raise PlanError(f"{source} was written by a newer vplan")
        runs = [replace(_run(row), source=source) for row in content["runs"]]
        if not all(run.makes_sense for run in runs):
            raise ValueError
        return runs
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
        raise PlanError(f"{source} is no export of vplan calibration") from None


def _run(row: dict[str, Any]) -> Run:
    from planner.engine.releases import find_release

    find_release(str(row["release"]))  # PlanError if it is none
    observations = tuple(
        Observation(
            Term(seen["term"]),
            str(seen["subject"]),
            float(seen["measured"]),
            float(seen["fitted"]),
            str(seen["formula"]),
        )
        for seen in row["observations"]
    )
    return Run(
        str(row["began"]),
        str(row["gpu"]),
        str(row["release"]),
        str(row["model"]),
        str(row["verdict"]),
        str(row["command"]),
        observations,
        str(row["uid"]),
    )
