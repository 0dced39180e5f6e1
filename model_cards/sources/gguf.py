"""GGUF files: config and totals from the header; no weight is read.

The format is llama.cpp's (ggml, docs/gguf.md): a magic word, counts, key-value pairs, and for each
tensor name, shape and type. vLLM's own releases before 0.24 serve such files, and read the same
keys through transformers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Final

from msgspec import Struct

from model_cards.build import build_card
from model_cards.card import ModelCard, Origin
from model_cards.config import Config, is_total
from model_cards.errors import BadConfig
from model_cards.facts import Facts

# Elements and bytes of a block by ggml's number of the type (ggml.h, ggml-common.h).
_BLOCKS: Final = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
    9: (32, 36), 10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210),
    15: (256, 292), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18),
    21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8),
    28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip
# Scalars of the key-value pairs by their number; 8 is text, 9 a list.
_SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q",
                   11: "q", 12: "d"}  # fmt: skip
_TEXT, _LIST = 8, 9
# GGUF's names of architectures, with transformers' class and model_type.
_CLASSES: Final = {
    "llama": ("LlamaForCausalLM", "llama"), "qwen2": ("Qwen2ForCausalLM", "qwen2"),
    "qwen3": ("Qwen3ForCausalLM", "qwen3"), "qwen2moe": ("Qwen2MoeForCausalLM", "qwen2_moe"),
    "qwen3moe": ("Qwen3MoeForCausalLM", "qwen3_moe"), "gemma2": ("Gemma2ForCausalLM", "gemma2"),
    "gemma3": ("Gemma3ForCausalLM", "gemma3_text"), "phi3": ("Phi3ForCausalLM", "phi3"),
    "starcoder2": ("Starcoder2ForCausalLM", "starcoder2"), "gpt2": ("GPT2LMHeadModel", "gpt2"),
    "falcon": ("FalconForCausalLM", "falcon"), "stablelm": ("StableLmForCausalLM", "stablelm"),
}  # fmt: skip
_KEYS: Final = {
    "block_count": "num_hidden_layers", "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size", "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads", "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim", "attention.sliding_window": "sliding_window",
    "expert_count": "num_experts", "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size", "rope.freq_base": "rope_theta",
}  # fmt: skip
_EMBEDDING, _HEAD = "token_embd.weight", "output.weight"
_MOST: Final = 300_000  # pairs, or tensors
_MOST_TEXT: Final = 2**24
_MOST_TEXTS: Final = 2**21  # in lists, of which vocabularies are the longest


class Truncated(BadConfig):
    """The header goes on behind what there is of the file."""


class GgufHeader(Struct, frozen=True):
    """What the header of one file tells."""

    metadata: dict[str, Any]  # numbers and texts; lists are left out
    shapes: dict[str, tuple[int, ...]]  # by tensor, the fastest dimension first
    bytes: int

    @property
    def parameters(self) -> int:
        """Elements of all tensors."""
        return sum(map(prod, self.shapes.values()))


def open_gguf(reference: str, path: Path) -> ModelCard:
    """The card of a GGUF file. Raises `BadConfig`."""
    try:
        with path.open("rb") as stream:
            header = read_gguf(stream, path.name)
    except OSError as error:
        raise BadConfig(f"Cannot read {path}: {error.strerror or error}") from None
    return gguf_card(reference, [header], Origin("folder", str(path)))


def gguf_card(model_id: str, headers: list[GgufHeader], origin: Origin) -> ModelCard:
    """The card of a model in one GGUF file or several: estimated, from their totals."""
    shapes = {name: shape for header in headers for name, shape in header.shapes.items()}
    values = gguf_config(headers[0].metadata, shapes)
    facts = Facts(
        parameters=sum(header.parameters for header in headers),
        checkpoint_bytes=sum(header.bytes for header in headers),
        assumed="a GGUF file's weights are counted by its header; give vLLM its base model's "
        "--tokenizer",
    )
    return build_card(model_id, Config(values, f"{model_id}: GGUF header"), origin, facts)


def gguf_config(metadata: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """The header's pairs as keys of a config.json."""
    architecture = str(metadata.get("general.architecture", ""))
    name, kind = _CLASSES.get(architecture, (architecture or "GGUF", architecture))
    values: dict[str, Any] = {
        "architectures": [name],
        "model_type": kind,
        "torch_dtype": "float16",
        "tie_word_embeddings": _HEAD not in shapes,
        "quantization_config": {"quant_method": "gguf"},
    }
    for ours, theirs in _KEYS.items():
        value = metadata.get(f"{architecture}.{ours}")
        if value is not None:
            values[theirs] = value
    if _EMBEDDING in shapes:
        values["vocab_size"] = shapes[_EMBEDDING][-1]
    return values


def read_gguf(stream: BinaryIO, name: str) -> GgufHeader:
    """Read a header; `BadConfig` for what is none, `Truncated` where it does not end."""
    reader = _Reader(stream, name)
    if reader.take(4) != b"GGUF":
        raise BadConfig(f"{name} is no GGUF file")
    version, tensors, pairs = reader.numbers("<IQQ")
    if version not in (2, 3) or max(tensors, pairs) > _MOST:
        raise BadConfig(f"{name}: version {version}, {tensors} tensors, {pairs} pairs; not read")
    metadata: dict[str, Any] = {}
    for _ in range(pairs):
        key = reader.text()
        value = reader.value(reader.number("<I"))
        if value is not None:
            metadata[key] = value
    shapes: dict[str, tuple[int, ...]] = {}
    size = 0
    for _ in range(tensors):
        tensor, dimensions = reader.text(), reader.number("<I")
        if dimensions > 4:
            raise BadConfig(f"{name}: a tensor of {dimensions} dimensions")
        shape = reader.numbers(f"<{dimensions}Q")
        kind, _ = reader.numbers("<IQ")
        sane = all(n < 2**40 for n in shape) and is_total(
            8 * prod(shape)
        )  # an element has 8 at most
        if kind not in _BLOCKS or not sane:
            raise BadConfig(f"{name}: a tensor of type {kind} and shape {list(shape)}")
        elements, width = _BLOCKS[kind]
        shapes[tensor] = shape
        size += -(-prod(shape) // elements) * width
    return GgufHeader(metadata, shapes, size)


def read_prefix(fetch: Callable[[int, int], bytes], name: str, block: int = 2**21) -> GgufHeader:
    """Read a header through `fetch(start, end)`, as much of the file as it takes."""
    from io import BytesIO

    held = b""
    while True:
        more = fetch(len(held), len(held) + block)
        held += more
        try:
            return read_gguf(BytesIO(held), name)
        except Truncated:
            if len(more) < block or len(held) > 16 * block:
                raise


class _Reader:
    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.stream, self.name = stream, name
        self.texts = 0

    def take(self, size: int) -> bytes:
        data = self.stream.read(size)
        if len(data) < size:
            raise Truncated(f"{self.name} is truncated inside its header")
        return data

    def numbers(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def number(self, form: str) -> int:
        (value,) = self.numbers(form)
        assert isinstance(value, int)
        return value

    def text(self) -> str:
        length = self.number("<Q")
        if length > _MOST_TEXT:
            raise BadConfig(f"{self.name}: a text of {length} bytes; not read")
        return self.take(length).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        """A value; None for a list, which is passed over."""
        if kind == _TEXT:
            return self.text()
        if kind == _LIST:
            self._skip_list()
            return None
        if kind not in _SCALARS:
            raise BadConfig(f"{self.name}: a value of type {kind}")
        (value,) = self.numbers(f"<{_SCALARS[kind]}")
        return value

    def _skip_list(self) -> None:
        kind, count = self.numbers("<IQ")
        if kind == _TEXT and self.texts + count <= _MOST_TEXTS:
            self.texts += count
            for _ in range(count):
                self.text()
        elif kind in _SCALARS and count <= _MOST_TEXT:
            self.take(count * struct.calcsize(f"<{_SCALARS[kind]}"))
        else:
            raise BadConfig(f"{self.name}: a list of {count} values of type {kind}; not read")
