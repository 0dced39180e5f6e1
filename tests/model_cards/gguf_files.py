"""GGUF headers, written without any library: pairs and tensors of a tiny Llama."""

from __future__ import annotations

import struct
from typing import Any

Q4_K, Q6_K, F32 = 12, 14, 0
HIDDEN, LAYERS, VOCAB, INNER, HEADS, KV = 512, 2, 1000, 1024, 8, 2
PAIRS: dict[str, Any] = {
    "general.architecture": "llama", "llama.block_count": LAYERS, "llama.embedding_length": HIDDEN,
    "llama.feed_forward_length": INNER, "llama.context_length": 4096,
    "llama.attention.head_count": HEADS, "llama.attention.head_count_kv": KV,
    "llama.rope.freq_base": 10000.0, "tokenizer.ggml.tokens": ["a", "b", "größe"] * 100,
    "tokenizer.ggml.scores": [0.5] * 300, "general.quantized": True,
}  # fmt: skip


def tensors() -> dict[str, tuple[tuple[int, ...], int]]:
    found: dict[str, tuple[tuple[int, ...], int]] = {
        "token_embd.weight": ((HIDDEN, VOCAB), Q4_K), "output.weight": ((HIDDEN, VOCAB), Q6_K),
        "output_norm.weight": ((HIDDEN,), F32),
    }  # fmt: skip
    kv = HIDDEN // HEADS * KV
    for layer in range(LAYERS):
        shapes = {"attn_q": (HIDDEN, HIDDEN), "attn_k": (HIDDEN, kv), "attn_v": (HIDDEN, kv),
                  "attn_output": (HIDDEN, HIDDEN), "ffn_gate": (HIDDEN, INNER),
                  "ffn_up": (HIDDEN, INNER), "ffn_down": (INNER, HIDDEN)}  # fmt: skip
        found |= {f"blk.{layer}.{name}.weight": (shape, Q4_K) for name, shape in shapes.items()}
        for name in ("attn_norm", "ffn_norm"):
            found[f"blk.{layer}.{name}.weight"] = ((HIDDEN,), F32)
    return found


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def pair(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    kind = 8 if isinstance(value[0], str) else 6
    body = b"".join(text(v) if kind == 8 else struct.pack("<f", v) for v in value)
    return struct.pack("<IIQ", 9, kind, len(value)) + body


def gguf(pairs: dict[str, Any] = PAIRS, held: dict[str, Any] | None = None) -> bytes:
    held = tensors() if held is None else held
    written = [text(key) + pair(value) for key, value in pairs.items()]
    for name, (shape, kind) in held.items():
        written.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, 0))
    return b"GGUF" + struct.pack("<IQQ", 3, len(held), len(pairs)) + b"".join(written)
