"""What a recommendation must satisfy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from model_cards import ModelCard
from planner.errors import PlanError
from planner.workload import Workload, check_count

DEFAULT_CONTEXT: Final = 16384
# Tokens a thinking model writes for each token of an answer that does not think aloud.
_THINKING_TOKENS: Final = 4


@dataclass(frozen=True, slots=True)
class Requirements:
    """A workload, and the context a single request may grow to.

    `context` None: `DEFAULT_CONTEXT`, or less for a model that has less. `trust_remote_code`: the
    user lets vLLM run code of the model's repository.
    """

    workload: Workload
    use_case: str
    context: int | None = None
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        if self.context is None:
            return
        check_count("the context", self.context)
        if self.context < self.workload.total_tokens:
            raise PlanError(
                f"a context of {self.context} tokens cannot hold requests of "
                f"{self.workload.prompt_tokens} + {self.workload.output_tokens} tokens"
            )

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
