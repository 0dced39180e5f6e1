"""Workload: what the server is asked to do."""

from __future__ import annotations

from math import isfinite
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

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


class Workload(Struct, frozen=True):
    """Requests of `prompt_tokens` and `output_tokens` on average, `concurrency` of them at a time.

    `prompt_spread` and `output_spread` are how much lengths vary: standard deviation over mean.
    `shared_prefix` is the share of a prompt that is cached from others'. With a `request_rate`
    (per second) requests come at random times, as many at once as that makes; else each user sends
    the next request when one is answered. `ttft_target` and `tpot_target` are seconds that must be
    kept on average. Raises `PlanError` for values that make no sense.
    """

    prompt_tokens: int = 1024
    output_tokens: int = 256
    concurrency: int = 1
    prompt_spread: float = 0.0
    output_spread: float = 0.0
    shared_prefix: float = 0.0
    request_rate: float | None = None
    ttft_target: float | None = None
    tpot_target: float | None = None

    def __post_init__(self) -> None:
        for name in ("prompt_tokens", "output_tokens", "concurrency"):
            check_count(name.replace("_", " "), getattr(self, name))
        for name in ("prompt_spread", "output_spread"):
            if not 0 <= getattr(self, name) <= 10:
                raise PlanError(f"{name.replace('_', ' ')} must lie between 0 and 10")
        if not 0 <= self.shared_prefix < 1:
            raise PlanError("the shared prefix must be at least 0 and less than 1 of a prompt")
        for name in ("request_rate", "ttft_target", "tpot_target"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and isfinite(value)):
                raise PlanError(f"{name.replace('_', ' ')} must be more than 0")

    @property
    def total_tokens(self) -> int:
        """Tokens of one finished request."""
        return self.prompt_tokens + self.output_tokens

    @property
    def new_prompt_tokens(self) -> float:
        """Tokens of a prompt that are processed: those without a cached prefix, at least one."""
        return max(1.0, self.prompt_tokens * (1 - self.shared_prefix))

    @property
    def decode_context(self) -> float:
        """Mean tokens of a request while it decodes; long answers are met more often."""
        return self.prompt_tokens + self.output_tokens * (1 + self.output_spread**2) / 2

    def within(self, length: int) -> Workload:
        """The same with shorter prompts and answers where a request must not exceed `length`."""
        if self.total_tokens <= length:
            return self
        answer = max(1, min(self.output_tokens, length // 2))
        return replace(self, prompt_tokens=max(1, length - answer), output_tokens=answer)

    @property
    def has_targets(self) -> bool:
        """Whether latency is limited."""
        return self.ttft_target is not None or self.tpot_target is not None


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
    return replace(USE_CASES[use_case], concurrency=concurrency)
