"""A Hub on the loopback interface that answers as huggingface.co does, as far as a card needs it.

`GET /api/models?search=TEXT` lists repositories, `/api/models/{id}[/revision/{revision}]` gives the
description of one, `/api/models/{id}/safetensors-metadata/{index}` the headers of all shards,
`HEAD` and `GET` `/{id}/resolve/{revision}/{file}` a file or a range of it, with the headers and
error codes that huggingface_hub reads. Every request about a model is kept (huggingface_hub also
asks for what concerns itself).
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import huggingface_hub.hf_api  # noqa: F401 - before any deadline begins
import pytest
from huggingface_hub import constants
from huggingface_hub.utils import _http

_SEARCH = "/api/models"
_INFO = re.compile(r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?$")
_HEADERS = re.compile(r"/api/models/([^/]+/[^/]+)/safetensors-metadata/(.+)$")
_FILE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)$")


@dataclass
class Repo:
    """One model repository at its main revision; `tags` name further ones."""

    files: dict[str, Any]  # bytes, or what to write as JSON
    elements: dict[str, int] | None = None  # of each dtype, as the Hub counts safetensors
    license: Any = "apache-2.0"
    tags: dict[str, dict[str, Any]] = field(default_factory=dict)
    gated: bool = False
    private: bool = False
    info: dict[str, Any] = field(default_factory=dict)  # over the usual description
    sizes: dict[str, int] = field(default_factory=dict)  # as told, where the files are smaller

    def at(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        """Commit and files of a revision by its name or commit."""
        for name, files in {"main": self.files, **self.tags}.items():
            held = {path: _bytes(content) for path, content in files.items()}
            commit = hashlib.sha1(repr((name, held)).encode()).hexdigest()
            if revision in (name, commit):
                return commit, held
        return None


def _bytes(content: Any) -> bytes:
    return content if isinstance(content, bytes) else json.dumps(content).encode()


class Request(NamedTuple):
    method: str
    path: str
    token: str | None  # the whole Authorization header


class Answer(NamedTuple):
    """What is sent whatever was asked for.

    `length` is what Content-Length says instead of the body's, `head_length` what it says to
    HEAD alone; `pause` are seconds after each of the body's pieces of 16 bytes.
    """

    status: int
    body: bytes = b""
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed
    length: int | None = None
    head_length: int | None = None
    pause: float = 0.0


class FakeHub(ThreadingHTTPServer):
    """The server; change its fields before asking it.

    A delay ends when the server closes.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repos: dict[str, Repo] = {}
        self.renamed: dict[str, str] = {}
        self.tokens: set[str] = set()  # valid ones
        self.granted: set[str] = set()  # those that may read gated repositories
        self.delay: dict[str, float] = {}  # seconds, by a part of the path
        self.answers: dict[str, Answer] = {}  # by a part of the path
        self.gives_headers = True  # of all shards at once, as only the Hub itself does
        self.knows_ranges = True  # as some mirrors do not
        self.cut_off: SimpleQueue[str] = SimpleQueue()  # paths of answers left off in the middle
        self.requests: list[Request] = []
        self.closing = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print what went wrong; that a client is gone, wherever that shows, is nothing wrong."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def serving() -> Iterator[FakeHub]:
    hub = FakeHub()
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.closing.set()
        hub.shutdown()
        hub.server_close()


@contextmanager
def connected(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A server that huggingface_hub, in this process, takes for the Hub."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as server:
        template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr("model_cards.sources.hub_client._silence", None)
        _keep_session_from(set(threading.enumerate()), monkeypatch)
        yield server


def away_from_the_user(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """huggingface_hub as with HF_HUB_OFFLINE=1, no token and folders of its own.

    It reads its environment when it is imported, so what it read is replaced.
    """
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(home / "token"))
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(home / name.lower()))


def _keep_session_from(others: set[threading.Thread], monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that a test before left retrying would close the session that all share."""
    close = _http.close_session

    def close_own() -> None:
        if threading.current_thread() not in others:
            close()

    monkeypatch.setattr(_http, "close_session", close_own)


class _Handler(BaseHTTPRequestHandler):
    server: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        answer = self._answer()
        if answer.head_length is not None:
            answer = answer._replace(length=answer.head_length)
        with suppress(ConnectionError):
            self._send(answer)

    def do_GET(self) -> None:
        answer = self._answer()
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if wanted and answer.status == 200 and self.server.knows_ranges:
            part = answer.body[int(wanted[1]) : int(wanted[2]) + 1]
            answer = answer._replace(status=206, body=part)
        # A client that gave up has closed the connection.
        try:
            self._send(answer)
            self._write(answer)
        except ConnectionError:
            self.server.cut_off.put(self.path)

    def _write(self, answer: Answer) -> None:
        if not answer.pause:
            self.wfile.write(answer.body)
        for start in range(0, len(answer.body) if answer.pause else 0, 16):
            self.wfile.write(answer.body[start : start + 16])
            if self.server.closing.wait(answer.pause):
                break
        if answer.length is not None:  # whoever still waits for more gets none
            self.close_connection = True

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        length = len(answer.body) if answer.length is None else answer.length
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def _answer(self) -> Answer:
        hub, path = self.server, self.path.partition("?")[0]
        token = self.headers.get("Authorization")
        info, file, headers = _INFO.match(path), _FILE.match(path), _HEADERS.match(path)
        if info or file or headers or path == _SEARCH:
            hub.requests.append(Request(self.command, path, token))
        for part, seconds in hub.delay.items():
            if part in path:
                hub.closing.wait(seconds)
        for part, answer in hub.answers.items():
            if part in path:
                return answer
        if token is not None and token.removeprefix("Bearer ") not in hub.tokens:
            # As the Hub words it, without an error code.
            return Answer(401, b'{"error":"Invalid credentials in Authorization header"}')
        if path == _SEARCH:
            return self._found()
        match = info or file or headers
        if match is None:
            return Answer(404)
        repo_id = match[1]
        if repo_id in hub.renamed:
            location = self.path.replace(repo_id, hub.renamed[repo_id])
            return Answer(307, headers={"Location": location})
        repo = hub.repos.get(repo_id)
        if repo is None or (repo.private and token is None):
            # The Hub does not tell strangers whether a repository exists.
            status = 401 if token is None else 404
            return _error(status, "RepoNotFound", "Repository not found")
        if file and repo.gated and (token or "").removeprefix("Bearer ") not in hub.granted:
            # 401 without a token, 403 with one whose owner was not let in.
            status = 401 if token is None else 403
            return _error(status, "GatedRepo", f"Access to model {repo_id} is restricted.")
        if headers:
            return _headers(repo.at("main"), headers[2]) if hub.gives_headers else Answer(404)
        revision = match[2] or "main"
        found = repo.at(revision)
        if found is None:
            return _error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        commit, files = found
        if file:
            return _file(commit, files, file[3])
        sized = "blobs=" in self.path
        return _info(repo_id, repo, commit, files, sized)

    def _found(self) -> Answer:
        """The repositories whose ids hold what is searched for."""
        query = parse_qs(urlsplit(self.path).query)
        text, limit = query.get("search", [""])[0].lower(), int(query.get("limit", ["1000"])[0])
        found = [
            json.loads(_info(repo_id, repo, "0" * 40, {}, sized=False).body)
            for repo_id, repo in self.server.repos.items()
            if text in repo_id.lower() and not repo.private
        ]
        return Answer(200, json.dumps(found[:limit]).encode(), {"Content-Type": "application/json"})


def _info(repo_id: str, repo: Repo, commit: str, files: dict[str, bytes], sized: bool) -> Answer:
    siblings: list[dict[str, Any]] = [{"rfilename": name} for name in files]
    for each in siblings if sized else ():
        each["size"] = repo.sizes.get(each["rfilename"], len(files[each["rfilename"]]))
    info: dict[str, Any] = {
        "_id": "0" * 24, "id": repo_id, "modelId": repo_id, "sha": commit,
        "author": repo_id.partition("/")[0], "private": repo.private,
        "gated": "manual" if repo.gated else False, "disabled": False, "downloads": 1,
        "likes": 1, "tags": [], "siblings": siblings,
        "cardData": {"license": repo.license},
    }  # fmt: skip
    if repo.elements is not None:
        total = sum(repo.elements.values())
        info["safetensors"] = {"parameters": repo.elements, "total": total}
    body = json.dumps(info | repo.info).encode()
    return Answer(200, body, {"Content-Type": "application/json"})


def _file(commit: str, files: dict[str, bytes], name: str) -> Answer:
    if name not in files:
        missing = _error(404, "EntryNotFound", "Entry not found")
        return missing._replace(headers={**missing.headers, "X-Repo-Commit": commit})
    etag = f'"{hashlib.sha1(files[name]).hexdigest()}"'
    return Answer(200, files[name], {"ETag": etag, "X-Repo-Commit": commit})


def _headers(found: tuple[str, dict[str, bytes]] | None, index: str) -> Answer:
    """The index and the headers of its shards."""
    assert found is not None
    files = found[1]
    listed = json.loads(files[index])
    headers = {}
    for name in set(listed["weight_map"].values()):
        length = int.from_bytes(files[name][:8], "little")
        headers[name] = json.loads(files[name][8 : 8 + length])
    body = json.dumps({"index": {"metadata": listed["metadata"]}, "headers": headers}).encode()
    return Answer(200, body, {"Content-Type": "application/json"})


def _error(status: int, code: str, message: str) -> Answer:
    headers = {"X-Error-Code": code, "X-Error-Message": message}
    return Answer(status, json.dumps({"error": message}).encode(), headers)
