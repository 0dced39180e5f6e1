"""A token of the environment is for the Hub alone: it is in no output, whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from program import vplan

TOKEN = "hf_NeverShowThisTokenToAnybody"


@contextmanager
def hub(status: int) -> Iterator[tuple[str, list[str]]]:
    """A Hub that answers everything with `status`, and repeats what it was sent."""
    sent: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            authorization = self.headers.get("Authorization", "")
            sent.append(authorization)
            self.send_response(status)
            self.send_header("X-Error-Message", f"refused {authorization}")
            self.end_headers()
            self.wfile.write(f'{{"error": "refused {authorization}"}}'.encode())

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", sent
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    "arguments",
    [("recommend", "--gpu", "4090", "--model", "Qwen/Qwen3-8B"),
     ("recommend", "--gpu", "4090", "--model", "Qwen/Qwen3-8B", "--json"),
     ("recommend", "--gpu", "4090", "--model", "no/such", "--offline"), ("recommend", "--bad")],
    ids=" ".join,
)  # fmt: skip
def test_not_in_any_output(arguments: tuple[str, ...]) -> None:
    run = vplan(*arguments, HF_TOKEN=TOKEN)
    assert run.out or run.err
    assert TOKEN not in run.out + run.err


@pytest.mark.parametrize("status", [401, 403, 500])
def test_not_even_where_the_hub_repeats_it(status: int) -> None:
    with hub(status) as (endpoint, sent):
        run = vplan(
            "models", "somebody/some-model", "--json", HF_TOKEN=TOKEN, HF_ENDPOINT=endpoint,
            HF_HUB_OFFLINE="0", NO_PROXY="127.0.0.1",
        )  # fmt: skip
    assert f"Bearer {TOKEN}" in sent  # or there was nothing to leak
    assert run.status == 2
    assert run.out == ""
    assert run.err.count("\n") == 1
    assert TOKEN not in run.err
