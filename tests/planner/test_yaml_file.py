"""YAML of others: what a few lines can do to whoever reads them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from planner import PlanError
from planner.yaml_file import read_yaml

# Each line names twice what the line before it names: the last stands for 2**60 numbers.
LAUGHS = "a0: &a0 [1, 1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))


def test_what_a_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("a: [1, {b: größe}]\nc: 2026-11-30\n", "utf-8")
    assert read_yaml(path, "a plan")["a"] == [1, {"b": "größe"}]


def test_a_pipe(tmp_path: Path) -> None:
    """As `--config <(...)`."""
    read, write = os.pipe()
    os.write(write, b"a: 1")
    os.close(write)
    assert read_yaml(Path(f"/dev/fd/{read}"), "a plan") == {"a": 1}
    os.close(read)


@pytest.mark.parametrize(
    ("content", "problem"),
    [(LAUGHS, "is not a plan: no YAML"), ("[" * 20_000, "is not a plan"), ("{" * 20_000, "is not"),
     ("- " * 20_000, "is not a plan"), ("a: [" * 9000, "is not a plan"), ("? " * 20_000, "is not"),
     ("a: 2026-99-99", "is not a plan"), ("a: !!python/object/apply:os.system [id]", "is not"),
     ("a: \x00", "is not a plan"), ("\ufeff\x85: [", "is not a plan"), ("a" * 50_001, "too large")],
    ids=lambda text: text[:10],
)  # fmt: skip
def test_what_is_refused_at_once(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(content, "utf-8")
    began = time.process_time()
    with pytest.raises(PlanError, match=problem):
        read_yaml(path, "a plan")
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("path", ["/dev/zero", "/etc", "/nonexistent", "/dev/null/x"])
def test_what_is_no_file(path: str) -> None:
    with pytest.raises(PlanError) as caught:
        read_yaml(Path(path), "a plan")
    assert path in str(caught.value)
