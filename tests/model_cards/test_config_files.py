"""Files that are no config.json: each refused in one line that names the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from model_cards.config import MAX_CONFIG_BYTES, Config, parse_json_object, read_json_object
from model_cards.errors import BadConfig


def refusal(path: Path) -> str:
    with pytest.raises(BadConfig) as caught:
        read_json_object(path)
    message = str(caught.value)
    assert message.isprintable()
    assert path.name in message
    return message


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is not valid JSON"),
        (b" \n", "is not valid JSON"),
        (b'{"hidden_size": 4096, "num_hid', "is not valid JSON"),  # truncated
        (b'{"hidden_size": 4096,}', "is not valid JSON"),
        (b"hidden_size: 4096\n", "is not valid JSON"),  # YAML
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is not valid JSON"),
        (b"<html><body>404</body></html>", "is not valid JSON"),
        (bytes(range(256)) * 8, "is not valid JSON"),  # binary
        (b'{"model_type": "\xff\xfe"}', "is not valid JSON"),  # not UTF-8
        (b'{"hidden_size": ' + b"9" * 5000 + b"}", "is not valid JSON"),  # Python's digit limit
        (b'{"a":' * 100_000, "is not valid JSON"),
        (b"[" * 100_000 + b"]" * 100_000, "is not valid JSON"),
        (b'[{"hidden_size": 4096}]', "holds a list, not a JSON object"),
        (b'"config"', "holds a str, not a JSON object"),
        (b"4096", "holds a int, not a JSON object"),
        (b"null", "holds a NoneType, not a JSON object"),
        (b'{"rope_theta": NaN}', "NaN is not a number JSON knows"),
        (b'{"rope_theta": Infinity}', "Infinity is not a number JSON knows"),
        (b'{"rope_scaling": {"factor": -Infinity}}', "-Infinity is not a number JSON knows"),
    ],
    ids=lambda value: repr(value[:24]) if isinstance(value, bytes) else "",
)
def test_what_is_no_json_object(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    assert problem in refusal(path)


def test_a_file_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as stream:
        stream.truncate(MAX_CONFIG_BYTES + 1)  # sparse: takes no space
    assert "is larger than 64 MiB; not read" in refusal(path)


def test_a_large_file_within_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "llama", "padding": "x" * 3_000_000}))
    assert read_json_object(path)["model_type"] == "llama"


def test_a_byte_order_mark_and_utf_16_are_refused_as_by_transformers() -> None:
    """It opens the file as UTF-8 and hands the text to json: vLLM would not start."""
    text = '{"model_type": "llama"}'
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        with pytest.raises(BadConfig, match="not valid JSON"):
            parse_json_object(text.encode(encoding), "config.json")


def test_missing_files_and_folders(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "config.json")
    folder = tmp_path / "folder.json"
    folder.mkdir()
    assert "Cannot read" in refusal(folder)


def test_a_symlink_loop(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.symlink_to(tmp_path / "other.json")
    (tmp_path / "other.json").symlink_to(path)
    assert "Cannot read" in refusal(path)


@pytest.mark.parametrize("depth", range(50, 1500, 50))
def test_nesting_that_the_parser_still_takes_is_refused_by_key(depth: int) -> None:
    text = '{"hidden_size": ' + "[" * depth + "]" * depth + "}"
    with pytest.raises(BadConfig) as caught:
        Config(parse_json_object(text, "config.json"), "config.json").integer("hidden_size")
    assert str(caught.value).startswith("config.json")


def test_a_file_name_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a\n\x1b[2Jb.json"
    path.write_text("{")
    with pytest.raises(BadConfig, match=r"a\\n\\x1b\[2Jb\.json is not valid JSON"):
        read_json_object(path)
