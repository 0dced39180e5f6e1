"""Speculative decoding as `--speculative-config` sets it up (config/speculative.py).

A draft comes with the target's checkpoint (MTP layers) or as a checkpoint of its own: a head that
reads the target's hidden states, or a whole smaller model.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from model_cards.caches import Attention
from model_cards.card import Draft, Layer, ModelCard
from model_cards.drafts import SELF_CONTAINED, as_draft
from model_cards.modules import RotaryCache
from planner.engine.draft_heads import built_heads, heads_problem, ranks_with_heads
from planner.engine.releases import Release
from planner.engine_config import SpeculativeConfig

# Methods that propose tokens without a network.
WITHOUT_DRAFT: Final = frozenset({"ngram", "ngram_gpu", "suffix"})
_BLOCK_METHODS: Final = frozenset({"dflash", "dspark"})
# Rotary embeddings whose angles do not depend on the length of their table.
_LENGTH_FREE_ROPES: Final = frozenset({"default", "linear", "llama3", "ntk", "proportional"})


class Speculation(Struct, frozen=True):
    """A speculative method at work: its draft (None without one) and tokens a step."""

    method: str
    num_speculative_tokens: int
    draft: Draft | None = None
    max_model_len: int | None = None  # the draft's own limit, where it binds the target
    problem: str | None = None  # why it cannot work: no draft where it needs one, too few heads
    on_v0: bool = False  # vLLM falls back to its first engine
    ranks: int | None = None  # tensor-parallel ranks that hold the draft, None: all
    parallel_drafting: bool = False  # a head or model trained to write all tokens in one pass
    needs_v1_runner: bool = False  # the release's newer model runner does not do it

    @property
    def shares_embedding(self) -> bool:
        """Whether the draft can embed tokens with the target's matrix."""
        return self.method not in SELF_CONTAINED

    @property
    def reads_hidden_states(self) -> bool:
        """Whether the draft continues from what the target computed, as EAGLE does.

        Heads for each token read it too, but vLLM keeps no batch of it for them.
        """
        heads = self.method in SELF_CONTAINED
        return self.draft is not None and self.method != "draft_model" and not heads

    @property
    def decoder_layers(self) -> tuple[Layer, ...]:
        """The draft's layers that are like the target's; heads are none."""
        return self.draft.layers if self.draft is not None and self.shares_embedding else ()

    @property
    def note(self) -> str | None:
        """What the reader of a plan must know."""
        if not self.on_v0:
            return None
        return (
            f"this vLLM runs {self.method} on its V0 engine, which sizes the KV cache as if there "
            "were no draft; the plan leaves room for it"
        )

    @property
    def writes_blocks(self) -> bool:
        """Whether the draft writes all tokens of a step at once, by its method."""
        return self.method in _BLOCK_METHODS

    @property
    def query_len(self) -> int:
        """Tokens of a request that the target takes in one decode step."""
        return 1 + self.num_speculative_tokens

    @property
    def retained_tokens(self) -> int:
        """Tokens kept behind sliding windows: of a chain of MTP layers each reads one further."""
        layers = len(self.draft.layers) if self.draft is not None else 0
        chained = self.method == "mtp" and min(layers, self.num_speculative_tokens) > 1
        return self.num_speculative_tokens - 1 if chained else 0

    def attention_layers(self) -> tuple[Attention, ...]:
        """The attention caches of the draft's layers."""
        if self.draft is None:
            return ()
        caches = (cache for layer in self.draft.layers for cache in layer.caches)
        return tuple(cache for cache in caches if isinstance(cache, Attention))


def speculation(
    card: ModelCard,
    config: SpeculativeConfig | None,
    draft: ModelCard | None,
    max_model_len: int,
    release: Release,
) -> Speculation | None:
    """What `--speculative-config` sets up for a target; `draft` is the card of its `model`."""
    if config is None:
        return None
    found = _found(card, config, draft, max_model_len, release)
    at_once = bool(config.parallel_drafting) and config.method not in _BLOCK_METHODS
    return replace(
        found,
        on_v0=config.method in release.fact("v0_speculative_methods"),
        parallel_drafting=bool(config.parallel_drafting),
        needs_v1_runner=at_once or config.method not in release.fact("model_runner_v2_methods"),
    )


def _found(
    card: ModelCard,
    config: SpeculativeConfig,
    draft: ModelCard | None,
    max_model_len: int,
    release: Release,
) -> Speculation:
    tokens, method = config.num_speculative_tokens, config.method
    if method in WITHOUT_DRAFT:
        return Speculation(method, tokens)
    if draft is None:
        own = next((each for each in card.drafts if each.method == method), None)
        if own is None:
            return Speculation(method, tokens, problem=_missing(card, method))
        return Speculation(method, tokens, own)
    own_limit = draft.default_max_model_len
    if method == "draft_model":
        return Speculation(method, tokens, as_draft(draft, method), own_limit)
    head = as_draft(draft, method)
    if method in SELF_CONTAINED:
        return _heads(card, config, draft, head, release)
    if all(_length_free(table) for table in head.rotary):
        return Speculation(method, tokens, _lengthened(head, max_model_len))
    return Speculation(method, tokens, head, own_limit)


def _heads(
    card: ModelCard,
    config: SpeculativeConfig,
    draft: ModelCard,
    head: Draft,
    release: Release,
) -> Speculation:
    tokens, method = config.num_speculative_tokens, config.method
    on_v0 = method in release.fact("v0_speculative_methods")
    return Speculation(
        method,
        tokens,
        built_heads(head, card, tokens, release),
        problem=heads_problem(draft, card, config, release),
        ranks=ranks_with_heads(config) if on_v0 else None,
    )


def _missing(card: ModelCard, method: str) -> str:
    if method == "mtp":
        return f"{card.model_id} has no MTP layers that vLLM could draft with"
    return f"the speculative method {method!r} needs a draft; name its model"


def _length_free(table: RotaryCache) -> bool:
    return not table.rope or table.rope[0] in _LENGTH_FREE_ROPES


def _lengthened(head: Draft, max_model_len: int) -> Draft:
    """A head that shares the target's positions: its rotary table is as long as they are."""

    def rows(table: RotaryCache) -> int:
        linear = bool(table.rope) and table.rope[0] == "linear"
        factor = float(table.rope[2]) if linear else 1.0
        return max(table.rows, int(max_model_len * factor))

    return replace(head, rotary=tuple(replace(table, rows=rows(table)) for table in head.rotary))
