"""Phi 3 and 3.5 Vision: Phi 3 behind most of CLIP, patches merged four to one."""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.architectures import llama
from model_cards.architectures.decoder import Body, LayerBuilder
from model_cards.architectures.towers.clip import clip
from model_cards.card import Tower
from model_cards.config import Config
from model_cards.modules import Module, Tensor
from model_cards.quantization.scheme import QuantScheme

# vLLM renames lists like this, though its modules keep the names that checkpoints use.
CHECKPOINT_NAMES = {
    "model.vision_embed_tokens.": "vision_embed_tokens.",
    "model.": "language_model.model.",
}
# openai/clip-vit-large-patch14-336, which the model's config only names.
_CLIP = {
    "hidden_size": 1024,
    "image_size": 336,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "patch_size": 14,
}
_ROOT = "model.vision_embed_tokens"
_MERGED = 4  # patches


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`.

    vLLM's class also makes an embedding beside the language model's, and drops it after loading
    a checkpoint that has only one.
    """
    return replace(llama.text_body(config, scheme), towers=(_tower(config, scheme),))


def _tower(config: Config, scheme: QuantScheme) -> Tower:
    """The encoder up to the layer that is used, separators of image parts, a projector."""
    processor = config.section("img_processor")
    if processor is None:
        raise config.fail("img_processor", "an object")
    vision = Config(_CLIP, f"{config.where}: img_processor")
    last = processor.integer("layer_idx", -2, minimum=-_CLIP["num_hidden_layers"])
    layers = last + 1 if last >= 0 else _CLIP["num_hidden_layers"] + last + 1
    hidden, merged = config.integer("hidden_size"), _MERGED * processor.integer("image_dim_out")
    b = LayerBuilder(config, scheme, f"{_ROOT}.img_projection")
    modules: list[Module] = [
        *clip(vision, scheme, f"{_ROOT}.img_processor.vision_model", layers=layers),
        Tensor("glb_GN", (merged,)),
        Tensor("sub_GN", (merged,)),
        b.replicated("0", merged, hidden, bias=True, quantized=False),
        b.replicated("2", hidden, hidden, bias=True, quantized=False),
    ]
    return Tower("vision", tuple(modules), data_parallel=False)
