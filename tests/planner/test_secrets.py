"""Keys are for the Hub and for the server: a scan of all that commands print and write."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from program import Run

from model_cards.sources import user_catalogue
from planner.calibration_store import Run as CalibratedRun
from planner.calibration_store import exported
from planner.cli.app import run
from planner.command.exports import FORMATS
from planner.command.parse import read_command
from planner.command.secrets import _known, is_secret, redacted
from planner.launch.log_arguments import option_words
from planner.plan_file import read_plan, write_plan
from planner.settings import Settings

TOKEN = "hf_NeverShowThisToken0123456789"
KEY = "sk-NeverShowThisKey0123456789"
PASSWORD = "NeverShowThisPassword99"
PLAIN = "correcthorsebattery"  # which is a key by the name that it goes by alone
SECRETS = (TOKEN, KEY, PASSWORD, PLAIN)
URL = f"https://me:{PASSWORD}@mirror.example"

MODEL = "Qwen/Qwen3-8B"
SERVE = ("vllm", "serve", MODEL, "--max-model-len", "4096")
CHECK = ("check", "--gpu", "4090", "--offline")
PLAN = ("recommend", "--gpu", "4090", "--offline", "--model", MODEL, "--context", "4096")

LOG = f"""\
(APIServer pid=1) INFO 04-09 23:58:00 [api_server.py:1] vLLM API server version 0.19.0
(APIServer pid=1) INFO 04-09 23:58:00 [utils.py:1] non-default args: {{'model_tag': '{MODEL}', \
'api_key': ['{KEY}'], 'hf_token': '{TOKEN}'}}
(APIServer pid=1) ERROR 401 Client Error for url {URL}/x with {TOKEN}
Traceback (most recent call last):
ValueError: bad key {KEY} for {URL}
(APIServer pid=1) INFO args: Namespace(model='{MODEL}', api_key=['{PLAIN}'], hf_token='{PLAIN}')
(APIServer pid=1) INFO non-default args: {{'model_tag': '{MODEL}', 'api_key': ['{PLAIN}', 'x'], \
'hf_token': '{PLAIN}', 'kv_transfer_config': {{'password': '{PLAIN}'}}}}
ValueError: HF_TOKEN={PLAIN}, Authorization: Bearer {PLAIN}, {{"api_key": "{PLAIN}"}}
+ vllm serve {MODEL} --api-key {PLAIN} {PLAIN} --hf-token '{PLAIN}' --port 8000
ValueError: ['vllm', 'serve', '{MODEL}', '--api-key', '{PLAIN}', '{PLAIN}', '--port', '8000']
RuntimeError: vllm serve {MODEL} --hf-token {PLAIN}
"""


@pytest.fixture
def vplan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Run]]:
    """The command line in a shell that holds all the secrets, in a folder of its own."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.setenv(name, TOKEN)
    for name in ("VLLM_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("HF_ENDPOINT", URL)
    monkeypatch.setattr("model_cards.sources.open.is_offline", lambda: True)
    monkeypatch.setattr("model_cards.sources.hub.open_cached", lambda *_: None)
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    _known.cache_clear()

    def vplan(*arguments: str) -> Run:
        capsys.readouterr()
        status = run(arguments)
        printed = capsys.readouterr()
        return Run(status, printed.out, printed.err)

    yield vplan
    _known.cache_clear()


# Options whose names, or the names inside of whose values, say that they are secret.
WORDS = [
    ("--api-key", PLAIN), (f"--api-key={PLAIN}",), ("--api_keys", PLAIN), (f"--apikey={PLAIN}",),
    ("--ssl-keyfile-password", PLAIN), ("--download-dir", f"s3://me:{PASSWORD}@@bucket/x"),
    ("--kv-transfer-config", f'{{"kv_connector_extra_config": {{"password": "{PLAIN}"}}}}'),
    ("--hf-overrides", f'{{"api_key": "{PLAIN}", "access_tokens": ["{PLAIN}"]}}'),
    ("--spec-method", "ngram", "--spec-tokens", "3", "--speculative-config.token", PLAIN),
]  # fmt: skip

COMMANDS = [
    (*CHECK, "--", *SERVE, "--api-key", KEY), (*CHECK, "--", *SERVE, f"--api-key={KEY}"),
    (*CHECK, "--json", "--", *SERVE, "--api-key", KEY, "--hf-token", TOKEN),
    (*CHECK, "--", *SERVE, "--api-kye", KEY), (*CHECK, "--", *SERVE, "--port", KEY),
    (*CHECK, "--json", "--", *SERVE, KEY), (*CHECK, "--", *SERVE, "--hf-token"),
    (*CHECK, "--", f"HF_TOKEN={TOKEN}", f"VLLM_API_KEY={KEY}", *SERVE),
    (*CHECK, "--", "docker", "run", "-e", f"HF_TOKEN={TOKEN}", "vllm/vllm-openai:v0.19.1",
     "--model", MODEL, "--max-model-len", "4096", "--api-key", KEY),
    (*CHECK, "--", f"vllm serve {MODEL} --api-key {KEY} --hf-token '{TOKEN}"),
    (*CHECK, "--", "vllm", "serve", f"{URL}/{MODEL}"),
    (*CHECK, "--", *SERVE, "--speculative-config", f'{{"api_key":"{KEY}"}}'),
    (*CHECK, "--", *SERVE, "--download-dir", f"s3://me:{PASSWORD}@bucket/x"),
    (*CHECK, "--fix", "--", *SERVE[:-1], "999999", "--api-key", KEY, "--hf-token", TOKEN),
    *((*CHECK, *how, "--", *SERVE, *words) for how in ((), ("--json",), ("--fix", "--json"),
                                                       ("--fix",)) for words in WORDS),
    (*CHECK, "--fix", "--", "docker", "run", f"--env=HF_TOKEN={PLAIN}", "-e", f"PGPASSWORD={PLAIN}",
     "vllm/vllm-openai:v0.19.1", "--model", MODEL, "--max-model-len", "4096"),
    (*CHECK, "--beside", f"HF_TOKEN={PLAIN} vllm serve {MODEL} --api-key {PLAIN}", "--", *SERVE),
    ("recommend", "--plan", f"{URL}/x"), ("recommend", "--plan", "plan.yaml", "--offline"),
    ("validate", "--attach", f"http://me:{PASSWORD}@127.0.0.1:9"),
    ("recommend", "--gpu", "4090", "--offline", "--model", f"{URL}/x"),
    ("recommend", "--gpu", "4090", "--api-key", KEY), PLAN,
    ("models", f"{URL}/x"), ("models", "add", f"{URL}/x"), ("models", TOKEN, "--offline"),
    ("models", "search", TOKEN, "--offline"), ("models", "add", MODEL, "--offline"), ("models",
     "update"), ("gpus", KEY), ("schema", KEY), ("completion", KEY), ("diagnose", "server.log"),
    ("diagnose", "--json", "server.log"),
    ("validate", "--dry-run", "--", f"HF_TOKEN={TOKEN}", *SERVE, "--api-key", KEY),
    ("validate", "--dry-run", "--", *SERVE, "--ssl-keyfile-password", PLAIN, "--api-key", PLAIN,
     PLAIN),
]  # fmt: skip


GIVEN = ("server.log", "plan.yaml")  # what the user wrote
PLAN_FILE = f"""\
vplan: 1
gpu: "4090"
model: {MODEL}
vllm: 0.33.0
settings: {{max_model_len: 4096}}
environment: {{HF_TOKEN: {PLAIN}, VLLM_API_KEY: {PLAIN}, VLLM_USE_V1: "1"}}
"""


def leaks(tmp_path: Path, *texts: str) -> list[str]:
    """Where a secret is: in what was printed, or in a file."""
    found = [text for text in texts if any(secret in text for secret in SECRETS)]
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name not in GIVEN:
            content = path.read_bytes()
            found += [str(path) for secret in SECRETS if secret.encode() in content]
    return found


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda a: " ".join(a)[:70])
def test_no_command_shows_or_writes_any(
    vplan: Callable[..., Run], tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "server.log").write_text(LOG)
    (tmp_path / "plan.yaml").write_text(PLAN_FILE)
    said = vplan(*arguments)
    assert said.out + said.err
    assert leaks(tmp_path, said.out, said.err) == []


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_holds_any(vplan: Callable[..., Run], tmp_path: Path, name: str) -> None:
    """They name a variable or a secret of the cluster instead."""
    for number, words in enumerate([(), ("--api-key", KEY, "--hf-token", TOKEN), *WORDS]):
        arguments, rest = (CHECK, ("--", *SERVE, *words)) if words else (PLAN, ())
        fix = ("--fix",) if words else ()
        said = vplan(*arguments, *fix, "--format", name, "-o", f"out-{number}", *rest)
        assert (tmp_path / f"out-{number}").exists()
        assert leaks(tmp_path, said.out, said.err) == []


def test_what_stands_for_a_key_in_a_file_is_said(vplan: Callable[..., Run]) -> None:
    word = f'{{"kv_role": "kv_both", "password": "{PLAIN}"}}'
    said = vplan(*CHECK, "--fix", "--format", "ray", "--", *SERVE, "--kv-transfer-config", word)
    assert yaml.safe_load(said.out)
    assert said.err == "vplan: a key of the command is not written: *** stands for it\n"
    assert vplan(*PLAN, "--format", "ray").err == ""


def test_no_plan_file_holds_any(tmp_path: Path) -> None:
    """What is pasted with its environment is saved without the keys."""
    command = read_command([f"HF_TOKEN={TOKEN} VLLM_API_KEY={KEY} VLLM_USE_V1=1 {' '.join(SERVE)}"])
    assert dict(command.environ)["HF_TOKEN"] == TOKEN
    settings = Settings("rtx-4090", MODEL, "0.33.0", command.config, environ=command.environ)
    write_plan(tmp_path / "saved.yaml", settings)
    assert leaks(tmp_path) == []
    assert dict(read_plan(tmp_path / "saved.yaml").environ) == {"VLLM_USE_V1": "1"}


def test_no_export_of_the_calibration_holds_any() -> None:
    command = f"HF_TOKEN={PLAIN} vllm serve s3://me:{PASSWORD}@bucket/x --served-model-name {TOKEN}"
    run = CalibratedRun("2026-01-01", "rtx-4090", "0.33.0", MODEL, "inside", command, (), "u")
    assert not any(secret in exported([run]) for secret in SECRETS)
    assert json.loads(exported([run]))["runs"][0]["command"] == (
        "HF_TOKEN=*** vllm serve s3://***@bucket/x --served-model-name ***"
    )


def test_no_store_of_the_calibration_holds_any(vplan: Callable[..., Run], tmp_path: Path) -> None:
    """An export of somebody else's, or of before, comes with the commands that were run."""
    command = f"vllm serve {MODEL} --api-key {KEY} {PLAIN} --ssl-keyfile-password '{PLAIN}' -tp 2"
    run = CalibratedRun("2026-01-01", "rtx-4090", "0.33.0", f"{URL}/x", "inside", "", (), "u")
    rows = json.loads(exported([run]))
    rows["runs"][0] |= {"command": command, "model": f"{URL}/x"}
    (tmp_path / "server.log").write_text(json.dumps(rows))  # what the user wrote
    said = [vplan("calibration", *words) for words in (("import", "server.log"), ("list",),
            ("show", "1"), ("export",), ("list", "--json"), ("export", "out.json"))]  # fmt: skip
    assert [each.status for each in said] == [0] * 6
    assert leaks(tmp_path, *(each.out + each.err for each in said)) == []
    shown = f"vllm serve {MODEL} --api-key *** --ssl-keyfile-password *** -tp 2"
    (listed,) = json.loads(said[4].out)["runs"]
    assert listed["command"] == shown


def test_no_kept_model_holds_any(vplan: Callable[..., Run], tmp_path: Path) -> None:
    assert vplan("models", "add", MODEL, "--offline").status == 0
    assert len(list(user_catalogue.folder().iterdir())) == 1
    assert leaks(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [(f"token {TOKEN}.", "token ***."), (f"'{KEY}'", "'***'"),
     (f"{URL}/x", "https://***@mirror.example/x"), ("user@host", "user@host"),
     ("hf_transfer sk-1 org/model@v2", "hf_transfer sk-1 org/model@v2"),
     ("http://host/a@b", "http://host/a@b"), ("HF_TOKEN is not set", "HF_TOKEN is not set"),
     ("https:/me:p@ss@host", "https:/***@host"), ("HF_TOKEN=$HF_TOKEN", "HF_TOKEN=$HF_TOKEN"),
     ("HF_TOKEN='a b' vllm", "HF_TOKEN=*** vllm"), ("VLLM_API_KEY=${X}", "VLLM_API_KEY=${X}"),
     ("Authorization: Bearer abcdefgh.ij", "Authorization: Bearer ***"),
     ('{"api_key": "a\\"b", "n": 1}', '{"api_key": "***", "n": 1}'),
     (r'"{\"token\": \"a b\", \"n\": 1}"', r'"{\"token\": \"***\", \"n\": 1}"'),
     ("{'api_key': ['a', 'b'], 'seed': 0}", "{'api_key': '***', 'seed': 0}"),
     ("api_key=['a'], seed=0", "api_key=***, seed=0"), ("key: HF_TOKEN", "key: HF_TOKEN"),
     ("max_num_batched_tokens=8192", "max_num_batched_tokens=8192"),
     ('{"eos_token": "</s>", "key": "x"}', '{"eos_token": "</s>", "key": "x"}'),
     ("num_key_value_heads=8, pad_token_id=0", "num_key_value_heads=8, pad_token_id=0"),
     ('--from-literal=HF_TOKEN="$HF_TOKEN"', '--from-literal=HF_TOKEN="$HF_TOKEN"'),
     ("x --api-key ab 'c d' -tp 2 --hf-token e", "x --api-key *** -tp 2 --hf-token ***"),
     ("--api-key \\\n  ab \\\n  -tp 2", "--api-key *** \\\n  -tp 2"),
     ("--api-key 'a b' | tee x; y", "--api-key *** | tee x; y"),
     (r'{"c": "--api-key \"a b\" -tp 2", "d": "e"}', '{"c": "--api-key *** -tp 2", "d": "e"}'),
     ('{"c": "--api-key ab", "d": "e"}', '{"c": "--api-key ***", "d": "e"}'),
     ('{"c": "its --api-key ", "d": "e"}', '{"c": "its --api-key ", "d": "e"}'),
     ('["--api-key", "a", "b", "--port", "1"]', '["--api-key", "***", "--port", "1"]'),
     ("--api-key $KEY --hf-token \"$B\"", "--api-key $KEY --hf-token \"$B\""),
     ("--api-key needs a value", "--api-key needs a value"),
     ("argument --api-key: expected", "argument --api-key: expected"),
     ("for --api-key) or HF_TOKEN", "for --api-key) or HF_TOKEN"),
     ("--eos-token b --ssl-keyfile c", "--eos-token b --ssl-keyfile c")],
)  # fmt: skip
def test_what_is_taken_for_a_secret(text: str, shown: str) -> None:
    assert redacted(text) == shown


@pytest.mark.parametrize(
    "text",
    ["a" * 20_000, "-a" * 10_000, "token_" * 4000 + "=", "api_key=[" * 2000, "a:/" * 6000,
     "'token': '" * 2000, "Qwen3-8B-" * 2000 + ":", "--api-key " * 2000, "--api-key a " * 2000,
     "--api-key '" * 2000, "--api-key \\'a b " * 2000, "'--api-key', 'a" * 2000, "--api-key" +
     " " * 20_000, "--api-key " + "\\" * 20_000],
    ids=lambda text: text[:13],
)  # fmt: skip
def test_a_long_word_takes_no_longer_than_to_read(text: str) -> None:
    began = time.process_time()
    redacted(text)
    assert time.process_time() - began < 0.25


def test_variables_of_the_hub_are_no_tokens() -> None:
    text = "HF_HUB_DISABLE_TELEMETRY: 1, HF_XET_HIGH_PERFORMANCE=1, SK-SOMETHING-LONG-AND-LOUD"
    assert redacted(text) == text


def test_names_of_secrets() -> None:
    secret = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "VLLM_API_KEY", "AWS_SECRET_ACCESS_KEY",
              "AWS_ACCESS_KEY_ID", "PGPASSWORD", "MYSQL_PWD", "--api-key", "--ssl-keyfile-password",
              "hf_token")  # fmt: skip
    plain = ("max_num_batched_tokens", "VLLM_MAX_TOKENS_PER_EXPERT_FUSED_MOE_CHUNK", "PWD",
             "TOKENIZERS_PARALLELISM", "num_key_value_heads", "--ssl-keyfile")  # fmt: skip
    assert [name for name in (*secret, *plain) if is_secret(name)] == list(secret)


def test_a_count_of_tokens_is_read_from_a_log() -> None:
    words = option_words("{'max_num_batched_tokens': 2048, 'hf_token': 'x', 'api_key': ['y']}")
    assert words == ("--max-num-batched-tokens", "2048")
