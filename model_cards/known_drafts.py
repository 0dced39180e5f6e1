"""Which drafts exist for a target: in its checkpoint, heads trained for it, small models.

Published heads are in data/drafts.jsonl (tools/build_drafts.py). A head whose config is not bundled
is described as its kind usually is: the target's own dimensions, one layer (five where it writes
blocks), a vocabulary of 32,000 for EAGLE-3.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from model_cards.build import build_card
from model_cards.caches import AttentionKind
from model_cards.card import Fidelity, ModelCard, Origin
from model_cards.config import Config
from model_cards.errors import CardError
from model_cards.facts import Facts
from model_cards.sources.bundled import find_entry, open_bundled

# What a quantized copy's name adds to the original's.
_FORMAT: Final = re.compile(
    r"[-.](fp8|nvfp4|mxfp4|awq|gptq|int[48]|w[48]a(8|16)|dynamic|block|quantized|autoround|bnb|4bit"
    r"|8bit|marlin|g128|fp4)$"
)
_IN_CHECKPOINT: Final = ("mtp", "dspark")
_SMALLER: Final = 4  # a model that drafts has at most one parameter for so many of its target
_ARCHITECTURES: Final = {
    "eagle": "EagleLlamaForCausalLM",
    "eagle3": "LlamaForCausalLMEagle3",
    "dflash": "DFlashDraftModel",
    "dspark": "DFlashDraftModel",  # and small heads beside it
}
_BLOCK_LAYERS: Final = 5
_PARALLEL_LAYERS: Final = 4
_DRAFT_VOCABULARY: Final = 32000


class KnownDraft(Struct, frozen=True):
    """A draft for a target. `model` is its repository; None: in the target's own checkpoint."""

    method: str
    model: str | None
    parallel: bool = False  # trained to write all its tokens in one pass, whatever its method
    tokens: int | None = None  # drafted tokens that its makers recommend or trained it for
    like: str | None = None  # a bundled model of the same dimensions, for one that is not
    source: str = ""


def drafts_of(card: ModelCard) -> tuple[KnownDraft, ...]:
    """The drafts that are known for a target, those in its checkpoint first."""
    own = tuple(
        KnownDraft(draft.method, None, source="in the checkpoint")
        for draft in card.drafts
        if draft.method in _IN_CHECKPOINT and draft.unreadable is None
    )
    if card.head is not None or not card.converses:
        return own
    names = _names(card.model_id)
    found = [draft for target, draft in _listed() if _is_for(target, names)]
    return own + tuple(draft for draft in found if _suits(draft, card))


def find_draft(model_id: str) -> KnownDraft | None:
    """A known draft by its repository, whatever its target."""
    name = model_id.lower()
    return next((draft for _, draft in _listed() if (draft.model or "").lower() == name), None)


def draft_card(draft: KnownDraft, target: ModelCard) -> ModelCard | None:
    """The card of a draft's own checkpoint, from the snapshot or as its kind usually is.

    None where nothing tells what it is like.
    """
    if draft.model is None:
        return None
    bundled = _bundled(draft.model)
    if bundled is not None:
        return bundled
    if draft.like is not None and (like := _bundled(draft.like)) is not None:
        return _estimated(replace(like, model_id=draft.model), f"planned as {draft.like}")
    return _usual_head(draft, target)


def _bundled(model_id: str) -> ModelCard | None:
    try:
        return open_bundled(model_id)
    except CardError:
        return None


def _estimated(card: ModelCard, how: str) -> ModelCard:
    note = f"{card.model_id} is not bundled: {how}"
    return replace(card, fidelity=Fidelity.ESTIMATED, notes=(*card.notes, note))


def known_draft_card(model: str, target: ModelCard) -> ModelCard | None:
    """The card of a draft that is known for a target, by its repository; None for others."""
    known = (draft for draft in drafts_of(target) if (draft.model or "").lower() == model.lower())
    return next((draft_card(draft, target) for draft in known), None)


def base_name(model_id: str) -> str:
    """A model's name without owner and weight format, in lower case."""
    name = model_id.rpartition("/")[2].lower()
    while (shorter := _FORMAT.sub("", name)) != name:
        name = shorter
    return name


def _names(model_id: str) -> set[str]:
    """Names a target goes by: its own, and that of the model it is a copy of."""
    names = {base_name(model_id)}
    entry = find_entry(model_id)
    if entry is not None and entry.base is not None:
        names.add(base_name(entry.base))
    return names


@cache
def _listed() -> tuple[tuple[str, KnownDraft], ...]:
    """Every draft with the name of its target, or the beginning of such names with a star."""
    text = (Path(__file__).parent / "data" / "drafts.jsonl").read_text("utf-8")
    return tuple(_listed_row(json.loads(line)) for line in text.splitlines())


def _listed_row(row: dict[str, Any]) -> tuple[str, KnownDraft]:
    target = f"{row['family']}*" if "family" in row else base_name(row["target"])
    draft = KnownDraft(
        row["method"],
        row["draft"],
        row.get("parallel", False),
        row.get("tokens"),
        row.get("like"),
        row["source"],
    )
    return target, draft


def _is_for(target: str, names: set[str]) -> bool:
    if target.endswith("*"):
        return any(name.startswith(target[:-1]) for name in names)
    return target in names


def _suits(draft: KnownDraft, target: ModelCard) -> bool:
    """Whether a draft that is a model of its own is small, and has its target's vocabulary."""
    if draft.method != "draft_model":
        return True
    card = draft_card(draft, target)
    if card is None:
        return False
    small = card.parameters * _SMALLER <= target.parameters
    return small and card.vocab_size == target.vocab_size


def _usual_head(draft: KnownDraft, target: ModelCard) -> ModelCard | None:
    """A head of this kind as one is usually built for the target."""
    architecture = _ARCHITECTURES.get(draft.method)
    if architecture is None or draft.model is None:
        return None
    blocks = draft.method in ("dflash", "dspark")
    layers = _BLOCK_LAYERS if blocks else _PARALLEL_LAYERS if draft.parallel else 1
    heads, kv_heads, head_size = _attention(target)
    values: dict[str, Any] = {
        "architectures": [architecture],
        "model_type": "qwen3" if blocks else "llama",
        "hidden_size": target.hidden_size,
        "intermediate_size": _intermediate_size(target),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_size,
        "vocab_size": target.vocab_size,
        "max_position_embeddings": target.max_model_len,
        "torch_dtype": target.dtype if target.dtype in ("bfloat16", "float16") else "bfloat16",
    }
    if draft.method == "eagle3":
        values["draft_vocab_size"] = min(_DRAFT_VOCABULARY, target.vocab_size)
    if blocks:
        values["dflash_config"] = {"target_layer_ids": list(range(layers))}
    origin = Origin("usual", "the usual head for this target", reconstructed=True)
    facts = Facts(draft_method=draft.method)
    card = build_card(draft.model, Config(values, f"{draft.model}: usual config"), origin, facts)
    return _estimated(card, f"planned as a usual {draft.method} head")


def _attention(target: ModelCard) -> tuple[int, int, int]:
    """Heads, KV heads and head size of a head's layers: the target's, or usual ones."""
    whole = [a for a in target.attention_layers if a.kind is AttentionKind.FULL]
    for attention in (*whole, *target.attention_layers):
        if attention.num_kv_heads > 1 or attention.kind is AttentionKind.FULL:
            return attention.num_heads, attention.num_kv_heads, attention.head_size
    heads = max((attention.num_heads for attention in target.attention_layers), default=64)
    return heads, 8, 128


def _intermediate_size(target: ModelCard) -> int:
    """Of a dense target its own; heads of a sparse one have about six times its width."""
    if target.is_moe or not target.max_intermediate_size:
        return 6 * target.hidden_size
    return target.max_intermediate_size
