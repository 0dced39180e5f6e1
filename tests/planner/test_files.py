"""Files are written whole or not at all, and never over another one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from planner.errors import PlanError
from planner.files import write_file


def test_a_new_file(tmp_path: Path) -> None:
    write_file(tmp_path / "plan.yaml", "größe: 1\n")
    assert (tmp_path / "plan.yaml").read_bytes() == "größe: 1\n".encode()
    assert os.listdir(tmp_path) == ["plan.yaml"]


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_file(tmp_path / "plan.yaml", "")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "plan.yaml").stat().st_mode) == 0o640


def test_what_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("mine")
    with pytest.raises(PlanError, match=r"plan.yaml exists; --force overwrites it"):
        write_file(path, "other")
    assert path.read_text() == "mine"
    assert os.listdir(tmp_path) == ["plan.yaml"]


def test_force_replaces(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("old")
    write_file(path, "new", force=True)
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["plan.yaml"]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    with pytest.raises(UnicodeEncodeError):
        write_file(path, "\ud800")
    assert os.listdir(tmp_path) == []


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_file(tmp_path / "missing" / "plan.yaml", "")
