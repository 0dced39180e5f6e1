"""What generation_config.json says that a plan is concerned with."""

from __future__ import annotations

from msgspec import Struct


class Generation(Struct, frozen=True):
    """Defaults that vLLM takes from it for every request (`--generation-config auto`)."""

    max_new_tokens: int | None = None  # by which it caps every answer, whatever a request asks for
    min_p: float | None = None  # which no request may have where drafts are used

    def note(self) -> str | None:
        """That answers are capped, if they are."""
        if self.max_new_tokens is None:
            return None
        return (
            f"its generation_config.json limits answers to {self.max_new_tokens:,} tokens; "
            "--generation-config vllm lifts that"
        )
