"""Files that vplan writes for the user: whole or not at all, and never over another one."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import NamedTemporaryFile

from planner.errors import PlanError


def write_file(path: Path, text: str, *, force: bool = False) -> None:
    """Write a UTF-8 file, as `write_bytes` does."""
    write_bytes(path, text.encode("utf-8"), force=force)


def write_bytes(path: Path, content: bytes, *, force: bool = False) -> None:
    """Write a file in one step.

    Raises `PlanError` if `path` exists and `force` is not set, `OSError` if it cannot be written;
    what was there before is then unchanged.
    """
    partial = None
    try:
        with NamedTemporaryFile(
            "wb", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as stream:
            partial = Path(stream.name)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        partial.chmod(0o666 & ~_umask())
        if force:
            os.replace(partial, path)
        else:
            _publish(partial, path)
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)


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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
