"""Workload: what the server is asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from planner.errors import PlanError

_LARGEST: Final = 2**31 - 1  # vLLM counts tokens in int32
_UNITS: Final = {"k": 2**10, "m": 2**20}


def check_count(what: str, value: int) -> None:
    """Raises `PlanError` for a number of tokens or requests that no vLLM can count."""
    if not 1 <= value <= _LARGEST:
        raise PlanError(f"{what} must lie between 1 and {_LARGEST:,}; {value} was asked for")


def token_count(text: str, what: str = "") -> int:
    """A number of tokens as people write it: 32768, 32,768, 32k or 0.5m (k = 1024, m = 1024²).

    Contexts are powers of two: who writes 32k means 32768, in whatever case.
    Raises `PlanError`, which begins with `what` it is for, for anything else.
    """
    plain = text.strip().lower().replace(",", "").replace("_", "")
    unit = _UNITS.get(plain[-1:], 1)
    number = plain if unit == 1 else plain[:-1].strip()
    try:
        if number.isdecimal():
            return int(number) * unit
        tokens = float(number) * unit
    except ValueError:
        tokens = 0.5
    if unit == 1 or not tokens.is_integer():
        about = f"{what}: " if what else ""
        hint = "one looks like 32768, 32k or 1m"
        raise PlanError(f"{about}{text.strip()!r} is no number of tokens; {hint}")
    return int(tokens)


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests of `prompt_tokens` and `output_tokens`, `concurrency` of them at a time."""

    prompt_tokens: int = 1024
    output_tokens: int = 256
    concurrency: int = 1

    def __post_init__(self) -> None:
        for name in ("prompt_tokens", "output_tokens", "concurrency"):
            check_count(name.replace("_", " "), getattr(self, name))

    @property
    def total_tokens(self) -> int:
        """Tokens of one finished request."""
        return self.prompt_tokens + self.output_tokens


# Typical prompt and answer lengths, for requests that name only a purpose.
USE_CASES: Final = {
    "chat": Workload(1024, 384),
    "code": Workload(4096, 512),
    "reasoning": Workload(1024, 4096),
    "rag": Workload(8192, 384),
    "agent": Workload(16384, 512),
}


def use_case_workload(use_case: str, concurrency: int = 1) -> Workload:
    """The typical workload of a use case; `PlanError` for an unknown one."""
    if use_case not in USE_CASES:
        raise PlanError(f"Unknown use case {use_case!r}; one of {', '.join(USE_CASES)}")
    typical = USE_CASES[use_case]
    return Workload(typical.prompt_tokens, typical.output_tokens, concurrency)
