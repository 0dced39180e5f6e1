"""GGUF headers: files and the Hub's, what is made of them, and files that are none."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from fake_hub import Answer, FakeHub, Repo
from gguf_files import KV, LAYERS, PAIRS, VOCAB, gguf, text

from model_cards import CardError, UnknownModel, open_card

# By hand: 2 matrices of the vocabulary; of a layer q, o, k, v, three of the MLP and two norms.
MATRICES = LAYERS * (2 * 512 * 512 + 2 * 512 * 128 + 3 * 512 * 1024)
PARAMETERS = 2 * 512 * 1000 + 512 + MATRICES + LAYERS * 2 * 512
# Q4_K: 144 bytes for 256 elements, Q6_K: 210.
BYTES = (512_000 + MATRICES) // 256 * 144 + 512_000 // 256 * 210 + 4 * 512 * (1 + 2 * LAYERS)


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tiny-Q4_K_M.gguf"
    path.write_bytes(gguf())
    card = open_card(str(path))
    assert (card.architecture, card.num_layers, card.vocab_size) == ("LlamaForCausalLM", 2, VOCAB)
    assert (card.checkpoint_bytes, card.max_model_len) == (BYTES, 4096)
    assert card.parameters == pytest.approx(PARAMETERS, rel=0.01)
    assert card.weight_bytes == pytest.approx(BYTES, rel=0.02)
    assert (card.exact, card.quantization, card.format_kind) == (False, "gguf", "int4")
    (attention,) = card.attention_kinds
    assert (attention.num_kv_heads, attention.head_size) == (KV, 64)
    assert "--tokenizer" in card.notes[0]


def test_of_the_hub_by_ranges(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model_cards.sources.gguf.read_prefix.__defaults__", (1000,))
    files = {"tiny.Q4_K_M.gguf": gguf() + b"w" * 5000, "tiny.Q8_0.gguf": gguf(), "README.md": b""}
    hub.repos["org/tiny-GGUF"] = Repo(files)
    card = open_card("org/tiny-GGUF:q4_k_m")
    assert (card.model_id, card.checkpoint_bytes) == ("org/tiny-GGUF:q4_k_m", BYTES)
    asked = [r.path for r in hub.requests if r.path.endswith(".gguf")]
    assert set(asked) == {"/org/tiny-GGUF/resolve/main/tiny.Q4_K_M.gguf"}
    assert 2 <= len(asked) <= len(gguf()) // 1000 + 1, "a block at a time, and no weights"


def test_a_mirror_that_sends_whole_files_is_not_read_on(hub: FakeHub) -> None:
    hub.knows_ranges = False
    hub.repos["org/tiny-GGUF"] = Repo({"tiny.Q4_K_M.gguf": gguf()})
    hub.answers[".gguf"] = Answer(200, gguf() + bytes(64 << 20))
    assert open_card("org/tiny-GGUF:Q4_K_M").checkpoint_bytes == BYTES
    assert hub.cut_off.get(timeout=10) == "/org/tiny-GGUF/resolve/main/tiny.Q4_K_M.gguf"


def test_which_ones_there_are_is_said(hub: FakeHub) -> None:
    hub.repos["org/x"] = Repo({"a-Q4_K_M.gguf": gguf(), "BF16/a-00001-of-00002.gguf": b""})
    with pytest.raises(UnknownModel, match=r"name one: org/x:BF16"):
        open_card("org/x")
    with pytest.raises(UnknownModel, match=r"no GGUF file of Q2_K; it has BF16, Q4_K_M"):
        open_card("org/x:Q2_K")
    hub.answers["/api/models"] = Answer(503)
    with pytest.raises(UnknownModel, match="the Hub did not answer"):
        open_card("org/x:Q4_K_M")


def test_offline() -> None:
    with pytest.raises(UnknownModel, match="on the Hub alone"):
        open_card("org/x:Q4_K_M")


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"", "truncated"), (b"GGML" + b"\0" * 99, "is no GGUF file"), (gguf()[:-3], "truncated"),
     (b"GGUF" + struct.pack("<IQQ", 1, 1, 1), "version 1"),
     (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 1), "not read"),
     (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**50), "a text of"),
     (gguf({"a": 1} | PAIRS, {"w": ((4,), 99)}), "type 99"),
     (gguf(PAIRS, {"w": ((2**50,), 0)}), "shape"),
     (gguf(PAIRS, {"w": ((2**39,) * 4, 0)}), "shape"), (gguf(PAIRS, {"w": ((1,) * 9, 0)}), "9 dim"),
     (gguf({"general.architecture": "llama"}, {}), "GGUF header"),
     (gguf({**PAIRS, "llama.block_count": 2**31}), "num_hidden_layers"),
     (gguf({**PAIRS, "general.architecture": "\x1b[2J"}), "no layer count")],
)  # fmt: skip
def test_files_that_are_none(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    with pytest.raises(CardError, match=problem) as caught:
        open_card(str(path))
    assert str(caught.value).isprintable()


def test_a_list_of_too_many_texts(tmp_path: Path) -> None:
    """All of them are there: 2**23 texts, each of no length, in 64 MiB."""
    path = tmp_path / "x.gguf"
    count = struct.pack("<IIQ", 9, 8, 2**23)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("a") + count)
    os.truncate(path, path.stat().st_size + 8 * 2**23)
    with pytest.raises(CardError, match="a list of 8388608 values") as caught:
        open_card(str(path))
    assert str(caught.value).isprintable()
