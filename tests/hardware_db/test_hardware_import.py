"""Start-up costs: commands that need no GPU must not pay for this package."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hardware_db


def modules_after(code: str) -> set[str]:
    code = f"import sys; {code}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_the_package_imports_nothing_else() -> None:
    extra = modules_after("import hardware_db") - modules_after("import importlib, typing")
    assert extra <= {"hardware_db", "__future__"}


def test_a_lookup_imports_nothing_heavy() -> None:
    loaded = modules_after("import hardware_db; hardware_db.find_rig('2x4090')")
    assert not loaded & {"pydantic", "numpy", "pynvml", "rich", "typer", "difflib", "ctypes"}


def test_every_public_name_is_there() -> None:
    for name in hardware_db.__all__:
        assert getattr(hardware_db, name).__name__ == name
    with pytest.raises(AttributeError, match="no_such_name"):
        hardware_db.no_such_name  # noqa: B018
