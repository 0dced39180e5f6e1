"""Files of the user's own, and what the Hub answers, spoilt (see mutators.py)."""

from __future__ import annotations

import copy
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

from checkpoint_files import header, llama_tensors
from fake_hub import Answer, FakeHub, Repo
from gguf_files import PAIRS, gguf
from mutated_configs import STRANGE, change
from spoiling import Case, spoil, spoil_bytes
from tiny_models import LLAMA, LLAMA_PARAMETERS

SERVED = ("0.8.5", "0.19.0", "0.23.0", "0.33.0")  # the older ones serve GGUF
STATUSES = (200, 200, 200, 204, 206, 301, 307, 400, 401, 403, 404, 410, 416, 418, 451, 501)
SHORT = ("--context", "64", "--prompt-tokens", "16", "--output-tokens", "16")


def gguf_file(rng: random.Random, folder: Path) -> Case:
    """A GGUF file with pairs replaced or bytes changed."""
    pairs = dict(PAIRS)
    what = []
    for _ in range(rng.choice((0, 1, 1, 3))):
        key = rng.choice(list(pairs))
        plain = [v for kind in (bool, float, str) for v in STRANGE[kind]] + [0, 1, 2**31, 2**32 - 1]
        pairs[key] = rng.choice([v for v in plain if abs(v if isinstance(v, float) else 0) < 1e30])
        what.append(f"{key} = {pairs[key]!r:.40}")
    content = gguf(pairs)
    if rng.random() < 0.7:
        content, how = spoil_bytes(rng, content)
        what.append(how)
    (folder / "tiny-Q4_K_M.gguf").write_bytes(content)
    model = "./tiny-Q4_K_M.gguf"
    release = rng.choice(SERVED)
    words = rng.choice((
        ["models", model],
        ["recommend", "--gpu", "4090", "--offline", "--model", model, "--vllm-version", release],
        ["check", "--gpu", "4090", "--offline", "--vllm-version", release, "--", "vllm", "serve",
         model],
    ))  # fmt: skip
    return Case(words, "; ".join(what))


def own_files(rng: random.Random, folder: Path) -> Case:
    """A kept model, what the cache keeps of the Hub, a store of runs, or an export of one."""
    data = folder / "data" / "vplan"
    (data / "models").mkdir(parents=True)
    kind = rng.choice(("kept", "store", "export"))
    if kind == "kept":
        content = copy.deepcopy(_kept())
        changes = [change(content, rng) for _ in range(rng.choice((1, 1, 2, 3)))]
        text = json.dumps(content)
        if rng.random() < 0.3:
            text, how = spoil(rng, text)
            changes.append(how)
        path = data / "models" / "org--tiny.json"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        words = rng.choice((
            ["models", "org/tiny", "--offline"], ["models", "tiny"], ["models", "update"],
            ["recommend", "--gpu", "4090", "--offline", "--model", "org/tiny", *SHORT],
        ))  # fmt: skip
        return Case(words, f"kept: {'; '.join(changes)}")
    if kind == "store":
        content_, how = spoil_bytes(rng, _store())
        (data / "calibration.sqlite3").write_bytes(content_)
        words = rng.choice((
            ["calibration", "list"], ["calibration", "show", "1"], ["calibration", "export"],
            ["calibration", "forget", "1"],
            ["recommend", "--gpu", "4090", "--offline", "--model", "Qwen/Qwen3-8B"],
        ))  # fmt: skip
        return Case(words, f"store: {how}")
    exported = json.loads(_export())
    changes = [change(exported, rng) for _ in range(rng.choice((1, 1, 2, 3)))]
    text = json.dumps(exported)
    if rng.random() < 0.3:
        text, how = spoil(rng, text)
        changes.append(how)
    (folder / "runs.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    return Case(["calibration", "import", "runs.json"], f"export: {'; '.join(changes)}")


def hub_answer(rng: random.Random, folder: Path) -> Case:
    """A description, a file or a listing of the Hub with values, bytes, status or headers changed.

    The client is huggingface_hub's own, the Hub one on the loopback interface.
    """
    hub = _hub(folder)
    files: dict[str, Any] = {
        "config.json": copy.deepcopy(LLAMA), "generation_config.json": {"max_new_tokens": 512},
        "hf_quant_config.json": {"quantization": {"quant_algo": "NVFP4", "exclude_modules": []}},
        "model.safetensors": header(llama_tensors(LLAMA)), "tiny.Q4_K_M.gguf": gguf(),
    }  # fmt: skip
    repo = Repo(files, {"BF16": LLAMA_PARAMETERS})
    what = []
    if rng.random() < 0.6:
        described = {"sha": "0" * 40, "siblings": [{"rfilename": "config.json", "size": 5}],
                     "safetensors": {"parameters": {"BF16": 10}, "total": 10}, "gated": False,
                     "cardData": {"license": "mit"}, "tags": ["x"], "downloads": 3,
                     "id": "org/tiny", "createdAt": "2026-01-01T00:00:00.000Z"}  # fmt: skip
        what.append(change(described, rng))
        key = rng.choice(list(described))
        repo.info = {key: described[key]} if rng.random() < 0.5 else described
    name = rng.choice(list(files))
    if isinstance(files[name], dict) and rng.random() < 0.5:
        what.append(f"{name} {change(files[name], rng)}")
    elif rng.random() < 0.5:
        content = (
            files[name] if isinstance(files[name], bytes) else json.dumps(files[name]).encode()
        )
        files[name], how = spoil_bytes(rng, content)
        what.append(f"{name} {how}")
    hub.repos = {"org/tiny": repo}
    hub.answers = {}
    if rng.random() < 0.3:
        part = rng.choice(("/api/models", "/resolve/", ".json", ".safetensors", ".gguf"))
        body, how = spoil_bytes(rng, b'{"id": "org/tiny", "siblings": [], "error": "x"}')
        headers = {rng.choice(("ETag", "Location", "X-Error-Code", "X-Error-Message", "Link",
                               "Retry-After", "X-Repo-Commit", "X-Linked-Size", "Content-Range")):
                   rng.choice(("", "x", '"e"', "GatedRepo", "RepoNotFound", "EntryNotFound", "-1",
                               "9" * 30, "/api/models/org/tiny", "../x", "a" * 3000))}  # fmt: skip
        hub.answers[part] = Answer(rng.choice(STATUSES), body, headers)
        what.append(f"{part} {hub.answers[part].status} {headers!r:.80} {how}")
    words = rng.choice((
        ["models", "org/tiny"], ["models", "org/tiny:Q4_K_M"], ["models", "search", "tiny"],
        ["models", "add", "org/tiny"], ["models", "org/tiny", "--revision", "v2"],
        ["recommend", "--gpu", "4090", "--model", "org/tiny", *SHORT],
        ["check", "--gpu", "4090", "--", "vllm", "serve", "org/tiny"],
    ))  # fmt: skip
    return Case(words, "; ".join(what), online=True)


_server: FakeHub | None = None


def _hub(folder: Path) -> FakeHub:
    """The Hub of this process, asked for the first time, with a cache of its own."""
    global _server
    from threading import Thread

    from huggingface_hub import constants

    from model_cards.sources import hub_client

    if _server is None:
        _server = FakeHub()
        Thread(target=_server.serve_forever, kwargs={"poll_interval": 1.0}, daemon=True).start()
        constants.ENDPOINT = _server.url
        constants.HUGGINGFACE_CO_URL_TEMPLATE = (
            _server.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        hub_client.DEADLINE_SECONDS = 2.0  # type: ignore[misc]
    hub_client._silence = None
    constants.HF_HUB_CACHE = str(folder / "hub")
    return _server


@cache
def _kept() -> dict[str, Any]:
    """What is kept of a model that was added."""
    from model_cards.card import Origin
    from model_cards.config import Config
    from model_cards.facts import Facts
    from model_cards.inventory import Inventory, StoredTensor
    from model_cards.sources.kept import Kept, _written

    tensors = {
        name: StoredTensor(dtype, tuple(shape))
        for name, (dtype, shape) in llama_tensors(LLAMA).items()
    }
    facts = Facts(LLAMA_PARAMETERS, 2 * LLAMA_PARAMETERS, "mit", inventory=Inventory(tensors))
    origin = Origin("hub", f"revision {'0' * 40}")
    from datetime import date

    kept = Kept("org/tiny", origin, date(2026, 1, 1), Config(LLAMA, "org/tiny: config.json"), facts)
    return json.loads(json.dumps(_written(kept)))  # type: ignore[no-any-return]


@cache
def _store() -> bytes:
    """A store with two runs, as SQLite's file."""
    from tempfile import TemporaryDirectory

    from planner.calibration_store import CalibrationStore

    with TemporaryDirectory() as place:
        path = Path(place) / "calibration.sqlite3"
        CalibrationStore(path).add(_runs())
        return path.read_bytes()


@cache
def _export() -> str:
    from planner.calibration_store import exported

    return exported(_runs())


def _runs() -> list[Any]:
    from planner.calibration import Observation, Term
    from planner.calibration_store import Run

    seen = tuple(Observation(term, "rtx-4090", 1.5e9, 1.4e9, "f") for term in Term)
    return [
        Run("2026-01-01T00:00:00+00:00", "rtx-4090", release, "Qwen/Qwen3-8B", "inside",
            "vllm serve Qwen/Qwen3-8B", seen, f"uid-{release}")
        for release in ("0.33.0", "0.19.0")
    ]  # fmt: skip
