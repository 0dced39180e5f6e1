"""What a recommendation must satisfy, and what it should be best at."""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from model_cards import ModelCard
from planner.errors import PlanError
from planner.recommendation.licences import ANY_LICENCE, Licences
from planner.workload import Workload, check_count

DEFAULT_CONTEXT: Final = 16384
# Tokens a thinking model writes for each token of an answer that does not think aloud.
_THINKING_TOKENS: Final = 4
# Slower than this an answer is no pleasure to wait for: a model nobody named must reach it.
PLEASANT_PACE: Final = 15.0  # tokens/s for each user


class Objective(Enum):
    """What to be best at, once everything that was asked for holds."""

    BALANCED = "balanced"  # the best quality, of equals the fastest
    LATENCY = "latency"  # the shortest time for an answer
    THROUGHPUT = "throughput"  # the most tokens a second from as many requests as fit
    CONTEXT = "context"  # the longest context
    QUALITY = "quality"  # the least loss by quantization, however slow

    @classmethod
    def named(cls, name: str) -> Objective:
        """The objective of that name; `PlanError` for an unknown one."""
        try:
            return cls(name.strip().lower())
        except ValueError:
            names = ", ".join(each.value for each in cls)
            raise PlanError(f"Unknown objective {name!r}; one of {names}") from None


class Requirements(Struct, frozen=True):
    """A workload, the context a single request may grow to, and limits on what may be recommended.

    `context` None: `DEFAULT_CONTEXT`, or less for a model that has less. `objective` None: a model
    that was named is kept if it works as it is, else balanced. `min_tokens_per_second` is for each
    user; None: `PLEASANT_PACE` for models that nobody named. `trust_remote_code`: the user lets
    vLLM run code of the model's repository.
    """

    workload: Workload
    use_case: str
    context: int | None = None
    trust_remote_code: bool = False
    objective: Objective | None = None
    min_tokens_per_second: float | None = None
    licences: Licences = ANY_LICENCE

    def __post_init__(self) -> None:
        pace = self.min_tokens_per_second
        if pace is not None and not 0 <= pace < float("inf"):
            raise PlanError(f"tokens per second cannot be {pace:g}; 0 is no limit")
        if self.context is None:
            return
        check_count("the context", self.context)
        if self.context < self.workload.total_tokens:
            raise PlanError(
                f"a context of {self.context} tokens cannot hold requests of "
                f"{self.workload.prompt_tokens} + {self.workload.output_tokens} tokens"
            )

    @property
    def aim(self) -> Objective:
        """The objective, balanced where none was given."""
        return self.objective or Objective.BALANCED

    @property
    def wanted_context(self) -> int:
        """The context asked for, else the default, or more where the requests are longer."""
        if self.context is not None:
            return self.context
        return max(DEFAULT_CONTEXT, self.workload.total_tokens)

    def thinking(self, card: ModelCard) -> Requirements:
        """The same with room for a model that thinks aloud before it answers.

        Answers to reasoning tasks are that long already; none is longer than the context.
        """
        if self.use_case == "reasoning":
            return self
        room = self.context_for(card) - self.workload.prompt_tokens
        tokens = min(self.workload.output_tokens * _THINKING_TOKENS, room)
        longer = max(tokens, self.workload.output_tokens)
        return replace(self, workload=replace(self.workload, output_tokens=longer))

    def context_for(self, card: ModelCard) -> int:
        """The context to plan a model with."""
        if self.context is not None:
            return self.context
        return min(self.wanted_context, card.max_model_len)
