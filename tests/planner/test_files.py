"""Files are written whole or not at all, and never over another one."""

from __future__ import annotations

import ast
import os
import stat
from pathlib import Path

import pytest

from planner.errors import PlanError
from planner.files import is_folder, named_path, write_file


def test_paths_as_users_write_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert named_path("~/x") == tmp_path / "x"
    assert named_path("~nobody-at-all/x") == Path("~nobody-at-all/x")
    assert is_folder("~")
    assert not any(map(is_folder, ("~/x", "~nobody-at-all", "a" * 300, "~\0b", "", __file__)))


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


def test_the_umask_of_other_threads_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To read it, it must be set for a moment, in which another thread may make a file."""
    monkeypatch.setattr(os, "umask", None)
    write_file(tmp_path / "plan.yaml", "x")


def test_a_device_or_a_pipe_is_written_into_and_not_replaced(tmp_path: Path) -> None:
    """As `-o /dev/stdout`; with --force a device of its own was replaced by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for force in (False, True):
        write_file(pipe, "text", force=force)
        assert os.read(end, 10) == b"text"
    os.close(end)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    write_file(Path("/dev/null"), "text", force=True)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_force_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(PlanError, match="exists"):
        write_file(tmp_path / "link", "new")
    write_file(tmp_path / "link", "new", force=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_name_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    write_file(tmp_path / ("n" * 255), "text")
    assert os.listdir(tmp_path) == ["n" * 255]


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing") as caught:
        write_file(tmp_path / "missing" / "plan.yaml", "")
    assert caught.value.filename == str(tmp_path / "missing" / "plan.yaml")


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


# Where files are written without `write_file`: the user's own catalogue and cache, which
# model_cards keeps in one step itself; a server's key, for its owner alone; a server's log; locks;
# streams to nowhere.
OTHERS = {
    "model_cards/sources/kept.py", "planner/launch/validation.py", "planner/launch/watchdog.py",
    "planner/calibration_store.py", "planner/cli/console.py", "planner/files.py",
}  # fmt: skip


def test_nothing_else_writes_files() -> None:
    root = Path(__file__).parents[2]
    found = set()
    for package in ("hardware_db", "model_cards", "planner"):
        for path in (root / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call) and writes(node):
                    found.add(str(path.relative_to(root)))
    assert found <= OTHERS
    assert "planner/files.py" in found


def writes(call: ast.Call) -> bool:
    """Whether a call writes a file: by its name, or a mode of `open` that is not for reading."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name in ("write_text", "write_bytes"):  # of a path; planner.files has functions so called
        return isinstance(call.func, ast.Attribute)
    if name in ("NamedTemporaryFile", "mkstemp"):
        return True
    modes = [each.value for each in call.args if isinstance(each, ast.Constant)]
    modes += [each.value.value for each in call.keywords
              if each.arg == "mode" and isinstance(each.value, ast.Constant)]  # fmt: skip
    return name == "open" and any(
        isinstance(mode, str) and 0 < len(mode) < 4 and set(mode) & set("wax+") for mode in modes
    )
