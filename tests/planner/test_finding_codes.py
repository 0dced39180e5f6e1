"""Every code that a finding can have is explained in docs/findings.md, and nothing else is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from planner.engine.refusal import RefusalKind

PROJECT = Path(__file__).parents[2]
EXPLAINED = re.findall(
    r"`(\w+)`(?=[^|]*\|[^|]*\|$)", (PROJECT / "docs/findings.md").read_text(), re.M
)
MAKERS = ("Finding", "_say", "_note")


def made(package: str) -> Iterator[str]:
    """The codes of findings that modules make, where they are written as such."""
    for path in (PROJECT / "planner" / package).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            maker = getattr(node.func, "id", getattr(node.func, "attr", ""))
            code = node.args[0]
            if maker in MAKERS and isinstance(code, ast.Constant) and isinstance(code.value, str):
                yield code.value


def test_each_code_is_explained_once() -> None:
    codes = {
        *made("command"),
        *made("diagnosis"),
        *made("launch"),
        *(kind.value for kind in RefusalKind),
    }
    assert sorted(EXPLAINED) == sorted(codes)
