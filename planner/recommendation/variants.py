"""The checkpoints one can serve of a model: its own and the quantized ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from hardware_db import Rig
from model_cards import CardError, ModelCard
from model_cards.sources.bundled import find_entry, open_bundled, variants_of
from planner.engine.device import DeviceFacts, Platform, device_facts
from planner.engine.rules import is_emulated
from planner.engine.served import as_served
from planner.engine_config import EngineConfig
from planner.recommendation.quality import NO_LOSS, Loss, base_of, format_loss, rated_copies

# Weight format by the snapshot's name of a layout.
_PRESET_FORMATS: Final = {
    "fp8-dynamic": "fp8",
    "fp8-static": "fp8",
    "fp8-block": "fp8",
    "modelopt-fp8": "fp8",
    "modelopt-nvfp4-on-fp8": "nvfp4",
    "w8a8": "w8a8",
    "gptq-int8": "int8",
    "nvfp4": "nvfp4",
    "modelopt-nvfp4": "nvfp4",
    "awq": "int4",
    "gptq-int4": "int4",
    "w4a16": "int4",
}
_ONE_BYTE: Final = frozenset({"fp8", "w8a8", "int8"})
SMALLEST_BYTES: Final = 0.5  # no format in use takes less
_ORDER: Final = ("16bit", "fp8", "w8a8", "int8", "mxfp4", "nvfp4", "int4")  # least loss first
_ONLINE: Final = "fp8"  # the only method that costs next to nothing


class Variant(Struct, frozen=True):
    """A checkpoint to serve a model from, and how."""

    card: ModelCard  # as it is stored
    quantization: str | None  # what vLLM quantizes it to while loading
    loss: Loss  # against the model itself
    is_named: bool = False  # the checkpoint that was asked for, as it is
    smaller: tuple[ModelCard, ...] = ()  # others in its format, which may fit where it does not

    @property
    def model_id(self) -> str:
        """The checkpoint."""
        return self.card.model_id

    @property
    def weight_format(self) -> str:
        """The format it is served in."""
        return _served(self.card, self.quantization).format_kind

    @property
    def equals(self) -> tuple[Variant, ...]:
        """Itself and the smaller ones."""
        others = (Variant(card, self.quantization, self.loss) for card in self.smaller)
        return (self, *others)


def variants(
    model_id: str, rig: Rig, named: ModelCard | None = None, parameters: int | None = None
) -> list[Variant]:
    """Checkpoints of a model that the rig has kernels and, in all, memory for; least loss first.

    One of each weight format, modelled ones before estimated ones, with those that are smaller;
    `named` is always among them.
    Where no FP8 checkpoint is known, the 16-bit one quantized while it is loaded. `parameters` is
    how many the model has, where that is known already.
    """
    by_kind = {} if named is None else {named.format_kind: named}
    copies: list[ModelCard] = []
    memory = rig.smallest.total_bytes
    room = float("inf") if memory is None else memory * rig.gpu_count
    names = checkpoint_ids(model_id)
    least = parameters or _parameters(model_id) or 0
    device = device_facts(rig.smallest.gpu)
    halved = _quantizes_online(device) and all(least_bytes(name) != 1.0 for name in names)
    for name in names:
        if least * min(least_bytes(name), 1.0 if halved else 2.0) > room:
            continue
        if usual_format(name) in by_kind:  # no better than what is held
            continue
        try:
            card = open_bundled(name)
        except CardError:
            continue
        if card is None or hides_its_format(card, model_id):
            continue
        copies.append(card)
        held = by_kind.get(card.format_kind)
        if held is not None and held is named:
            continue
        if held is None or (card.exact and not held.exact):
            by_kind[card.format_kind] = card
    cards = sorted(by_kind.values(), key=lambda card: format_place(card.format_kind))
    found = [
        Variant(card, None, _loss(card, model_id), card is named, _smaller(card, copies, named))
        for card in cards
    ]
    found = [v for v in found if v.is_named or not is_emulated(v.card, device)]
    if _quantizes_online(device) and not any(map(_is_fp8, names)):  # one may be too large to hold
        found += _quantized_online(found)
    return sorted(found, key=lambda variant: format_place(variant.weight_format))


def hides_its_format(card: ModelCard, base: str) -> bool:
    """Whether it is a copy that vLLM serves in 16 bit, whatever its name says.

    Its config does not tell that it is quantized, or a model that was released in fewer bits was
    unpacked.
    """
    return card.model_id.lower() != base.lower() and card.format_kind == "16bit"


def _smaller(
    card: ModelCard, copies: list[ModelCard], named: ModelCard | None
) -> tuple[ModelCard, ...]:
    """Copies in the same format that take less, the largest first; what was named stands alone."""
    if card is named:
        return ()
    kind = card.format_kind
    others = (each for each in copies if each is not card and each.format_kind == kind)
    less = [each for each in others if each.exact and each.weight_bytes < card.weight_bytes]
    return tuple(sorted(less, key=lambda each: -each.weight_bytes))


def format_place(weight_format: str) -> int:
    """Where a weight format stands among all; behind them what is stored in fewer bits than any."""
    return _ORDER.index(weight_format) if weight_format in _ORDER else len(_ORDER)


def _quantizes_online(device: DeviceFacts) -> bool:
    """Whether FP8 is computed and not only stored: else a published copy is as good."""
    return device.platform is Platform.CUDA and (device.capability or (0, 0)) >= (8, 9)


def _is_fp8(model_id: str) -> bool:
    """Whether a checkpoint is known to be in FP8 before its card is built."""
    entry = find_entry(model_id)
    fp8 = entry is not None and entry.quant_method == "fp8" and entry.expert_dtype != "fp4"
    return fp8 or usual_format(model_id) == "fp8"


def _quantized_online(known: list[Variant]) -> Iterator[Variant]:
    kinds = {variant.weight_format for variant in known}
    if "fp8" in kinds or "16bit" not in kinds:
        return
    whole = next(variant for variant in known if variant.weight_format == "16bit")
    served = _served(whole.card, _ONLINE)
    if served.format_kind == "fp8" and whole.card.converses:
        yield Variant(whole.card, _ONLINE, format_loss("fp8", whole.card.parameters))


def _served(card: ModelCard, quantization: str | None) -> ModelCard:
    if quantization is None:
        return card
    return as_served(card, EngineConfig(quantization=quantization))


def _loss(card: ModelCard, base: str) -> Loss:
    """A model that was made in its format loses nothing by it."""
    if card.model_id.lower() == base.lower():
        return NO_LOSS
    return format_loss(card.format_kind, card.parameters)


def _parameters(model_id: str) -> int | None:
    entry = find_entry(model_id)
    return entry.parameters if entry is not None else None


def checkpoint_ids(base: str) -> list[str]:
    """Ids of the bundled checkpoints of a model, itself first."""
    copies = rated_copies().get(base.lower(), [])
    known = [base, *copies, *(name for model in (base, *copies) for name in variants_of(model))]
    return [name for name in dict.fromkeys(known) if find_entry(name) is not None]


def base_id(model_id: str) -> str:
    """The model that a checkpoint is a quantized copy of, else the checkpoint itself."""
    rated = base_of().get(model_id.lower())
    if rated is not None:
        return rated
    entry = find_entry(model_id)
    if entry is not None and entry.kind == "variant" and entry.base is not None:
        return base_of().get(entry.base.lower(), entry.base)
    return entry.model_id if entry is not None else model_id


def least_bytes(model_id: str) -> float:
    """Bytes of a parameter that a checkpoint takes at least, known before its card is built."""
    entry = find_entry(model_id)
    if entry is not None and not entry.quantized:
        return 2.0
    if _is_fp8(model_id):
        return 1.0
    return 1.0 if usual_format(model_id) in _ONE_BYTE else SMALLEST_BYTES


def usual_format(model_id: str) -> str | None:
    """Weight format of a checkpoint known by name alone; None of one with a config."""
    entry = find_entry(model_id)
    return _PRESET_FORMATS.get(entry.preset or "") if entry is not None else None
