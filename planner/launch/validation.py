"""A validated launch: start the command, read what it allocated, ask it, stop it, compare.

From a program, in a thread of its own if it must not wait:

    preflight = prepare(words, "auto")          # what will be run; PlanError, CardError, ...
    if not preflight.forbidden:                 # else its findings say why
        stop = threading.Event()                # set it at any time: `Cancelled` is raised
        run = validate(preflight, new_folder(preflight.check.command.model),
                       observer=show, cancel=stop)   # show(event): see planner.launch.progress
        write_files(run)                        # report.json and report.md beside the log
        remember(run)                           # what it taught, for the next plans
    for past in past_runs():                    # newest first: folder and ValidationReport
        ...

`prepare` is in planner.launch.preflight, `new_folder`, `write_files` and
`ValidationReport.of(run)` in planner.report.validation, `past_runs` and
`remember` in planner.launch.history. Whatever
ends `validate`, an error of the observer too, the server and all its processes have ended with it.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from math import inf
from pathlib import Path
from threading import Event as Flag
from typing import Final
from uuid import uuid4

from msgspec import Struct, field

from planner.calibration import Observation
from planner.errors import PlanError
from planner.launch.bench import Load, send
from planner.launch.client import Client, ServerError
from planner.launch.facts import Failure, FailureKind, LaunchFacts
from planner.launch.learning import observe
from planner.launch.load import levels
from planner.launch.log import LOG
from planner.launch.preflight import Preflight, server_environment
from planner.launch.probe import Probe, probe
from planner.launch.process import Launch
from planner.launch.progress import Observer, ignore
from planner.launch.server import Outcome, Server
from planner.launch.spent import Spent
from planner.launch.terms import Term, compare, unseen
from planner.launch.usage import Usage, Watch, meter

_LOAD_SECONDS: Final = 75.0  # that a load may take
_PATIENCE: Final = 4.0  # for the first requests, where a load follows
_DYING_SECONDS: Final = 5.0  # for a server that failed a request to say why


class Verdict(Enum):
    """What came of a launch."""

    INSIDE = "inside"  # every term in the band of the plan
    OUTSIDE = "outside"
    FAILED = "failed"


class Kept(Struct, frozen=True):
    """A server that runs on: its process, where it listens, the file that holds its key."""

    pid: int
    url: str
    key_file: Path


class Validation(Struct, frozen=True):
    """One launch beside its plan."""

    preflight: Preflight
    began: datetime
    folder: Path
    facts: LaunchFacts
    probe: Probe | None
    terms: tuple[Term, ...]
    ready_seconds: float | None
    failure: Failure | None
    usage: Usage
    observations: tuple[Observation, ...] = ()
    kept: Kept | None = None
    stop_seconds: float | None = None
    attached: bool = False  # the server was there already
    uid: str = field(default_factory=lambda: uuid4().hex)

    @property
    def verdict(self) -> Verdict:
        """Whether the plan was right."""
        if self.failure is not None:
            return Verdict.FAILED
        return Verdict.INSIDE if all(term.inside for term in self.terms) else Verdict.OUTSIDE

    @property
    def spent(self) -> Spent:
        """Where the time went."""
        probe, levels = self.probe, self.probe.levels if self.probe is not None else ()
        return Spent(
            self.ready_seconds,
            probe.seconds if probe is not None else None,
            probe.load_seconds if probe is not None else None,
            sum(result.seconds for result in levels) if levels else None,
            self.stop_seconds,
        )

    @property
    def unseen(self) -> tuple[str, ...]:
        """Parts of the memory that nothing told of, for a server that answered."""
        memory = self.preflight.check.memory
        return unseen(memory, self.facts) if memory is not None and self.probe is not None else ()

    @property
    def log(self) -> Path:
        """What the server printed."""
        return self.folder / LOG


def validate(
    preflight: Preflight,
    folder: Path,
    *,
    timeout: float = 1800,
    keep: bool = False,
    requests: int | None = None,
    observer: Observer = ignore,
    cancel: Flag | None = None,
) -> Validation:
    """Run the launch once; its log goes to `folder`. A server that is not kept has ended after.

    `timeout` are the seconds until it must be ready, `requests` how many are sent at each level of
    concurrency, instead of as many as half a minute takes (0: no load). Raises `Cancelled` once
    `cancel` is set.
    """
    memory = preflight.check.memory
    if memory is None or preflight.forbidden:
        raise PlanError("the plan says that this command does not start")
    began = datetime.now(UTC)
    key = secrets.token_urlsafe(24)
    client = Client.local(preflight.port, key)
    environ = server_environment(preflight.environ, key, os.environ)
    launch = Launch(preflight.argv, environ, folder / LOG, preflight.after)
    answers: Probe | None = None
    ready: float | None = None
    failure: Failure | None = None
    kept: Kept | None = None
    pids: list[Callable[[], list[int]]] = []
    with (
        meter(preflight.check.rig, lambda: [pid for of in pids for pid in of()]) as reading,
        Watch(reading, observer) as watch,
        Server(launch, client, observer) as server,
    ):
        pids.append(lambda: server.pids)
        outcome = server.wait_until_ready(timeout, cancel)
        if outcome is Outcome.READY:
            ready = server.seconds
            try:
                with watch.busy():
                    answers = ask(preflight, client, folder, requests, observer, cancel)
            except ServerError as error:
                failure = failed_request(error)
                server.wait_for_end(_DYING_SECONDS)
        elif outcome is Outcome.TIMEOUT:
            failure = Failure(FailureKind.TIMEOUT, _how_far(server.facts, timeout), seen=True)
        if answers is not None and keep:
            kept = _keep(server, preflight.port, key, folder)
        began_to_stop = time.monotonic()
        exit_status = server.exit_status if kept else server.stop()
        stopped = None if kept else time.monotonic() - began_to_stop
        facts = server.facts
        usage = watch.stop()
    if outcome is Outcome.ENDED:
        ended = f"the server ended with status {exit_status}"
        failure = Failure(_class_of(exit_status), ended, seen=True)
    if failure is not None and failure.kind is not FailureKind.TIMEOUT:
        failure = facts.failure or failure
    terms = (
        compare(memory, facts, answers, preflight.check.command.synthetic)
        if answers is not None
        else ()
    )
    learned = observe(preflight.check, facts, answers)  # a start that failed teaches, too
    return Validation(
        preflight, began, folder, facts, answers, terms, ready, failure, usage, learned, kept,
        stopped,
    )  # fmt: skip


def ask(
    preflight: Preflight,
    client: Client,
    folder: Path,
    requests: int | None,
    observer: Observer,
    cancel: Flag | None,
) -> Probe:
    """What a server says of itself, first requests, and a load if its model writes text.

    Raises `ServerError`, `Cancelled`.
    """
    memory = preflight.check.memory
    assert memory is not None
    writes = not memory.config.pooling and not memory.card.has_cross_attention
    loads = writes and requests != 0
    patience = _PATIENCE if loads else inf  # the load tells more
    answers = probe(client, generates=writes, patience=patience, observer=observer, cancel=cancel)
    if not loads:
        return answers
    began = time.monotonic()
    longest = answers.max_model_len or memory.kv_cache.max_model_len
    load = Load(
        client,
        answers.model,
        preflight.check.command.model,
        levels(preflight.workload, longest, answers.completions, requests),
        memory.card.vocab_size,
        real_text=memory.config.speculation is not None,
    )
    python = preflight.installation.python
    results = send(load, python, folder, seconds=_LOAD_SECONDS, observer=observer, cancel=cancel)
    return answers.with_load(results, client, time.monotonic() - began)


def failed_request(error: ServerError) -> Failure:
    """Of a server that was ready."""
    kind = FailureKind.HANG if error.is_silent else FailureKind.CRASH
    return Failure(kind, str(error), when_serving=True, seen=True)


def _keep(server: Server, port: int, key: str, folder: Path) -> Kept:
    """The key goes to a file that only its owner reads, never to a terminal."""
    path = folder / "api_key"
    path.touch(mode=0o600)
    path.write_text(key)
    server.keep()
    return Kept(server.pid, f"http://127.0.0.1:{port}", path)


def _how_far(facts: LaunchFacts, timeout: float) -> str:
    reached = facts.reached
    last = f"; the last it reached: {reached.label}" if reached is not None else ""
    return f"not ready after {timeout:.0f} s{last}"


def _class_of(exit_status: int | None) -> FailureKind:
    killed = exit_status is not None and exit_status < 0
    return FailureKind.KILLED if killed else FailureKind.CRASH
