"""What a recommendation must satisfy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from model_cards import ModelCard
from planner.errors import PlanError
from planner.workload import Workload, check_count

DEFAULT_CONTEXT: Final = 16384


@dataclass(frozen=True, slots=True)
class Requirements:
    """A workload, and the context a single request may grow to.

    `context` None: `DEFAULT_CONTEXT`, or less for a model that has less.
    """

    workload: Workload
    use_case: str
    context: int | None = None

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

    def context_for(self, card: ModelCard) -> int:
        """The context to plan a model with."""
        if self.context is not None:
            return self.context
        return min(self.wanted_context, card.max_model_len)
