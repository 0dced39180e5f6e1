"""Files that the user names; those that vplan writes are whole or not there, and over no other."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from planner.errors import PlanError


def named_path(text: str) -> Path:
    """A path as a user writes it, with ~ for a home; that of nobody stays as it is."""
    # No path holds a null byte, and `expanduser` raises for one.
    return Path(text if "\0" in text else os.path.expanduser(text))


def is_folder(text: str) -> bool:
    """Whether a user's word is the path of a folder; what can be no path is none."""
    return text != "" and os.path.isdir(named_path(text))


def write_file(path: Path, text: str, *, force: bool = False) -> None:
    """Write a UTF-8 file, as `write_bytes` does."""
    write_bytes(path, text.encode("utf-8"), force=force)


def write_bytes(path: Path, content: bytes, *, force: bool = False) -> None:
    """Write a file in one step; into a pipe or a device, which holds nothing, straight.

    Raises `PlanError` if `path` exists and `force` is not set or has no name, `OSError` that names
    `path` if it cannot be written; what was there before is then unchanged. With `force` a link is
    followed.
    """
    if not path.name:
        raise PlanError(f"{path} is a folder, not the name of a file")
    try:
        if _is_stream(path):
            path.write_bytes(content)
        else:
            _write_whole(path.resolve() if force else path, content, force)
    except OSError as error:
        error.filename = str(path)
        raise


def _write_whole(path: Path, content: bytes, force: bool) -> None:
    partial = path.with_name(f".{os.urandom(8).hex()}.part")
    try:
        with partial.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if force:
            os.replace(partial, path)
        else:
            _publish(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _is_stream(path: Path) -> bool:
    """Whether it is there, and neither a file nor a folder."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _publish(partial: Path, path: Path) -> None:
    """Give a finished file its name, unless another has it: no moment lies between."""
    try:
        os.link(partial, path)
    except FileExistsError:
        raise PlanError(f"{path} exists; --force overwrites it") from None
    except OSError:  # a file system without links
        if path.exists():
            raise PlanError(f"{path} exists; --force overwrites it") from None
        os.replace(partial, path)
