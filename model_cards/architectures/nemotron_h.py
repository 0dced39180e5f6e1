"""Nemotron-H, Nemotron Nano 2 and Nemotron 3: every layer is a Mamba-2 mixer, attention or an MLP.

Nemotron 3 has routed experts in place of the MLP; Super and Ultra give them a narrower latent
vector instead of the hidden state, and carry an MTP head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    assemble,
    sequence_parallel,
    vocabulary,
)
from model_cards.architectures.mamba import Mamba2
from model_cards.card import Draft, Layer
from model_cards.config import Config
from model_cards.modules import Module, Tensor
from model_cards.quantization.formats import FLOAT32_WITHOUT_KERNEL
from model_cards.quantization.scheme import QuantScheme

# Checkpoints older than transformers' own class call the stack of layers so.
CHECKPOINT_NAMES: Final = {"backbone.": "model."}

# A letter of a pattern, and the names that layer lists have for it.
_KINDS: Final = {
    "M": ("mamba", "linear_attention"),
    "*": ("attention", "full_attention"),
    "-": ("mlp",),
    "E": ("moe",),
}
_LETTERS: Final = {name: letter for letter, names in _KINDS.items() for name in names}


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    pattern = _pattern(config, "layers_block_type", "hybrid_override_pattern")
    config = config.merged({"num_hidden_layers": len(pattern)})
    mixer = _mixer(config)
    state = mixer.state(config.state_dtype("mamba_ssm_cache_dtype", "float32"))

    def layer(b: LayerBuilder, index: int) -> Layer:
        norm = b.norm("norm")
        match pattern[index]:
            case "M":
                return Layer((*mixer.modules(b), norm), (state,))
            case "*":
                return _attention_layer(b, norm)
            case "E":
                return Layer((*_moe(b), norm), ())
            case _:
                return Layer((*_mlp(b), norm), ())

    embedding, head = vocabulary(config, scheme, tied=False)
    sparse = "E" in pattern
    active = config.integer("num_experts_per_tok", 2) if sparse else 0
    return Body(
        embedding,
        assemble(config, scheme, layer, kind=lambda index: pattern[index], root="model.layers"),
        (Tensor("model.norm_f", (config.integer("hidden_size"),)),),
        head,
        (),
        max_intermediate_size=max(
            mixer.inner if "M" in pattern else 0,
            config.integer("intermediate_size", 21504) if "-" in pattern else 0,
            active * config.integer("moe_intermediate_size", 7688),
        ),
        experts_per_token=active,
        embedding_on_every_stage=True,
        output_on_every_stage=True,
        drafts=_drafts(config, scheme),
    )


def _pattern(config: Config, names: str, letters: str, default: Sequence[str] = ()) -> str:
    """The kinds of a stack's layers, one letter each; a list of `names` goes before `letters`."""
    kinds = config.strings(names)
    if not kinds and letters in config:
        kinds = tuple(config.string(letters))
    found = [_LETTERS.get(kind, kind) for kind in kinds or default]
    if not found or set(found) - set(_KINDS):
        raise config.fail(names, f"a list of {', '.join(_LETTERS)}")
    return "".join(found)


def _mixer(config: Config) -> Mamba2:
    return Mamba2(
        config.integer("mamba_num_heads", 128),
        config.integer("mamba_head_dim", 64),
        config.integer("ssm_state_size", 128),
        config.integer("n_groups", 8),
        config.integer("conv_kernel", 4),
        config.boolean("use_conv_bias", True),
        config.boolean("use_bias", False),
    )


def _attention_layer(b: LayerBuilder, *around: Module) -> Layer:
    window = b.config.optional_integer("sliding_window", minimum=0) or None
    return Layer((*b.attention("mixer"), *around), (b.cache(window),))


def _mlp(b: LayerBuilder) -> list[Module]:
    bias, size = b.config.boolean("mlp_bias", False), b.config.integer("intermediate_size", 21504)
    return _inside(b).plain_mlp(size, "up_proj", "down_proj", "", bias=bias)


def _inside(b: LayerBuilder) -> LayerBuilder:
    """Checkpoints call whatever a layer holds its mixer."""
    return LayerBuilder(b.config, b.scheme, f"{b.path}.mixer")


def _moe(b: LayerBuilder) -> list[Module]:
    """Router, routed experts of a hidden or latent vector, and shared experts."""
    config, inside = b.config, _inside(b)
    count, bias = config.integer("n_routed_experts", 8), config.boolean("mlp_bias", False)
    latent = config.optional_integer("moe_latent_size")
    modules: list[Module] = [
        replace(inside.router(count, "gate"), format=FLOAT32_WITHOUT_KERNEL),
        Tensor("gate.e_score_correction_bias", (count,), "float32"),
    ]
    if latent:
        modules += [
            inside.replicated("fc1_latent_proj", b.hidden, latent, bias=bias),
            inside.replicated("fc2_latent_proj", latent, b.hidden, bias=bias),
        ]
    shared = config.integer("n_shared_experts", 1, minimum=0)
    if shared:
        size = shared * config.integer("moe_shared_expert_intermediate_size", 7688)
        # vLLM gives shared experts no bias.
        mlp = inside.plain_mlp(size, "up_proj", "down_proj", "shared_experts", bias=False)
        modules += sequence_parallel(mlp)
    routed = inside.experts(
        count,
        config.integer("num_experts_per_tok", 2),
        config.integer("moe_intermediate_size", 7688),
        "experts",
        gated=False,
        hidden=latent,
    )
    return [*modules, routed]


def _drafts(config: Config, scheme: QuantScheme) -> tuple[Draft, ...]:
    """The MTP head: attention and experts behind a projection of embedding and hidden state."""
    if not config.integer("num_nextn_predict_layers", 0, minimum=0):
        return ()
    pattern = _pattern(config, "mtp_layers_block_type", "mtp_hybrid_override_pattern", ("*", "E"))
    layers = []
    for index, kind in enumerate(pattern):
        b = LayerBuilder(config, scheme, f"mtp.layers.{index}")
        around: list[Module] = [b.norm("norm")]
        if index == 0:
            around += [
                b.norm("enorm"),
                b.norm("hnorm"),
                b.column("eh_proj", 2 * b.hidden, b.hidden),
            ]
        if index == len(pattern) - 1:
            around.append(b.norm("final_layernorm"))
        if kind == "*":
            layers.append(_attention_layer(b, *around))
        else:
            layers.append(Layer((*_moe(b), *around), ()))
    return (Draft("mtp", tuple(layers), ()),)
