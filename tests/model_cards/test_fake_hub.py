"""The Hub of the tests itself: what it prints of clients that are gone, and of its own faults."""

from __future__ import annotations

import socket
import struct
import threading

import pytest
from fake_hub import Answer, FakeHub, serving


def ask_and_go(hub: FakeHub, request: bytes) -> None:
    """Reset the connection behind a request, and wait until the server is done with that."""
    done, end = threading.Event(), hub.shutdown_request

    def shutdown_request(client: socket.socket) -> None:
        end(client)
        done.set()

    hub.shutdown_request = shutdown_request  # type: ignore[method-assign, assignment]
    with socket.create_connection(hub.server_address[:2]) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(request)
    assert done.wait(10)


@pytest.mark.parametrize(
    "request_", [b"GET /api/models HTTP/1.1\r\nHost: x", b"GET /api/models HTTP/1.1\r\n\r\n", b""]
)
def test_a_client_that_is_gone_is_no_fault(
    request_: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reset may reach the server in the middle of a request, in its answer, or behind it."""
    with serving() as hub:
        ask_and_go(hub, request_)
    assert capsys.readouterr().err == ""


def test_any_other_error_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with serving() as hub:
        hub.answers["/"] = Answer("no status")  # type: ignore[arg-type]
        ask_and_go(hub, b"GET / HTTP/1.1\r\n\r\n")
    assert "Traceback" in capsys.readouterr().err
