"""A server's processes: ready, failed, hung, killed from any side; nothing is ever left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest

from planner.errors import PlanError
from planner.launch.client import Client, ServerError
from planner.launch.facts import FailureKind, Milestone
from planner.launch.ports import free_port
from planner.launch.process import Launch, Watched
from planner.launch.progress import Cancelled, Logged, Observer, Reached, ignore
from planner.launch.server import Outcome, Server

FAKE = Path(__file__).with_name("fake_vllm.py")
SECONDS = 20
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def gone(pids: list[int], within: float = 10) -> bool:
    until = time.monotonic() + within
    while any(runs(pid) for pid in pids):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Server]:
    """Starts the fake with one of its ills."""

    def start(ill: str = "", observer: Observer = ignore) -> Server:
        port = free_port()
        argv = (sys.executable, str(FAKE), "serve", "tiny", "--port", str(port))
        environ = {
            **os.environ,
            "FAKE_ILL": ill,
            "FAKE_PIDS": str(tmp_path / "pids"),
            "VLLM_API_KEY": "secret-key",
        }
        launch = Launch(argv, environ, tmp_path / "server.log")
        return Server(launch, Client.local(port, "secret-key"), observer)

    return start


@pytest.fixture
def pids(tmp_path: Path) -> Callable[[], list[int]]:
    """Server, watchdog, engine and worker."""

    def read() -> list[int]:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            with suppress(FileNotFoundError, ValueError):
                found: list[int] = json.loads((tmp_path / "pids").read_text())
                return found
            time.sleep(0.02)
        raise AssertionError("the fake did not start")

    return read


def test_a_server_that_gets_ready_and_is_stopped(
    start: Callable[..., Server], pids: Callable[[], list[int]], tmp_path: Path
) -> None:
    events: list[object] = []
    with start(observer=events.append) as server:
        assert server.wait_until_ready(SECONDS) is Outcome.READY
        seen = [event.milestone for event in events if isinstance(event, Reached)]
        assert seen[0] is Milestone.STARTED
        assert seen[-1] is Milestone.READY
        assert seen == sorted(seen)
        assert server.exit_status is None
        everyone = pids()
        assert all(runs(pid) for pid in everyone)
        assert server.stop() == 0
        assert gone(everyone, 0)
    assert server.stop() == 0
    assert server.facts.kv_tokens == 131072
    assert server.facts.failure is None
    assert "secret-key" not in (tmp_path / "server.log").read_text()
    assert (tmp_path / "server.log").stat().st_mode & 0o077 == 0


def test_a_server_that_does_not_start(
    start: Callable[..., Server], pids: Callable[[], list[int]]
) -> None:
    with start("kv-room") as server:
        assert server.wait_until_ready(SECONDS) is Outcome.ENDED
        assert server.exit_status == 1
        failure = server.facts.failure
    assert failure is not None
    assert (failure.kind, failure.longest_len) == (FailureKind.KV_ROOM, 10752)
    assert gone(pids())


@pytest.mark.parametrize("ill", ["hang", "deaf"])
def test_a_server_that_hangs(
    start: Callable[..., Server], pids: Callable[[], list[int]], ill: str
) -> None:
    with start(ill) as server:
        everyone = pids()
        assert server.wait_until_ready(0.5) is Outcome.TIMEOUT
    assert server.stop() in (-signal.SIGTERM, -signal.SIGKILL)
    assert gone(everyone)


def test_an_error_on_our_side_ends_it_too(
    start: Callable[..., Server], pids: Callable[[], list[int]]
) -> None:
    def interrupt() -> None:
        with start() as server:
            server.wait_until_ready(SECONDS)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert gone(pids(), 0)


def test_a_server_that_is_not_waited_for_any_longer(
    start: Callable[..., Server], pids: Callable[[], list[int]]
) -> None:
    """The flag may go up in another thread; the observer hears of the log until then."""
    flag, lines = Event(), []

    def hear(event: object) -> None:
        if isinstance(event, Logged):
            lines.append(event.line)
            if "Starting to load" in event.line:
                flag.set()

    def run() -> None:
        with start("hang", hear) as server:
            server.wait_until_ready(SECONDS, flag)

    with pytest.raises(Cancelled):
        run()
    assert "version 0.32.0" in lines[0]
    assert gone(pids(), 0)


def test_what_is_run_after_it(tmp_path: Path) -> None:
    """Even if it is vplan that ends first; a container is ended so."""
    after = ("touch", str(tmp_path / "after"))
    launch = Launch(("sleep", "600"), dict(os.environ), tmp_path / "log", after)
    with Watched(launch):
        assert not (tmp_path / "after").exists()
    assert (tmp_path / "after").exists()


def test_a_server_that_dies_while_it_serves(
    start: Callable[..., Server], pids: Callable[[], list[int]]
) -> None:
    with start() as server:
        server.wait_until_ready(SECONDS)
        everyone = pids()
        os.kill(server.pid, signal.SIGKILL)
        assert gone(everyone)
        assert server.exit_status == -signal.SIGKILL


def test_a_watchdog_that_is_killed(
    start: Callable[..., Server], pids: Callable[[], list[int]]
) -> None:
    """The server goes with it, what shares its group, and what was seen to have left that."""
    with start() as server:
        server.wait_until_ready(SECONDS)
        api, watchdog, *others = pids()
        assert server.exit_status is None
        os.kill(watchdog, signal.SIGKILL)
        assert gone([api])
        assert server.exit_status is not None
        assert gone(others)


def test_a_command_that_is_none(tmp_path: Path) -> None:
    launch = Launch((str(tmp_path / "none"), "serve"), dict(os.environ), tmp_path / "log")
    with pytest.raises(PlanError, match="cannot be started: No such file"):
        Server(launch, Client.local(1, ""))


def test_a_server_that_is_kept(start: Callable[..., Server], pids: Callable[[], list[int]]) -> None:
    server = start()
    server.wait_until_ready(SECONDS)
    server.keep()
    everyone = pids()
    time.sleep(0.5)
    assert all(runs(pid) for pid in everyone)
    os.kill(server.pid, signal.SIGTERM)
    assert gone(everyone)


PARENT = """
import os, sys, time
from pathlib import Path
from planner.launch.client import Client
from planner.launch.process import Launch
from planner.launch.server import Server
port, folder, fake = sys.argv[1:]
launch = Launch((sys.executable, fake, "serve", "tiny", "--port", port), dict(os.environ),
                Path(folder) / "server.log")
with Server(launch, Client.local(int(port), "")) as server:
    server.wait_until_ready(60)
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_whatever_ends_vplan_ends_the_server(
    pids: Callable[[], list[int]], tmp_path: Path, number: signal.Signals, early: bool
) -> None:
    """While the server loads, and while it serves."""
    environ = {**os.environ, "FAKE_PIDS": str(tmp_path / "pids"), "FAKE_ILL": "hang" * early}
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(free_port()), str(tmp_path), str(FAKE)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environ,
        # As in a terminal: jobs in the background of a shell ignore interrupts and hang-ups.
        preexec_fn=lambda: (
            signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
        ),
    )
    assert parent.stdout is not None
    with parent.stdout:
        everyone = pids()
        if not early:
            assert parent.stdout.readline() == b"ready\n"
        assert all(runs(pid) for pid in everyone)
        parent.send_signal(number)
        assert parent.wait(SECONDS) != 0
    assert gone(everyone)


def test_requests_need_the_key_and_no_proxy(
    start: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with start() as server:
        assert server.wait_until_ready(SECONDS) is Outcome.READY
        url = server._client.url
        assert Client(url, "secret-key").json("/v1/models")["data"][0]["id"] == "tiny"
        with pytest.raises(ServerError, match="HTTP 401") as error:
            Client(url, "other").json("/v1/models")
        assert error.value.status == 401
        with pytest.raises(ServerError, match="no JSON"):
            Client(url, "secret-key").json("/health")
    with pytest.raises(ServerError, match="refused"):
        Client(url, "").text("/health")
    assert "secret-key" not in repr(Client(url, "secret-key"))
