"""vLLM's server as a process of its own: started, asked what it allocated, and always ended."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from msgspec import Struct

_READY_SECONDS = 400  # in a fresh environment on a busy machine
_STOP_SECONDS = 20
_SIZE = re.compile(
    r"CPU KV cache size: ([\d,]+) tokens, "
    r"Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x"
)


class Launched(Struct, frozen=True):
    """What a server said that came up, or the log of one that did not."""

    log: str
    cache_config: dict[str, str]  # of `/metrics`; empty if it did not come up

    @property
    def printed(self) -> tuple[int, int, str]:
        """Tokens, length of a request, and concurrency to two decimals, as printed."""
        found = _SIZE.search(self.log)
        assert found is not None, self.log[-3000:]
        tokens, length, concurrency = found.groups()
        return int(tokens.replace(",", "")), int(length.replace(",", "")), concurrency


class Serving(Struct, frozen=True):
    """A server that is there, or one that did not come up."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    up: bool

    def metrics(self) -> str:
        """Its counters and gauges."""
        return _get(self.port, "/metrics")


def launch(model: Path, options: list[str], environ: dict[str, str], cache: Path) -> Launched:
    """Start a server for the model, ask what it allocated, and stop it.

    `cache` is a folder in which vLLM keeps what it learns of model classes.
    """
    with serving(model, options, environ, cache) as server:
        metrics = server.metrics() if server.up else ""
    return Launched(server.log.read_text(errors="replace"), _cache_config(metrics))


@contextmanager
def serving(
    model: Path, options: list[str], environ: dict[str, str], cache: Path
) -> Iterator[Serving]:
    """A server for the model, as somebody else would start it; at the end it is stopped."""
    port = _free_port()
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    command += ["--load-format", "dummy", "--enforce-eager", "--host", "127.0.0.1"]
    command += ["--port", str(port), *options]
    quiet = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CACHE_ROOT": str(cache),
    }
    # Without what other tests set for vLLM in this process.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("VLLM_")}
    log = model.parent / "server.log"
    with log.open("w") as out:
        server = subprocess.Popen(
            command,
            env=inherited | quiet | environ,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield Serving(server, port, log, _wait(server, port))
        finally:
            _stop(server)


def _wait(server: subprocess.Popen[bytes], port: int) -> bool:
    """Whether the server came up; False if it ended instead."""
    until = time.monotonic() + _READY_SECONDS
    while server.poll() is None:
        assert time.monotonic() < until, "vLLM neither came up nor ended"
        try:
            _get(port, "/health")
        except (URLError, OSError):
            time.sleep(0.5)
        else:
            return True
    return False


def _stop(server: subprocess.Popen[bytes]) -> None:
    """End the server, and with its process group whatever it has started."""
    if server.poll() is None:
        server.terminate()
        with suppress(subprocess.TimeoutExpired):
            server.wait(_STOP_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def _get(port: int, path: str) -> str:
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def _cache_config(metrics: str) -> dict[str, str]:
    """The labels of `vllm:cache_config_info`."""
    line = next((line for line in metrics.splitlines() if "cache_config_info{" in line), "")
    return dict(re.findall(r'(\w+)="([^"]*)"', line))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
