"""Findings: what is wrong with a command, or worth knowing of it, and what to do."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Severity(Enum):
    """What a finding means for the launch."""

    ERROR = "error"  # vLLM does not start
    WARNING = "warning"  # it may not start, or does something else than meant
    INFO = "info"


class Finding(Struct, frozen=True):
    """One finding: a code for programs, a line for people, and the change that mends it."""

    code: str
    severity: Severity
    text: str
    fix: str | None = None
