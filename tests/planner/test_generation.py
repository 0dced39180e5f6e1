"""generation_config.json: what vLLM takes from it, and what the options about it change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_models import llama

from hardware_db import find_rig
from planner.command.parse import read_command
from planner.diagnosis.check import check_command
from planner.findings import Severity

LIFTED = """--override-generation-config '{"max_new_tokens": null, "min_p": 0}'"""
DRAFTS = """--speculative-config '{"method": "ngram", "num_speculative_tokens": 3}'"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "config.json").write_text(json.dumps(llama(max_position_embeddings=4096)))
    settings = {"max_new_tokens": 512, "min_p": 0.15, "temperature": 0.3}
    (tmp_path / "generation_config.json").write_text(json.dumps(settings))
    return str(tmp_path)


def found(model: str, options: str, release: str = "0.33.0") -> dict[str, str]:
    command = read_command([f"vllm serve {model} {options}"], release)
    check = check_command(command, find_rig("4090"), offline=True)
    assert not [f for f in check.findings if f.severity is Severity.ERROR]
    lines = {f.code: f.text for f in check.findings if f.code != "note"}
    notes = [f.text for f in check.findings if f.code == "note"]
    assert not any("generation_config" in note for note in notes), "said once"
    return lines


@pytest.mark.parametrize(
    ("options", "limit"),
    [("", "its generation_config.json limits answers to 512 tokens"),
     ("--generation-config auto", "limits answers to 512 tokens"), ("--generation-config vllm", ""),
     ("--generation-config /other", ""), (LIFTED, ""),
     ("""--override-generation-config '{"temperature": 0}'""", "limits answers to 512 tokens"),
     ("""--override-generation-config '{"max_new_tokens": 64}'""",
      "--override-generation-config limits answers to 64 tokens"),
     ("--override-generation-config.max_new_tokens 64", "limits answers to 64 tokens"),
     ("""--generation-config vllm --override-generation-config '{"max_new_tokens": 64}'""",
      "--override-generation-config limits answers to 64 tokens")],
)  # fmt: skip
def test_where_answers_end(model: str, options: str, limit: str) -> None:
    said = found(model, options).get("answer_limit", "")
    assert limit in said
    assert bool(said) == bool(limit)


@pytest.mark.parametrize(
    ("options", "release", "refused"),
    [(DRAFTS, "0.33.0", True), (DRAFTS, "0.14.0", True), (DRAFTS, "0.13.0", False),
     ("", "0.33.0", False), (f"{DRAFTS} --generation-config vllm", "0.33.0", False),
     (f"{DRAFTS} {LIFTED}", "0.33.0", False)],
)  # fmt: skip
def test_min_p_where_drafts_are_used(model: str, options: str, release: str, refused: bool) -> None:
    """vLLM 0.14.0 to 0.33.0: "The min_p and logit_bias sampling parameters are not yet supported
    with speculative decoding", for every request that does not set its own."""
    said = found(model, options, release)
    assert ("min_p_with_drafts" in said) == refused
    assert not refused or "0.15" in said["min_p_with_drafts"]


@pytest.mark.parametrize(
    "content", ["", "[]", '{"min_p": "x", "max_new_tokens": []}', '{"min_p": 9}']
)
def test_a_broken_file_is_no_reason_to_refuse(model: str, content: str) -> None:
    (Path(model) / "generation_config.json").write_text(content)
    assert not {"answer_limit", "min_p_with_drafts"} & found(model, DRAFTS).keys()
