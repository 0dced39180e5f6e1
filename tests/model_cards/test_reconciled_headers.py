"""What files hold against what their config says: every difference, and no false alarm."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import pytest
from checkpoint_files import (
    Stored,
    card_with,
    header,
    llama_tensors,
    packed_tensors,
    recorded,
    write_json,
    write_safetensors,
)
from tiny_models import LLAMA, LLAMA_PARAMETERS, llama

from model_cards import open_card
from model_cards.architectures import find_family
from model_cards.card import ModelCard
from model_cards.config import Config

MODELLED = [
    (config, tensors)
    for config, tensors in recorded()
    if find_family(Config(config, "")) is not None
]


def folder(path: Path, config: dict[str, Any], tensors: Stored) -> ModelCard:
    write_json(path / "config.json", config)
    write_safetensors(path / "model.safetensors", tensors)
    return open_card(str(path))


@pytest.mark.parametrize(
    ("config", "tensors"), MODELLED, ids=[config["architectures"][0] for config, _ in MODELLED]
)
def test_no_false_alarm_over_what_transformers_stores(
    tmp_path: Path, config: dict[str, Any], tensors: Stored
) -> None:
    card = folder(tmp_path, config, tensors)
    # transformers saves no MTP layers of these.
    dropped = ("its files hold no MTP layers, so it cannot draft for itself",)
    promises = {"deepseek_v3", "glm4_moe", "qwen3_next"}
    assert card.notes == (dropped if config["model_type"] in promises else ())
    assert (card.exact, card.unreadable, card.drafts) == (True, None, ())


def test_enough_families_are_recorded() -> None:
    assert len({find_family(Config(config, "")) for config, _ in MODELLED}) >= 30


# Llama with FP8 in blocks of 128 x 128, one of which covers each of its matrices.
def fp8_tensors() -> Stored:
    tensors = llama_tensors(LLAMA)
    for name in list(tensors):
        if "_proj" in name:
            tensors[name] = ("F8_E4M3", tensors[name][1])
            tensors[name.replace(".weight", ".weight_scale_inv")] = ("F32", [1, 1])
    return tensors


def test_no_false_alarm_over_quantized_files() -> None:
    settings = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    card = card_with(llama(quantization_config=settings), fp8_tensors())
    assert (card.exact, card.notes, card.quantization) == (True, (), "fp8")
    card = card_with(*packed_tensors())
    assert (card.exact, card.notes, card.quantization) == (True, (), "awq")


def test_no_false_alarm_over_what_no_loader_reads() -> None:
    tensors = llama_tensors(LLAMA)
    for index in range(2):
        tensors[f"model.layers.{index}.self_attn.rotary_emb.inv_freq"] = ("F32", [9999])
    assert card_with(LLAMA, tensors).notes == ()
    in_fp32 = {name: ("F32", shape) for name, (_, shape) in llama_tensors(LLAMA).items()}
    assert card_with(LLAMA, in_fp32).notes == ()  # vLLM casts them


TIED = llama(tie_word_embeddings=True)
ONE_MATRIX = 10 * 8
# llama_tensors of an untied config has a head.
WITH_HEAD = llama_tensors(LLAMA)


def test_a_stored_head_of_a_tied_model_is_taken_as_a_copy() -> None:
    card = card_with(TIED, WITH_HEAD)
    assert card.tied
    assert card.exact
    assert card.parameters == LLAMA_PARAMETERS - ONE_MATRIX
    (note,) = card.notes
    assert note.startswith("its files hold an output head although the config ties it")
    assert "taken as a copy, which vLLM drops again" in note


def test_a_stored_head_that_was_compared() -> None:
    copy = card_with(TIED, WITH_HEAD, head_is_copy=True)
    assert (copy.tied, copy.exact, copy.notes) == (True, True, ())
    own = card_with(TIED, WITH_HEAD, head_is_copy=False)
    assert (own.tied, own.exact, own.parameters) == (False, True, LLAMA_PARAMETERS)
    (note,) = own.notes
    assert "they differ, so vLLM keeps both" in note


def whole_file(tensors: Stored, **weights: bytes) -> bytes:
    """A file with its weights: zeros, but in the modules that are named."""
    data = b""
    for name, (_, shape) in tensors.items():
        count = prod(shape)
        data += weights.get(name.split(".")[-2], b"\x00\x00") * count
    return header(tensors) + data


@pytest.mark.parametrize(("head", "tied"), [(b"\x01\x02", True), (b"\x01\x03", False)])
def test_a_folder_is_looked_into(tmp_path: Path, head: bytes, tied: bool) -> None:
    write_json(tmp_path / "config.json", TIED)
    file = whole_file(WITH_HEAD, embed_tokens=b"\x01\x02", lm_head=head)
    (tmp_path / "model.safetensors").write_bytes(file)
    card = open_card(str(tmp_path))
    assert (card.tied, card.exact) == (tied, True)
    assert bool(card.notes) is not tied


def test_no_head_of_an_untied_model() -> None:
    card = card_with(LLAMA, llama_tensors(TIED))
    assert card.lm_head is not None, "vLLM allocates it all the same"
    assert any("hold no output head although the config does not tie it" in n for n in card.notes)
    # Under another name it is there.
    for name in ("output.weight", "embed_out.weight", "model.head.weight"):
        named = card_with(LLAMA, {**llama_tensors(TIED), name: ("BF16", [10, 8])})
        assert named.notes == ()


def mimo(layers: int = 1) -> dict[str, Any]:
    return llama(
        architectures=["MiMoForCausalLM"], model_type="mimo", num_nextn_predict_layers=layers
    )


def mimo_tensors() -> Stored:
    tensors = llama_tensors(LLAMA)
    for layer in range(2):
        for name, size in (("q_proj", 8), ("k_proj", 4), ("v_proj", 4)):
            tensors[f"model.layers.{layer}.self_attn.{name}.bias"] = ("BF16", [size])
    return tensors


@pytest.mark.parametrize(
    "name",
    ["model.mtp_layers.0.input_proj.weight", "mtp.fc.weight", "model.layers.2.eh_proj.weight",
     "model.nextn.weight"],
)  # fmt: skip
def test_mtp_layers_by_any_name(name: str) -> None:
    assert len(card_with(mimo(), {**mimo_tensors(), name: ("BF16", [8, 16])}).drafts) == 1


def test_no_mtp_layers() -> None:
    card = card_with(mimo(), mimo_tensors())
    assert (card.drafts, card.exact) == ((), True)
    assert card.notes == ("its files hold no MTP layers, so it cannot draft for itself",)
    # An encoder's layers that go further are none of them.
    tower = {"vision_tower.encoder.layers.7.mlp.fc1.weight": ("BF16", [8, 8])}
    assert card_with(mimo(), {**mimo_tensors(), **tower}).drafts == ()


@pytest.mark.parametrize("shape", [[12, 8], [10, 16]])
def test_an_embedding_of_another_shape_does_not_load(shape: list[int]) -> None:
    tensors = {**llama_tensors(LLAMA), "model.embed_tokens.weight": ("BF16", shape)}
    assert card_with(LLAMA, tensors).unreadable == (
        "it describes an embedding of 10 x 8, but model.embed_tokens.weight has "
        f"{shape[0]} x {shape[1]}"
    )


def test_layers_that_are_missing_or_too_many() -> None:
    tensors = llama_tensors(LLAMA)
    card = card_with(llama(num_hidden_layers=4), tensors)
    assert "its files hold 2 of the config's 4 decoder layers" in card.notes
    assert not card.exact
    card = card_with(llama(num_hidden_layers=1), tensors)
    assert card.notes == ("its files hold layers behind the config's 1, which vLLM does not serve",)


def test_totals_that_do_not_add_up() -> None:
    tensors = llama_tensors(LLAMA)
    known = LLAMA_PARAMETERS
    tensors["model.layers.0.mlp.extra.weight"] = ("BF16", [known // 20, 1])
    card = card_with(LLAMA, tensors)
    assert not card.exact
    assert card.notes == (
        "its files hold 5.0% more for the language model than its config describes; its weights "
        "are estimated",
    )
    tensors["model.layers.0.mlp.extra.weight"] = ("BF16", [known // 250, 1])  # 0.4 %
    assert card_with(LLAMA, tensors).exact
    del tensors["model.layers.0.mlp.extra.weight"], tensors["model.layers.1.mlp.up_proj.weight"]
    # An up projection of 16 x 8.
    (note,) = card_with(LLAMA, tensors).notes
    assert note.startswith(f"its files hold {128 / known:.1%} less")


def test_a_config_without_a_dtype_has_that_of_the_files() -> None:
    config = llama(torch_dtype=None)
    for dtype, name in (("F16", "float16"), ("BF16", "bfloat16"), ("F32", "float32")):
        card = card_with(config, llama_tensors(LLAMA, dtype))
        assert (card.dtype, card.notes) == (name, ())
    mixed = {**llama_tensors(LLAMA), "model.norm.weight": ("F32", [8])}
    assert "the config names no dtype; bfloat16 assumed" in card_with(config, mixed).notes


def test_heads_have_the_matrices_that_their_files_name() -> None:
    config = llama(
        architectures=["LlamaForCausalLMEagle3"], num_hidden_layers=1, draft_vocab_size=10
    )
    without: Stored = {"midlayer.mlp.up_proj.weight": ("BF16", [16, 8])}
    head = card_with(config, without).head
    assert head is not None
    assert (head.own_embedding, head.own_lm_head) == (False, False)
    both: Stored = {"embed_tokens.weight": ("BF16", [10, 8]), "lm_head.weight": ("BF16", [10, 8])}
    head = card_with(config, {**without, **both}).head
    assert head is not None
    assert (head.own_embedding, head.own_lm_head) == (True, True)
