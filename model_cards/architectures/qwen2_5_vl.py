"""Qwen 2.5 VL: Qwen 2.5 behind a ViT with windowed attention."""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.architectures import qwen2
from model_cards.architectures.decoder import Body, tied_embeddings
from model_cards.architectures.towers.qwen2_5_vl import vision_tower
from model_cards.config import Config
from model_cards.quantization.scheme import QuantScheme

CHECKPOINT_NAMES = {
    "model.language_model.": "language_model.model.",
    "model.visual.": "visual.",
    "model.": "language_model.model.",
}
# M-RoPE counts the time of a video in positions, so vLLM makes its table longer.
_MROPE_POSITIONS = 4


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    vision = config.section("vision_config")
    if vision is None:
        raise config.fail("vision_config", "an object")
    # Saved by transformers 4, the text part says whether embeddings are tied.
    tied = tied_embeddings(config, False) or tied_embeddings(config.text, False)
    text = config.text.merged({"tie_word_embeddings": tied})
    body = qwen2.text_body(text, scheme, root="language_model.")
    longer = _MROPE_POSITIONS if "mrope_section" in text.rope_parameters else 1
    return replace(
        body,
        rotary=tuple(replace(table, rows=longer * table.rows) for table in body.rotary),
        towers=(vision_tower(vision, scheme, "visual"),),
    )
