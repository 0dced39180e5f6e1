"""HTTP to a server: of our own on the loopback, or one that runs already; no proxies, its key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from msgspec import Struct
from msgspec.structs import replace

HOST = "127.0.0.1"
_MOST_BYTES = 64 * 2**20  # of an answer; metrics of a busy server take some hundred thousand


class ServerError(Exception):
    """The server does not answer, or answers with an error.

    `status` is that of HTTP, if any; `is_silent`, that it says nothing in the time.
    """

    def __init__(self, text: str, status: int | None = None, *, is_silent: bool = False) -> None:
        super().__init__(text)
        self.status, self.is_silent = status, is_silent


class Client(Struct, frozen=True):
    """Requests to the server at a URL, "http://127.0.0.1:8000"."""

    url: str
    api_key: str
    timeout: float = 30.0

    def __repr__(self) -> str:  # the key is nobody's to read
        return f"Client(url={self.url!r}, timeout={self.timeout!r})"

    @classmethod
    def local(cls, port: int, api_key: str) -> Client:
        """Of the server that listens on a port of this machine."""
        return cls(f"http://{HOST}:{port}", api_key)

    def patient(self, timeout: float) -> Client:
        """The same with another limit of seconds for an answer."""
        return replace(self, timeout=timeout)

    def text(self, path: str) -> str:
        """The body of a GET."""
        with closing(self._open(path, None)) as answer:
            try:
                body = answer.read(_MOST_BYTES + 1)
            except (OSError, HTTPException) as error:
                raise self._failed(path, error) from None
        if len(body) > _MOST_BYTES:
            raise ServerError(f"{path}: the answer is larger than {_MOST_BYTES >> 20} MiB")
        return str(body.decode("utf-8", "replace"))

    def json(self, path: str) -> Any:
        """The body of a GET as JSON."""
        return _parsed(path, self.text(path))

    def events(self, path: str, body: dict[str, Any]) -> Iterator[Any]:
        """The server-sent events of a POST, as they come."""
        with closing(self._open(path, json.dumps(body).encode())) as answer:
            try:
                for line in answer:
                    name, _, data = line.decode("utf-8", "replace").partition(":")
                    if name == "data" and data.strip() not in ("", "[DONE]"):
                        yield _parsed(path, data)
            except (OSError, HTTPException) as error:
                raise self._failed(path, error) from None

    def _open(self, path: str, body: bytes | None) -> Any:
        headers = {"Content-Type": "application/json"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        request = Request(f"{self.url}{path}", body, headers)
        try:
            return build_opener(ProxyHandler({})).open(request, timeout=self.timeout)
        except HTTPError as error:
            said = error.read(300).decode("utf-8", "replace")
            raise ServerError(f"{path}: HTTP {error.code}: {said}", error.code) from None
        except (OSError, HTTPException) as error:
            raise self._failed(path, error) from None

    def _failed(self, path: str, error: Exception) -> ServerError:
        if isinstance(getattr(error, "reason", error), TimeoutError):
            return ServerError(f"{path}: no answer in {self.timeout:g} s", is_silent=True)
        return ServerError(f"{path}: {error or type(error).__name__}")


def _parsed(path: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ServerError(f"{path}: the answer is no JSON: {text[:100]!r}") from None
