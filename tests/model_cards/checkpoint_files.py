"""Files of a checkpoint, written without any library: safetensors with headers and no weights."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tiny_models import llama

from model_cards.build import build_card
from model_cards.card import ModelCard, Origin
from model_cards.config import Config
from model_cards.facts import Facts
from model_cards.inventory import Inventory, StoredTensor

# One tensor: dtype and shape.
Tensors = Mapping[str, tuple[str, list[int]]]
Stored = dict[str, tuple[str, list[int]]]

BITS = {"F32": 32, "BF16": 16, "F16": 16, "I32": 32, "I64": 64, "F8_E4M3": 8, "U8": 8, "F4": 4}


def header(tensors: Tensors) -> bytes:
    """The beginning of a safetensors file: length, then a JSON object of the tensors."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, (dtype, shape) in tensors.items():
        size = BITS[dtype]
        for dimension in shape:
            size *= dimension
        end = start + size // 8
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
        start = end
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def write_safetensors(path: Path, tensors: Tensors) -> None:
    """A file whose header lists tensors of any size; the weights themselves are missing."""
    path.write_bytes(header(tensors))


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))


def write_index(folder: Path, weight_map: dict[str, str], total_size: int | None = None) -> None:
    """model.safetensors.index.json, as transformers writes it."""
    metadata = {} if total_size is None else {"total_size": total_size}
    index = {"metadata": metadata, "weight_map": weight_map}
    write_json(folder / "model.safetensors.index.json", index)


def llama_tensors(
    config: Mapping[str, Any], dtype: str = "BF16"
) -> dict[str, tuple[str, list[int]]]:
    """Every tensor of a Llama checkpoint under its published name."""
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    size = hidden // config["num_attention_heads"]
    kv, inner = config["num_key_value_heads"] * size, config["intermediate_size"]
    tensors = {"model.embed_tokens.weight": [vocab, hidden], "model.norm.weight": [hidden]}
    for index in range(config["num_hidden_layers"]):
        layer = f"model.layers.{index}"
        tensors |= {
            f"{layer}.input_layernorm.weight": [hidden],
            f"{layer}.post_attention_layernorm.weight": [hidden],
            f"{layer}.self_attn.q_proj.weight": [hidden, hidden],
            f"{layer}.self_attn.k_proj.weight": [kv, hidden],
            f"{layer}.self_attn.v_proj.weight": [kv, hidden],
            f"{layer}.self_attn.o_proj.weight": [hidden, hidden],
            f"{layer}.mlp.gate_proj.weight": [inner, hidden],
            f"{layer}.mlp.up_proj.weight": [inner, hidden],
            f"{layer}.mlp.down_proj.weight": [hidden, inner],
        }
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = [vocab, hidden]
    return {name: (dtype, shape) for name, shape in tensors.items()}


def recorded() -> list[tuple[dict[str, Any], Stored]]:
    """config.json and tensors of tiny checkpoints as transformers stored them."""
    lines = (Path(__file__).parent / "data" / "checkpoints.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return [
        (row["config"], {name: (dtype, shape) for name, (dtype, shape) in row["tensors"].items()})
        for row in rows
    ]


def packed_tensors(hidden: int = 32, inner: int = 64) -> tuple[dict[str, Any], Stored]:
    """AWQ: eight 4-bit weights of a row in an int32, zeros and scales for 16 inputs each."""
    settings = {"quant_method": "awq", "bits": 4, "group_size": 16, "zero_point": True}
    config = llama(hidden_size=hidden, intermediate_size=inner, torch_dtype="float16")
    tensors: Stored = {}
    for name, (_, shape) in llama_tensors(config, "F16").items():
        if "_proj" not in name:
            tensors[name] = ("F16", shape)
            continue
        outputs, inputs = shape
        module = name.removesuffix(".weight")
        tensors[f"{module}.qweight"] = ("I32", [inputs, outputs // 8])
        tensors[f"{module}.qzeros"] = ("I32", [inputs // 16, outputs // 8])
        tensors[f"{module}.scales"] = ("F16", [inputs // 16, outputs])
    return {**config, "quantization_config": settings}, tensors


def card_with(
    config: dict[str, Any], tensors: Stored, head_is_copy: bool | None = None
) -> ModelCard:
    """The card of a checkpoint whose headers were read."""
    stored = {name: StoredTensor(dtype, tuple(shape)) for name, (dtype, shape) in tensors.items()}
    facts = Facts(
        checkpoint_bytes=sum(tensor.bytes for tensor in stored.values()),
        inventory=Inventory(stored, head_is_copy),
    )
    return build_card("org/tiny", Config(config, "config.json"), Origin("folder", "tiny"), facts)
