"""A stand-in for a network that is not modelled, from the files' headers or else from totals."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from model_cards.architectures import Family
from model_cards.architectures.decoder import Body
from model_cards.architectures.estimate import estimate_body
from model_cards.architectures.from_headers import Packed, headers_body
from model_cards.config import Config
from model_cards.counting import count_parameters
from model_cards.errors import UnsupportedModel
from model_cards.facts import Facts
from model_cards.quantization import quantization_method, quantization_settings
from model_cards.quantization.scheme import NO_QUANTIZATION, QuantScheme

# Methods without a module of their own: weight format, and bytes of a weight with its scales.
_USUAL_STORAGE: Final = {
    "mxfp4": ("mxfp4", 0.5 + 1 / 32),
    "modelopt": ("nvfp4", 0.75),
    "bitsandbytes": ("int4", 0.5 + 4 / 64),
    "gguf": ("int4", 0.6),
    "fbgemm_fp8": ("fp8", 1.05),
    "quark": ("mxfp4", 0.55),
    "auto-round": ("int4", 0.56),
}


def stand_in(
    config: Config, facts: Facts, scheme: QuantScheme | None, family: Family | None
) -> Body:
    """The network of a checkpoint whose architecture or quantization is not modelled.

    Raises `UnsupportedModel` where nothing tells how large it is.
    """
    kind, per_weight = _storage(config, facts, scheme)
    name = ", ".join(config.architectures) or "an unnamed architecture"
    if facts.inventory is not None:
        caches = None
        if family is not None:  # only the quantization is not modelled
            caches = [layer.caches for layer in family.build(config, NO_QUANTIZATION).layers]
        packed = Packed(kind, per_weight)
        body = headers_body(config, facts.inventory, scheme, packed, caches)
        if body is not None:
            note = (
                f"{name} is not modelled; the tensors of its files are split over ranks by name"
                if family is None
                else "the tensors of its files are split over ranks by name"
            )
            return replace(body, notes=(note, *body.notes))
    parameters, stored = facts.parameters, facts.checkpoint_bytes
    if parameters is None and family is not None:
        parameters = count_parameters(
            family.build(config, NO_QUANTIZATION)
        )  # as if it were not quantized
    if parameters is None and stored is None:
        raise UnsupportedModel(
            f"{config.where}: {', '.join(config.architectures) or 'its architecture'} is not "
            "modelled and its size is not known; a folder with its safetensors files, or access "
            "to the Hub, would give it"
        )
    if parameters is None:
        assert stored is not None
        parameters = int(stored / per_weight)
    if stored is None:
        vocabulary = config.text.integer("vocab_size") * config.text.integer("hidden_size")
        outside = vocabulary * 2
        stored = int(2 * outside + max(0, parameters - outside) * per_weight)
    body = estimate_body(config, parameters, stored, kind)
    if family is not None:
        return body
    note = f"{name} is not modelled module by module; planned from its totals"
    return replace(body, notes=(note, *body.notes))


def _storage(config: Config, facts: Facts, scheme: QuantScheme | None) -> tuple[str, float]:
    """Weight format inside the layers, and bytes of one weight with its scales."""
    if scheme is not None:
        size = 4096
        weight_format = scheme.path_format("model.layers.0.mlp.up_proj")
        return weight_format.kind, weight_format.bytes(size, (size,), 2) / size**2
    settings = quantization_settings(config, facts.side_file)
    method = quantization_method(settings) if settings is not None else None
    if method == "gguf" and facts.parameters and facts.checkpoint_bytes:
        each = facts.checkpoint_bytes / facts.parameters  # types differ by tensor
        return ("16bit" if each > 1.5 else "int8" if each > 0.8 else "int4"), each
    return _USUAL_STORAGE.get(method or "", ("16bit", 2.0))
