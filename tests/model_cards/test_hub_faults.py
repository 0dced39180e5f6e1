"""Everything that a Hub, or what stands between, can do wrong, to huggingface_hub's real client.

Each fault ends in time, in one printable line, and the bundled snapshot answers instead.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

import pytest
from fake_hub import Answer, FakeHub, Repo
from huggingface_hub import constants
from tiny_models import LLAMA, LLAMA_PARAMETERS

from model_cards import BadConfig, CardError, UnknownModel, open_card

BUNDLED: Final = "Qwen/Qwen3-8B"
DEADLINE: Final = 1.0
GRACE: Final = 1.5  # what else takes its time on a busy machine

JSON: Final = {"Content-Type": "application/json"}
HTML: Final = {"Content-Type": "text/html"}
CONFIG: Final = json.dumps(LLAMA).encode()
ETAG: Final = {"ETag": '"e"', "X-Repo-Commit": "c" * 40}

DESCRIPTION = {
    "401": (Answer(401), "the Hub"),  # older clients take it for a model that is not there
    "403": (Answer(403), "the Hub refuses access (status 403); check HF_TOKEN"),
    "404": (Answer(404), "the Hub"),
    "410": (Answer(410), "the Hub did not answer (status 410)"),
    "429": (
        Answer(429, headers={"Retry-After": "55"}),
        "the Hub limits requests for now (status 429; it asks to wait 55 s)",
    ),
    "429 until a date": (
        Answer(429, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        "the Hub limits requests for now (status 429)",
    ),
    "500": (Answer(500), "the Hub did not answer (its server fails, status 500)"),
    "503": (Answer(503), "the Hub did not answer (its server fails, status 503)"),
    "slow body": (Answer(200, b" " * 4000 + b"{}", JSON, pause=0.2), "the Hub did not answer"),
    "truncated": (Answer(200, b'{"id": "org/tiny", "sib', JSON, length=5000), "the Hub"),
    "too short a length": (Answer(200, b'{"id": "org/tiny"}', JSON, length=5), "the Hub's answer"),
    "huge headers": (Answer(200, b"{}", {"X-Junk": "j" * 300_000}), "the Hub"),
    "redirect loop": (Answer(302, headers={"Location": "/api/models/org/tiny"}), "the Hub"),
    "redirect to nowhere": (Answer(302, headers={"Location": "http://127.0.0.1:9/x"}), "the Hub"),
    "redirect to a file": (Answer(302, headers={"Location": "file:///etc/passwd"}), "the Hub"),
    "invalid JSON": (Answer(200, b'{"id": nope}', JSON), "the Hub's answer makes no sense"),
    "deep JSON": (Answer(200, b"[" * 100_000, JSON), "the Hub"),
    "HTML error page": (Answer(502, b"<html><h1>Bad gateway</h1></html>", HTML), "the Hub did"),
    "HTML login page": (Answer(200, b"<html>Log in</html>", HTML), "the Hub's answer"),
    "escapes": (Answer(418, b"\x1b[2J", {"X-Error-Message": "\x1b[31mred"}), "the Hub did not"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def repositories(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model_cards.sources.hub_client.DEADLINE_SECONDS", DEADLINE)
    for model_id in ("org/tiny", BUNDLED):
        hub.repos[model_id] = Repo({"config.json": LLAMA}, {"BF16": LLAMA_PARAMETERS})


def ends_in_one_line(reason: str = "the Hub") -> None:
    """A bundled model is had all the same, any other is refused; both in time."""
    began = time.monotonic()
    card = open_card(BUNDLED)
    assert card.origin.kind == "bundled"
    assert card.notes[-1].startswith(reason)
    assert card.notes[-1].isprintable()
    with pytest.raises(UnknownModel) as caught:
        open_card("org/tiny")
    assert reason.removesuffix(".") in str(caught.value)
    assert str(caught.value).isprintable()
    assert time.monotonic() - began < DEADLINE + GRACE


@pytest.mark.parametrize(("answer", "reason"), DESCRIPTION.values(), ids=DESCRIPTION.keys())
def test_a_description_that_goes_wrong(hub: FakeHub, answer: Answer, reason: str) -> None:
    hub.answers["/api/models"] = answer
    ends_in_one_line(reason)


# Faults that the client retries, or notices only behind the first byte.
FILES = {
    "403": Answer(403, b"Forbidden by the proxy"),
    "429": Answer(429, headers={"Retry-After": "55"}),
    "503": Answer(503),
    "slow body": Answer(200, CONFIG, ETAG, pause=0.2),
    "truncated": Answer(200, CONFIG[:50], ETAG, length=len(CONFIG)),
    "redirect loop": Answer(302, headers={"Location": "/org/tiny/resolve/main/config.json"}),
    "redirect to nowhere": Answer(302, headers={"Location": "http://127.0.0.1:9/x", **ETAG}),
    "no ETag": Answer(200, CONFIG, {"X-Repo-Commit": "c" * 40}),
    "huge headers": Answer(200, CONFIG, {"X-Junk": "j" * 300_000, **ETAG}),
    "another length to HEAD": Answer(200, CONFIG, ETAG, head_length=7),
}


@pytest.mark.parametrize("answer", FILES.values(), ids=FILES.keys())
def test_a_file_that_goes_wrong(hub: FakeHub, answer: Answer) -> None:
    hub.answers["/resolve/"] = answer
    ends_in_one_line()


@pytest.mark.parametrize(
    ("status", "reason"),
    [(503, "the Hub did not answer (its server fails, status 503)"),
     (429, "the Hub limits requests for now (status 429)")],
)  # fmt: skip
def test_why_the_client_asked_again_until_the_end(hub: FakeHub, status: int, reason: str) -> None:
    """It retries for half a minute; what is said is what it was told, not that it took long."""
    hub.answers["/resolve/"] = Answer(status, headers={"Retry-After": "55"})
    ends_in_one_line(reason)


def test_a_password_in_the_address_of_a_mirror_is_in_no_error(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = "NeverShowThisPassword"
    address = hub.url.replace("//", f"//me:{password}@")
    hub.tokens = {f"Basic {base64.b64encode(f'me:{password}'.encode()).decode()}"}
    monkeypatch.setattr(constants, "ENDPOINT", address)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    assert open_card("org/tiny").origin.kind == "hub"
    for answer in (*FILES.values(), Answer(500), Answer(404)):
        monkeypatch.setattr("model_cards.sources.hub_client._silence", None)
        hub.answers["/resolve/"] = answer
        with pytest.raises(CardError) as caught:
            open_card("org/tiny", revision="v2")
        assert "NeverShow" not in str(caught.value)


@pytest.mark.parametrize("place", ["a file", "a link that leads nowhere"])
def test_a_cache_that_cannot_be_written_to_is_done_without(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    cache = tmp_path / "cache"
    if place == "a file":
        cache.write_text("")
    else:
        cache.symlink_to("/proc/nowhere")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    hub.repos["org/tiny"].files["generation_config.json"] = {"max_new_tokens": 7}
    card = open_card("org/tiny")
    assert (card.origin.kind, card.parameters) == ("hub", LLAMA_PARAMETERS)
    assert any("limits answers to 7 tokens" in note for note in card.notes)  # of a second file
    assert not list(tmp_path.glob("tmp*"))  # what stood in for it is gone


def test_a_token_that_cannot_be_one(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_\u00e9\u00e9")
    ends_in_one_line("the Hub was not asked: HF_TOKEN holds what no token does")


@pytest.mark.parametrize("body", [b"", b'{"hidden', b"<html></html>", b"\xff\xfe{}", b"[" * 99_999])
def test_a_config_that_is_none(hub: FakeHub, body: bytes) -> None:
    hub.answers["/resolve/"] = Answer(200, body, ETAG)
    with pytest.raises(BadConfig, match=r"config\.json") as caught:
        open_card("org/tiny")
    assert str(caught.value).isprintable()


def test_a_config_of_half_a_gigabyte_is_not_fetched(hub: FakeHub) -> None:
    hub.repos["org/tiny"].sizes["config.json"] = 500 << 20
    with pytest.raises(BadConfig, match=r"config\.json is larger than 64 MiB; not read"):
        open_card("org/tiny")
    assert not any("/resolve/" in request.path for request in hub.requests)


def test_a_dead_hub_is_asked_once(hub: FakeHub) -> None:
    """A command may need two models, a target and its draft: it waits once."""
    hub.delay["/"] = 30.0
    began = time.monotonic()
    for model_id in (BUNDLED, "Qwen/Qwen3-0.6B", BUNDLED):
        assert "the Hub did not answer" in open_card(model_id).notes[-1]
    assert time.monotonic() - began < DEADLINE + GRACE
    assert len({request.path for request in hub.requests}) == 1


def test_a_bad_answer_about_one_model_is_no_dead_hub(hub: FakeHub) -> None:
    hub.answers["/api/models/org/broken"] = Answer(500)
    with pytest.raises(CardError):
        open_card("org/broken")
    assert open_card("org/tiny").origin.kind == "hub"


def test_what_is_cached_answers_whatever_the_hub_does(hub: FakeHub) -> None:
    open_card("org/tiny")
    hub.answers["/"] = Answer(503)
    hub.requests.clear()
    began = time.thread_time()
    assert open_card("org/tiny").origin.kind == "cache"
    assert time.thread_time() - began < 0.05
    assert hub.requests == []


def test_an_interrupt_ends_the_wait_at_once(hub: FakeHub, tmp_path: Path) -> None:
    """A wait that no interrupt ends would take the minute: no machine is as busy as that."""
    hub.delay["/api/models"] = 60.0
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    program = (
        # Jobs in the background of a shell ignore interrupts, and so does what they start.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from model_cards.sources import hub_client; from planner.cli import main; "
        "hub_client.DEADLINE_SECONDS = 60.0; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", program, "models", "org/tiny"],
        env={**kept, "HF_HOME": str(tmp_path), "HF_ENDPOINT": hub.url, "NO_PROXY": "127.0.0.1"},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    waited = threading.Event()
    while not hub.requests and not waited.wait(0.02):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    try:
        _, said = process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, said) == (130, b"")
