"""Files of a checkpoint, written without any library: safetensors with headers and no weights."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# One tensor: dtype and shape.
Tensors = Mapping[str, tuple[str, list[int]]]

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
