"""What the KV cache holds."""

from __future__ import annotations

from textual.content import Content

from planner.cli.format import count, rate_band, short_band, times_band
from planner.tui.outcome import Outcome
from planner.tui.show import DIM
from planner.tui.widgets.panel import Panel


class KvCard(Panel):
    """Tokens, and requests at this context."""

    BORDER_TITLE = "KV cache"

    def draw(self, outcome: Outcome, width: int) -> None:
        """Show what fits."""
        memory = outcome.memory
        if memory is None or not memory.kv_cache.groups:
            why = "no plan" if memory is None else "this model caches nothing"
            self.update(Content.assemble((why, DIM)))
            return
        self.entitle(f"KV cache, {memory.kv_tokens.basis.label}")
        if memory.kv_cache.num_blocks <= 0:
            none = ("0", "bold"), (" tokens: all else leaves no room", DIM)
            self.update(Content.assemble(*none))
            return
        tokens, held = memory.kv_tokens, memory.max_concurrency
        load = outcome.settings.workload.total_tokens
        of_load, length = memory.requests_at(load), memory.config.max_model_len
        lines = (
            (short_band(tokens), "tokens"),
            (times_band(held), f"requests of {length:,}"),
            (rate_band(of_load), f"requests of {load:,}"),
            (count(memory.kv_cache.num_blocks), f"blocks of {memory.block_size} tokens"),
        )
        self.update(
            Content("\n").join(Content.assemble((a, "bold"), (f" {b}", DIM)) for a, b in lines)
        )
