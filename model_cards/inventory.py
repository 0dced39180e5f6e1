"""What the files of a checkpoint hold: every tensor with dtype and shape, and what names tell.

Names differ by family and by age, so the rules are few, and give None where they are not sure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from math import prod
from typing import Final

from msgspec import Struct

from model_cards.config import is_total

# Bits of one element by safetensors dtype name.
BITS: Final = {
    "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "BF16": 16, "F16": 16,
    "I16": 16, "U16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I8": 8, "U8": 8, "BOOL": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip
# Dtypes whose elements are the model's parameters, one for one, neither packed nor scaled.
PLAIN: Final = frozenset({"F64", "F32", "BF16", "F16"})
_TORCH_NAMES: Final = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}

# Of a checkpoint; Kimi-K2.5 has 207,000. More would be counted for seconds.
MOST_TENSORS: Final = 300_000
_MOST_DIMENSIONS: Final = 64  # torch's own limit
_LARGEST_DIMENSION: Final = 2**40

_LAYER: Final = re.compile(r"(?:^|\.)(?:layers?|h|blocks?)\.(\d+)\.")
_TOWER: Final = re.compile("vision|visual|image|audio|speech|tower|projector|talker|wav")
_DRAFT: Final = re.compile("mtp|nextn|eagle|medusa")
_EMBEDDINGS: Final = frozenset(
    {"embed_tokens", "wte", "word_embeddings", "tok_embeddings", "embed_in", "embeddings",
     "embedding", "embed"}
)  # fmt: skip
_HEADS: Final = frozenset({"lm_head", "embed_out", "output", "output_layer"})
# Tables and masks that old files hold and no loader reads.
_UNREAD: Final = ("inv_freq", "cos_cached", "sin_cached", ".attn.bias", ".masked_bias")


class StoredTensor(Struct, frozen=True):
    """One tensor of a file; `dtype` is safetensors' name."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Number of elements as they are stored, packed ones not told apart."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes in the file."""
        return self.elements * BITS[self.dtype] // 8

    @property
    def plain(self) -> bool:
        """Whether its elements are numbers of the model, neither packed nor scaled."""
        return self.dtype in PLAIN


def stored_tensor(dtype: object, shape: object) -> StoredTensor | None:
    """A tensor as a file describes it; None for what can be none."""
    if not isinstance(dtype, str) or dtype not in BITS or not isinstance(shape, list):
        return None
    if len(shape) > _MOST_DIMENSIONS:
        return None
    if not all(type(n) is int and 0 <= n < _LARGEST_DIMENSION for n in shape):
        return None
    tensor = StoredTensor(dtype, tuple(shape))
    return tensor if is_total(tensor.bytes) else None


class Inventory(Struct, frozen=True, eq=False, dict=True):
    """Every tensor of a checkpoint by name.

    `head_is_copy`: whether the output head repeats the token embedding, None if nobody looked.
    """

    tensors: Mapping[str, StoredTensor]
    head_is_copy: bool | None = None

    @cached_property
    def places(self) -> Mapping[str, tuple[str, int]]:
        """Of every tensor in a layer its stack and its layer's number; encoders are left out."""
        found = ((name, _layer_of(name)) for name in self.tensors if not in_tower(name))
        return {name: place for name, place in found if place is not None}

    @cached_property
    def served(self) -> Mapping[str, StoredTensor]:
        """The tensors of the language model: no encoders, no drafting layers, nothing unread.

        Drafting layers that are numbered as decoder layers are among them.
        """
        return {
            name: tensor
            for name, tensor in self.tensors.items()
            if not (in_tower(name) or _drafts(name) or name.endswith(_UNREAD))
        }

    @cached_property
    def around(self) -> Mapping[str, StoredTensor]:
        """The tensors of the language model that are in no layer."""
        return {name: t for name, t in self.served.items() if name not in self.places}

    @cached_property
    def encoders(self) -> Mapping[str, StoredTensor]:
        """The tensors of encoders and of what projects their output."""
        return {
            name: tensor
            for name, tensor in self.tensors.items()
            if in_tower(name) and not name.endswith(_UNREAD)
        }

    @cached_property
    def stack(self) -> str | None:
        """How the names of the decoder layers begin, those of the largest stack of layers."""
        sizes: dict[str, int] = {}
        for name, tensor in self.served.items():
            place = self.places.get(name)
            if place is not None:
                sizes[place[0]] = sizes.get(place[0], 0) + tensor.bytes
        return max(sizes, key=lambda stack: sizes[stack]) if sizes else None

    @cached_property
    def layer_indices(self) -> frozenset[int]:
        """Numbers of the decoder layers; may be empty."""
        places = (place for name, place in self.places.items() if name in self.served)
        return frozenset(index for stack, index in places if stack == self.stack)

    @cached_property
    def embedding(self) -> tuple[str, StoredTensor] | None:
        """The token embedding, None unless exactly one tensor looks like it."""
        found = list(self._outside(lambda module: module in _EMBEDDINGS))
        return found[0] if len(found) == 1 else None

    @cached_property
    def lm_head(self) -> tuple[str, StoredTensor] | None:
        """The output head, by the name that vLLM looks for."""
        return next(self._outside(lambda module: module == "lm_head"), None)

    @cached_property
    def output(self) -> tuple[str, StoredTensor] | None:
        """The output head by any of its names."""
        return next(self._outside(lambda module: module in _HEADS), None)

    @cached_property
    def dtype(self) -> str | None:
        """The model's dtype, by its torch name, where all of its own numbers have the same."""
        used = {t.dtype for name, t in self.tensors.items() if t.plain and "scale" not in name}
        return _TORCH_NAMES.get(used.pop()) if len(used) == 1 else None

    @property
    def names_a_head(self) -> bool:
        """Whether anything might be an output head, under whatever name."""
        modules = (module for name in self.around for module in name.split("."))
        return any(module in _HEADS or "head" in module for module in modules)

    def drafts(self, num_layers: int) -> bool:
        """Whether anything might be a drafting layer behind so many decoder layers."""
        beyond = (index >= num_layers for _, index in self.places.values())
        return any(beyond) or any(map(_drafts, self.tensors))

    def _outside(self, is_it: Callable[[str], bool]) -> Iterator[tuple[str, StoredTensor]]:
        """Weights outside the layers whose module has such a name."""
        for name, tensor in self.around.items():
            path, _, kind = name.rpartition(".")
            if kind == "weight" and is_it(path.rpartition(".")[2]):
                yield name, tensor


def in_tower(name: str) -> bool:
    """Whether a tensor belongs to an encoder or to what projects its output."""
    return _TOWER.search(name) is not None


def _layer_of(name: str) -> tuple[str, int] | None:
    """The stack of layers that a tensor is in, and its layer's number."""
    match = _LAYER.search(name)
    return (name[: match.start(1)], int(match[1])) if match else None


def _drafts(name: str) -> bool:
    return _DRAFT.search(name) is not None
