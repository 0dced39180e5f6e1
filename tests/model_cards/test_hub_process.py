"""The same in a process of its own: huggingface_hub's environment, standard error, the deadline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fake_hub import Answer, FakeHub, Repo
from msgspec import Struct
from tiny_models import LLAMA, LLAMA_PARAMETERS

SCRIPT = """
import json, sys, time
from model_cards import open_card
from model_cards.errors import CardError
start = time.monotonic()
try:
    card = open_card(sys.argv[1])
    answer = {"origin": card.origin.kind, "parameters": card.parameters, "notes": card.notes}
except CardError as error:
    answer = {"error": str(error)}
print(json.dumps({**answer, "seconds": time.monotonic() - start}))
"""
BUNDLED = "Qwen/Qwen3-8B"
TOKEN = "hf_aVerySecretTokenOfNobody"


class Shell(Struct, frozen=True):
    """A user's shell with HF_HOME and HF_ENDPOINT set."""

    home: Path
    endpoint: str

    def ask(self, reference: str, **environ: str) -> dict[str, Any]:
        """The answer, which must be all that is printed."""
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT, reference],
            env={**kept, "HF_HOME": str(self.home), "HF_ENDPOINT": self.endpoint, **environ},
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (run.returncode, run.stderr, run.stdout.count("\n")) == (0, "", 1)
        assert TOKEN not in run.stdout
        answer: dict[str, Any] = json.loads(run.stdout)
        return answer


@pytest.fixture
def shell(hub: FakeHub, tmp_path: Path) -> Shell:
    hub.repos["org/tiny"] = Repo({"config.json": LLAMA}, {"BF16": LLAMA_PARAMETERS})
    hub.repos[BUNDLED] = Repo({"config.json": LLAMA})
    return Shell(tmp_path, hub.url)


def test_the_environment_counts(hub: FakeHub, shell: Shell) -> None:
    hub.tokens = hub.granted = {TOKEN}
    hub.repos["org/tiny"].gated = True
    assert "accepted licence" in shell.ask("org/tiny")["error"]
    online = shell.ask("org/tiny", HF_TOKEN=TOKEN)
    assert (online["origin"], online["parameters"]) == ("hub", LLAMA_PARAMETERS)
    assert f"Bearer {TOKEN}" in {request.token for request in hub.requests}
    assert shell.ask("org/tiny", HF_HUB_OFFLINE="1")["origin"] == "cache"
    assert "offline" in shell.ask("org/other", HF_HUB_OFFLINE="1")["error"]


def test_a_token_that_is_not_valid_is_not_shown(shell: Shell) -> None:
    assert "check HF_TOKEN" in shell.ask("org/tiny", HF_TOKEN=TOKEN)["error"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("HF_ENDPOINT", value) for value in ("huggingface.co", "ftp://x", "http://", "http://x:99999",
                                          "http://[::1", "\x1b[2J", " ")]
    + [("HF_HUB_ETAG_TIMEOUT", "soon"), ("HF_HUB_DOWNLOAD_TIMEOUT", "1.5")],
)  # fmt: skip
def test_variables_that_the_client_cannot_read(shell: Shell, name: str, value: str) -> None:
    card = shell.ask(BUNDLED, **{name: value})
    assert card["origin"] == "bundled"
    assert card["notes"][-1].startswith(
        ("HF_ENDPOINT is no address", "huggingface_hub refuses a variable of its own, HF_...")
    )
    assert card["notes"][-1].isprintable()


def test_nothing_is_asked_but_about_the_model(hub: FakeHub, shell: Shell) -> None:
    """The client would first fetch a list of programs that might be using it."""
    hub.delay["/api/agent"] = 30.0
    assert shell.ask("org/tiny")["origin"] == "hub"


def test_retries_are_not_reported_behind_the_callers_back(hub: FakeHub, shell: Shell) -> None:
    hub.answers["/resolve/"] = Answer(503)
    assert shell.ask(BUNDLED)["origin"] == "bundled"


@pytest.mark.parametrize("part", ["/", "/resolve/"])
def test_a_slow_hub_holds_up_neither_the_card_nor_the_exit(
    hub: FakeHub, shell: Shell, part: str
) -> None:
    hub.delay[part] = 30.0
    start = time.monotonic()
    card = shell.ask(BUNDLED)
    assert card["origin"] == "bundled"
    assert "the Hub did not answer" in card["notes"][-1]
    assert 2.5 < card["seconds"] < 5  # three seconds, on a busy machine
    assert time.monotonic() - start < 10
