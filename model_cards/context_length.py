"""How long a context may get, as vLLM derives it from a config."""

from __future__ import annotations

from typing import Final

from model_cards.card import ANY_LENGTH
from model_cards.config import Config
from model_cards.pooling import NOT_POOLED, Pooling, PoolingFiles

# Context lengths in the order in which vLLM looks for them; the smallest wins.
_LENGTH_KEYS: Final = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
_DEFAULT_LENGTH = 2048  # what vLLM assumes for a config that has none of them
# RoPE kinds whose configured length already includes their scaling.
_PRESCALED_ROPE = frozenset({"su", "longrope", "llama3", "yarn", "deepseek_yarn"})


def names_length(config: Config) -> bool:
    """Whether the config itself gives a length, rather than the default."""
    return any(config.text.names(key) for key in _LENGTH_KEYS)


def context_lengths(
    config: Config,
    *,
    attends: bool,
    pooling: Pooling = NOT_POOLED,
    files: PoolingFiles | None = None,
) -> tuple[int, int]:
    """(longest accepted context, the default one); no limit for a network without attention.

    What Sentence Transformers says overrules the config; a tokenizer's limit counts for pooled
    models with learned positions.
    """
    text = config.text
    found = [text.integer(key) for key in _LENGTH_KEYS if key in text]
    if not found and not attends:
        return ANY_LENGTH, _DEFAULT_LENGTH
    limit = min(found) if found else _DEFAULT_LENGTH
    if "model_max_length" in text:  # Cohere's, which overrules the others
        limit = text.integer("model_max_length")
    absolute = config.string("position_embedding_type", "") == "absolute"
    if files is not None and files.model_max_length and pooling.pools and absolute:
        limit = min(limit, files.model_max_length)
    rope = text.rope_parameters
    kind = rope.string("rope_type", rope.string("type", "default"))
    if kind not in _PRESCALED_ROPE and "gemma3" not in config.model_type:
        limit = int(limit * rope.number("factor", 1.0))
        if limit == 0:
            raise rope.fail("factor", "large enough to leave a position")
    if files is not None and files.max_seq_length:
        limit = files.max_seq_length
    if kind in ("longrope", "su"):
        original = rope.integer("original_max_position_embeddings", limit)
        return limit, text.integer("original_max_position_embeddings", original)
    return limit, limit
