"""A network that is not modelled, from the tensors of its files: how ranks split each by its name.

The total is that of the files; the split is an estimate. Matrices of other names than those below
are divided if they are as wide as the hidden state, as most of vLLM's are, and else held whole
(low-rank projections, routers). What is packed is known by its bytes alone and divided evenly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from model_cards.architectures.decoder import Body
from model_cards.architectures.estimate import (
    estimated_caches,
    experts_per_token,
    mlp_width,
    num_experts,
    says_tied,
)
from model_cards.caches import Attention, AttentionKind, Cache
from model_cards.card import Layer, Tower, module_bytes
from model_cards.config import Config
from model_cards.errors import UnsupportedModel
from model_cards.inventory import Inventory, StoredTensor
from model_cards.modules import Bulk, Embedding, Experts, Linear, Module, Output, Shard, Tensor
from model_cards.quantization.scheme import NO_QUANTIZATION, QuantScheme

_QUERY: Final = frozenset({"q_proj", "query", "wq"})
_KEY: Final = frozenset({"k_proj", "key", "wk"})
_KEY_OR_VALUE: Final = _KEY | {"v_proj", "value", "wv"}
_FUSED: Final = frozenset(
    {"qkv_proj", "query_key_value", "qkv", "c_attn", "Wqkv", "W_pack", "wqkv"}
)
_COLUMN: Final = _QUERY | _KEY_OR_VALUE | _FUSED | {
    "q_b_proj", "kv_b_proj", "gate_proj", "up_proj", "gate_up_proj", "w1", "w3", "fc1", "c_fc",
    "dense_h_to_4h", "linear_fc1", "in_proj", "fc_in",
}  # fmt: skip
_ROW: Final = frozenset(
    {"o_proj", "out_proj", "dense", "c_proj", "wo", "down_proj", "w2", "fc2", "dense_4h_to_h",
     "linear_fc2", "fc_out", "proj"}
)  # fmt: skip
_WHOLE: Final = frozenset({"gate", "router", "q_a_proj", "kv_a_proj_with_mqa", "fused_qkv_a_proj"})
# What only a layer with keys and values of its own has.
_ATTENDS: Final = _KEY | _FUSED | {"kv_b_proj", "kv_a_proj_with_mqa", "kv_proj"}
# Tables that are looked up, and held whole.
_TABLES: Final = ("position", "wpe")
_EXPERTS: Final = re.compile(r"(?:^|\.)experts\.")

Tensors = Mapping[str, StoredTensor]


class Packed(NamedTuple):
    """How weights are stored whose tensors do not show their shape."""

    kind: str
    bytes_per_weight: float


def headers_body(
    config: Config,
    inventory: Inventory,
    scheme: QuantScheme | None,
    packed: Packed,
    caches: Sequence[tuple[Cache, ...]] | None = None,
) -> Body | None:
    """The network that the files hold, None where they do not show its embedding and layers.

    `scheme` is the quantization where it is modelled; `caches` are those of every layer where
    the architecture is. Raises `UnsupportedModel` where they cannot be told from the config.
    """
    stored = inventory.embedding
    estimated = estimated_caches(config) if caches is None else []
    layers, around = _sorted(inventory, len(estimated if caches is None else caches))
    known = caches if caches is not None else _kept(config, estimated, layers)
    if stored is None or len(stored[1].shape) != 2 or not stored[1].plain:
        return None
    if not layers or not all(layers):
        return None
    rows, width = stored[1].shape
    builder = _Builder(config.text, width, scheme or NO_QUANTIZATION, packed)
    same: dict[Layer, Layer] = {}
    built = []
    for index, tensors in enumerate(layers):
        layer = Layer(builder.modules(f"{inventory.stack}{index}.", tensors), known[index])
        built.append(same.setdefault(layer, layer))

    del around[stored[0]]
    head, output = None, inventory.output
    if output is not None and output[1].plain and output[1].shape == stored[1].shape:
        del around[output[0]]
        # Where the config ties them it is a copy, unless a look at it told otherwise.
        if not says_tied(config) or inventory.head_is_copy is False:
            head = Embedding("lm_head", rows, width, format=builder.scheme.head("lm_head"))
    encoder = builder.modules("", inventory.encoders)
    notes: tuple[str, ...] = ()
    if not all(known):
        notes = ("what layers without keys and values keep for a request is not counted",)
    return Body(
        Embedding("model.embed_tokens", rows, width),
        tuple(built),
        (),
        head,
        (),
        max_intermediate_size=mlp_width(config.text),
        experts_per_token=experts_per_token(config.text),
        beside=builder.modules("", around),
        towers=(Tower("encoder", encoder),) if encoder else (),
        notes=notes,
    )


def _sorted(
    inventory: Inventory, count: int
) -> tuple[list[dict[str, StoredTensor]], dict[str, StoredTensor]]:
    """The tensors of so many decoder layers, named inside it, and those around the layers.

    Layers that are numbered on only draft, and are left out.
    """
    layers: list[dict[str, StoredTensor]] = [{} for _ in range(count)]
    around: dict[str, StoredTensor] = {}
    for name, tensor in inventory.served.items():
        place = inventory.places.get(name)
        if place is None or place[0] != inventory.stack:
            around[name] = tensor
        elif place[1] < count:
            layers[place[1]][name[len(place[0]) :].partition(".")[2]] = tensor
    return layers, around


def _kept(
    config: Config, caches: Sequence[Attention | None], layers: Sequence[Tensors]
) -> list[tuple[Cache, ...]]:
    """What every layer caches by the config, none where others attend and it does not."""
    attends = [bool(_leaves(tensors) & _ATTENDS) for tensors in layers]
    kept: list[tuple[Cache, ...]] = []
    for cache, tensors, does in zip(caches, layers, attends, strict=True):
        if cache is None or (any(attends) and not does):
            kept.append(())
        else:
            _check(config, cache, tensors)
            kept.append((cache,))
    return kept


def _check(config: Config, cache: Attention, tensors: Tensors) -> None:
    """Refuses a config whose keys do not explain the key projection."""
    if cache.kind is AttentionKind.MLA:
        return
    hidden, size = config.text.integer("hidden_size"), cache.num_kv_heads * cache.head_size
    for name, tensor in tensors.items():
        path, _, kind = name.rpartition(".")
        if kind != "weight" or path.rpartition(".")[2] not in _KEY or not tensor.plain:
            continue
        if hidden in tensor.shape and sorted(tensor.shape) != sorted((hidden, size)):
            raise UnsupportedModel(
                f"{config.where}: {name} is {list(tensor.shape)}, which num_key_value_heads and "
                f"head_dim ({size} features) do not explain; its KV cache is not known"
            )


def _leaves(tensors: Tensors) -> set[str]:
    return {name.rpartition(".")[0].rpartition(".")[2] for name in tensors}


class _Builder(Struct, frozen=True):
    text: Config
    hidden: int
    scheme: QuantScheme
    packed: Packed

    def modules(self, root: str, tensors: Tensors) -> tuple[Module, ...]:
        """The modules that these tensors are of; their names are below `root`."""
        groups: dict[str, dict[str, StoredTensor]] = {}
        routed: dict[str, dict[str, StoredTensor]] = {}
        for name, tensor in tensors.items():
            match = _EXPERTS.search(name)
            if match:
                routed.setdefault(name[: match.end()], {})[name[match.end() :]] = tensor
            else:
                path, _, kind = name.rpartition(".")
                groups.setdefault(path, {})[kind] = tensor
        modules: list[Module] = []
        size, active = 0, 0.0  # of what is packed
        for path, parts in groups.items():
            found = self._group(root, path, parts)
            modules += found
            if not found:
                size += _bytes(parts)
                active += _bytes(parts) * self._share(parts)
        for path, parts in routed.items():
            experts, share = self._experts(root, path, parts)
            if experts is not None:
                modules.append(experts)
            else:
                size += _bytes(parts)
                active += _bytes(parts) * share
        if size:
            kind, each = self.packed
            elements = max(1, int(size / each))
            modules.append(Bulk("packed", elements, size, int(active / each), kind))
        return tuple(modules)

    def _group(self, root: str, path: str, parts: Tensors) -> list[Module]:
        """A linear layer with its bias, or plain tensors; none if they are packed."""
        weight = parts.get("weight")
        plain = all(tensor.plain for tensor in parts.values())
        leaf = path.rpartition(".")[2]
        if weight is not None and len(weight.shape) == 2 and not _is_table(leaf):
            linear = self._linear(root, path, parts)
            if plain:
                rest = {k: t for k, t in parts.items() if k not in ("weight", "bias")}
                return [linear, *_tensors(path, rest)]
            fits = module_bytes(linear, 2) == _bytes(parts)
            return [linear] if fits else []
        if weight is not None and self._of_experts(weight):
            return []
        return _tensors(path, parts) if plain else []

    def _share(self, parts: Tensors) -> float:
        """The part of packed tensors that a token meets."""
        if not any(self._of_experts(tensor) for tensor in parts.values()):
            return 1.0
        return min(1.0, experts_per_token(self.text) / num_experts(self.text))

    def _of_experts(self, tensor: StoredTensor) -> bool:
        """Whether a tensor has a matrix for each of the experts."""
        return len(tensor.shape) == 3 and tensor.shape[0] == num_experts(self.text)

    def _linear(self, root: str, path: str, parts: Tensors) -> Linear:
        outputs, inputs = parts["weight"].shape
        bias = parts.get("bias")
        if bias is not None and bias.shape == (inputs,):  # GPT-2's matrices lie on their side
            outputs, inputs = inputs, outputs
        leaf = path.rpartition(".")[2]
        shard = Shard.REPLICATED
        if leaf in _ROW:
            shard = Shard.ROW
        elif leaf not in _WHOLE and (leaf in _COLUMN or min(inputs, outputs) >= self.hidden):
            shard = Shard.COLUMN
        return Linear(
            path,
            inputs,
            self._outputs(leaf, outputs),
            shard,
            bias is not None,
            self.scheme.path_format(root + path),
        )

    def _outputs(self, leaf: str, size: int) -> tuple[Output, ...]:
        """By heads where the config's explain the size, which tells what ranks hold twice."""
        heads = self.text.optional_integer("num_attention_heads") or 1
        kv_heads = self.text.optional_integer("num_key_value_heads") or heads
        together = heads + 2 * kv_heads
        if leaf in _FUSED and size % together == 0 and heads % kv_heads == 0:
            width = size // together
            keys = [Output(name, kv_heads, width, replicable=True) for name in ("k", "v")]
            return (Output("q", heads, width), *keys)
        if leaf in _KEY_OR_VALUE and size % kv_heads == 0:
            return (Output(leaf, kv_heads, size // kv_heads, replicable=True),)
        if leaf in _QUERY and size % heads == 0:
            return (Output(leaf, heads, size // heads),)
        return (Output(leaf, size),)

    def _experts(self, root: str, path: str, parts: Tensors) -> tuple[Experts | None, float]:
        """The experts of a layer if their tensors show a shape, and the share that is active."""
        indices = {index for name in parts if (index := name.partition(".")[0]).isdecimal()}
        firsts = {tensor.shape[0] if tensor.shape else 1 for tensor in parts.values()}
        count = len(indices) or min(firsts)  # each its own matrices, or all in one tensor
        active = min(experts_per_token(self.text) or count, count)
        share = active / max(1, count)
        dimensions = 2 if indices else 3
        matrices = {
            name: tensor
            for name, tensor in parts.items()
            if len(tensor.shape) == dimensions and "scale" not in name
        }
        leaves = {name.partition(".")[2] if indices else name for name in matrices}
        gated = len(leaves) == 3 or any("gate_up" in leaf for leaf in leaves)
        weights = sum(tensor.elements for tensor in matrices.values())
        one = count * self.hidden * (3 if gated else 2)  # elements of one intermediate feature
        if not one or not weights or weights % one:
            return None, share
        experts = Experts(
            path.rstrip("."),
            count,
            active,
            self.hidden,
            weights // one,
            gated,
            any("bias" in name for name in parts),
            self.scheme.experts(root + path.rstrip(".")),
        )
        if all(tensor.plain for tensor in parts.values()):
            fits = experts.elements == sum(tensor.elements for tensor in parts.values())
        else:
            fits = module_bytes(experts, 2) == _bytes(parts)
        return (experts if fits else None), share


def _tensors(path: str, parts: Tensors) -> list[Module]:
    prefix = f"{path}." if path else ""
    return [Tensor(f"{prefix}{kind}", tensor.shape) for kind, tensor in parts.items()]


def _is_table(leaf: str) -> bool:
    return any(part in leaf for part in _TABLES)


def _bytes(parts: Tensors) -> int:
    return sum(tensor.bytes for tensor in parts.values())
