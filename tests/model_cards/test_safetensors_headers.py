"""Headers of safetensors files: totals without reading a weight, and files that are none."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from checkpoint_files import header, write_safetensors

from model_cards.errors import BadConfig
from model_cards.inventory import StoredTensor
from model_cards.sources.headers import (
    contents,
    header_tensors,
    read_header,
    read_tensors,
    same_weights,
    totals,
)


def test_totals_of_a_16_bit_file(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {"a": ("BF16", [1000, 4096]), "b": ("F16", [4096]), "c": ("F32", [])})
    # 4,096,000 and 4,096 elements of 2 bytes, one scalar of 4.
    found = contents([read_tensors(path)]).totals
    assert (found.parameters, found.bytes) == (4_100_097, 8_200_196)
    assert path.stat().st_size < 1000, "no weight is there to be read"


def test_several_files_add_up(tmp_path: Path) -> None:
    paths = [tmp_path / f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    for path in paths:
        write_safetensors(path, {"a": ("BF16", [2**20, 2**20])})
    found = contents(map(read_tensors, paths)).totals
    assert (found.parameters, found.bytes) == (2 * 2**40, 4 * 2**40)


@pytest.mark.parametrize(
    ("counts", "size"),
    [({"I32": 10, "F16": 5}, 50), ({"F8_E4M3": 7, "F32": 1}, 11), ({"U8": 3}, 3), ({"F4": 8}, 4),
     ({"F6_E2M3": 4}, 3), ({"BOOL": 2, "I64": 1}, 10)],
)  # fmt: skip
def test_packed_and_scaled_elements_are_no_parameters(counts: dict[str, int], size: int) -> None:
    found = totals(counts)
    assert (found.bytes, found.parameters) == (size, None)


def test_an_empty_file_has_no_elements(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {})
    assert contents([read_tensors(path)]).totals.bytes == 0
    tensors = header_tensors({"a": {"dtype": "F32", "shape": [0, 4]}}, "model.safetensors")
    assert tensors == {"a": StoredTensor("F32", (0, 4))}
    assert tensors["a"].bytes == 0


def refusal(path: Path) -> str:
    with pytest.raises(BadConfig) as caught:
        read_tensors(path)
    message = str(caught.value)
    assert message.isprintable()
    assert path.name in message
    return message


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "too short"),
        (b"1234567", "too short"),
        (b"version https://git-lfs.github.com/spec/v1\n", "claims"),
        (struct.pack("<Q", 2**63), "claims 9223372036854775808 bytes; not read"),
        (header({"a": ("F32", [1])})[:-3], "truncated inside its header"),
        (struct.pack("<Q", 4) + b"abcd", "is not valid JSON"),
        (struct.pack("<Q", 4) + b"[1] ", "holds a list, not a JSON object"),
        (struct.pack("<Q", 4) + b"\xff" * 4, "is not valid JSON"),
    ],
)
def test_files_that_are_no_safetensors(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    assert problem in refusal(path)


@pytest.mark.parametrize(
    "entry",
    [3, [], "F32", {}, {"dtype": "F32"}, {"shape": [1]}, {"dtype": "F33", "shape": [1]},
     {"dtype": ["F32"], "shape": [1]}, {"dtype": {}, "shape": [1]}, {"dtype": 32, "shape": [1]},
     {"dtype": "F32", "shape": 1}, {"dtype": "F32", "shape": "1"}, {"dtype": "F32", "shape": [-1]},
     {"dtype": "F32", "shape": [1.5]}, {"dtype": "F32", "shape": [True]},
     {"dtype": "F32", "shape": [None]}, {"dtype": "F32", "shape": [2**40]},
     {"dtype": "F32", "shape": [2**29, 2**29]},  # 2**60 bytes
     {"dtype": "F32", "shape": [2**39] * 30},  # 2**1172 bytes: more than a float holds
     {"dtype": "F32", "shape": [9] * 1_000_000}],  # a product of a million digits
)  # fmt: skip
def test_entries_that_are_no_tensors(tmp_path: Path, entry: Any) -> None:
    path = tmp_path / "model.safetensors"
    text = json.dumps({"good": {"dtype": "F32", "shape": [1]}, "bad\n": entry}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    assert r"bad\n" in refusal(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "Cannot read" in refusal(tmp_path / "model.safetensors")
    folder = tmp_path / "folder.safetensors"
    folder.mkdir()
    assert "Cannot read" in refusal(folder)


def test_metadata_is_no_tensor(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {"a": ("F32", [3])})
    assert "__metadata__" in read_header(path)
    assert read_tensors(path) == {"a": StoredTensor("F32", (3,))}


def test_a_tensor_in_two_files_leaves_the_inventory_unknown(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "a.safetensors", {"a": ("BF16", [4]), "b": ("BF16", [2])})
    once = read_tensors(tmp_path / "a.safetensors")
    assert contents([once, once]).inventory is None
    found = contents([once]).inventory
    assert found is not None
    assert found.tensors == once


def written(path: Path, weights: dict[str, bytes]) -> Path:
    """A file of bf16 tensors of one dimension with these bytes."""
    start = header({name: ("BF16", [len(data) // 2]) for name, data in weights.items()})
    path.write_bytes(start + b"".join(weights.values()))
    return path


def test_weights_are_compared_by_samples(tmp_path: Path) -> None:
    one, other = bytes(range(256)) * 4096, bytes(range(256)) * 4095 + b"\x01" * 256
    path = written(
        tmp_path / "a.safetensors", {"a": one, "b": one, "c": one[::-1], "d": b"\x00" * 8}
    )
    assert same_weights((path, "a"), (path, "b")) is True
    assert same_weights((path, "a"), (path, "c")) is False
    assert same_weights((path, "a"), (path, "d")) is None
    across = written(tmp_path / "b.safetensors", {"a": other})
    assert same_weights((path, "a"), (across, "a")) is False, "the last rows are among the samples"
    write_safetensors(tmp_path / "c.safetensors", {"a": ("BF16", [len(one) // 2])})
    assert same_weights((path, "a"), (tmp_path / "c.safetensors", "a")) is None
