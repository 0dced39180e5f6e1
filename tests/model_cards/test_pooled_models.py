"""Models that pool: their parameters as published, and what names and files make of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from checkpoint_files import Stored, llama_tensors, write_safetensors
from tiny_models import LLAMA, llama

from model_cards import BadConfig, open_card
from model_cards.caches import AttentionKind
from model_cards.card import ModelCard
from model_cards.config import Config
from model_cards.modules import NO_HEAD
from model_cards.pooling import PoolingClass, PoolingFiles, Projection, base_names, read_pooling
from model_cards.sources.bundled import open_bundled
from model_cards.sources.pooling_files import read_pooling_files

SMALL: dict[str, Any] = {
    "model_type": "bert",
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "vocab_size": 100,
    "position_embedding_type": "absolute",
}
POOLING = "sentence_transformers.models.Pooling"


def bundled(model_id: str) -> ModelCard:
    card = open_bundled(model_id)
    assert card is not None
    return card


@pytest.mark.parametrize(
    ("model_id", "published", "left_out"),
    [  # vLLM leaves BERT's pooler out of an embedding model: a square matrix with its bias.
        ("BAAI/bge-m3", 567_754_752, 1024 * 1025),
        ("BAAI/bge-large-en-v1.5", 335_141_888, 1024 * 1025),
        ("sentence-transformers/all-MiniLM-L6-v2", 22_713_216, 384 * 385),
        ("BAAI/bge-reranker-v2-m3", 567_755_777, 0),
        ("cross-encoder/ms-marco-MiniLM-L6-v2", 22_713_601, 0),
        ("Alibaba-NLP/gte-modernbert-base", 149_014_272, 0),
        # Keys have no bias; vLLM holds zeros for them in each attention of both halves.
        ("Snowflake/snowflake-arctic-embed-m-v2.0", 305_368_320, 0),
        ("nomic-ai/nomic-embed-text-v1.5", 136_731_648, 0),
        ("google/embeddinggemma-300m", 302_863_104, 0),
        ("openai/whisper-small", 241_734_912, -768 * (12 + 2 * 12)),
        ("openai/whisper-large-v3", 1_543_490_560, -1280 * (32 + 2 * 32)),
        ("openai/whisper-large-v3-turbo", 808_878_080, -1280 * (32 + 2 * 4)),
    ],
)
def test_the_parameters_are_those_published(model_id: str, published: int, left_out: int) -> None:
    card = bundled(model_id)
    assert card.exact
    assert card.parameters == published - left_out


@pytest.mark.parametrize(
    ("architecture", "runner", "convert"),
    [("Qwen3ForCausalLM", "generate", "embed"), ("Qwen3Model", "pooling", "embed"),
     ("Qwen3ForSequenceClassification", "pooling", "classify"),
     ("Qwen2ForRewardModel", "pooling", "embed"), ("LlamaModel", "generate", "embed"),
     ("MistralModel", "generate", "embed"), ("ModernBertModel", "pooling", "embed"),
     ("Gemma3ForConditionalGeneration", "generate", "embed"), ("Unheard", "generate", "embed")],
)  # fmt: skip
def test_the_name_of_the_class_says_what_runs_it(
    architecture: str, runner: str, convert: str
) -> None:
    pooling = read_pooling(Config({"architectures": [architecture]}, "x"), PoolingClass(), None)
    assert (pooling.runner, pooling.convert) == (runner, convert)


def test_a_language_model_with_a_pooling_layer_is_pooled() -> None:
    config = Config({"architectures": ["Qwen3ForCausalLM"]}, "x")
    files = PoolingFiles(modules=True, method="MEAN")
    pooling = read_pooling(config, PoolingClass(), files)
    assert (pooling.runner, pooling.convert, pooling.method) == ("pooling", "embed", "MEAN")
    assert pooling.whole_prompts
    assert not pooling.encoder_only


@pytest.mark.parametrize(
    ("keys", "labels"),
    [({}, 2), ({"id2label": {"0": "a"}}, 1), ({"num_labels": 5}, 5),
     ({"id2label": {"0": "a", "1": "b", "2": "c"}}, 3),
     ({"classifier_from_token": ["no", "yes"], "is_original_qwen3_reranker": True}, 1),
     ({"classifier_from_token": ["a", "b"], "method": "no_post_processing"}, 2),
     ({"classifier_from_token": ["a", "b"], "method": "from_2_way_softmax"}, 1)],
)  # fmt: skip
def test_scores_of_a_classifier(keys: dict[str, Any], labels: int) -> None:
    config = Config({"architectures": ["Qwen3ForSequenceClassification"], **keys}, "x")
    assert read_pooling(config, PoolingClass(), None).labels == labels


def test_the_class_behind_a_pooled_name() -> None:
    assert "Qwen3ForCausalLM" in base_names("Qwen3ForSequenceClassification")
    assert "GPT2LMHeadModel" in base_names("GPT2Model")
    assert list(base_names("Qwen3ForCausalLM")) == []


def test_a_classifier_of_a_language_model_has_no_output_head() -> None:
    card = bundled("Skywork/Skywork-Reward-V2-Qwen3-8B")
    assert card.lm_head is not None
    assert card.lm_head.elements == 0
    # Qwen3-8B without its head of 151936 x 4096.
    assert card.parameters == 8_190_735_360 - 151_936 * 4096


def test_attention_of_encoders_is_there_but_keeps_nothing() -> None:
    card = bundled("BAAI/bge-m3")
    assert {attention.kind for attention in card.attention_layers} == {AttentionKind.ENCODER_ONLY}
    assert len(card.attention_layers) == 24
    assert list(card.caches()) == []


def write(folder: Path, name: str, value: Any) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value))


def folder_card(folder: Path, **keys: Any) -> ModelCard:
    write(folder, "config.json", {"architectures": ["BertModel"], **SMALL, **keys})
    return open_card(str(folder))


def test_sentence_transformers_files_beside_a_config(tmp_path: Path) -> None:
    write(tmp_path, "modules.json", [{"type": "other"}, {"type": POOLING, "path": "1_Pooling"}])
    switches = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    write(tmp_path, "1_Pooling/config.json", {"word_embedding_dimension": 8, **switches})
    write(tmp_path, "sentence_bert_config.json", {"max_seq_length": 384})
    card = folder_card(tmp_path)
    assert card.pooling.method == "MEAN"
    assert (card.max_model_len, card.default_max_model_len) == (384, 384)
    assert card.dtype == "float32"


@pytest.mark.parametrize(
    ("settings", "method"),
    [({"pooling_mode_lasttoken": True}, "LAST"), ({"pooling_mode": "mean"}, "MEAN"),
     ({"pooling_mode_cls_token": True}, "CLS"), ({"pooling_mode_max_tokens": True}, None)],
)  # fmt: skip
def test_kinds_of_pooling(tmp_path: Path, settings: dict[str, Any], method: str | None) -> None:
    write(tmp_path, "modules.json", [{"type": POOLING, "path": "1_Pooling"}])
    write(tmp_path, "1_Pooling/config.json", settings)

    def find(name: str) -> Path | None:
        return tmp_path / name if (tmp_path / name).is_file() else None

    files = read_pooling_files(Config({}, "x"), find)
    assert files == PoolingFiles(modules=True, method=method)


def test_dense_layers_behind_the_pooling(tmp_path: Path) -> None:
    dense = {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}
    write(tmp_path, "modules.json", [{"type": POOLING, "path": "1_Pooling"}, dense])
    write(tmp_path, "2_Dense/config.json", {"in_features": 8, "out_features": 3, "bias": False})
    assert folder_card(tmp_path).pooling.projections == (Projection(8, 3, bias=False),)


@pytest.mark.parametrize(
    ("limit", "expected"), [(128, 128), (600, 512), (10**30, 512), ("many", 512)]
)
def test_a_tokenizer_limits_learned_positions(tmp_path: Path, limit: Any, expected: int) -> None:
    write(tmp_path, "tokenizer_config.json", {"model_max_length": limit})
    assert folder_card(tmp_path).max_model_len == expected


def test_a_tokenizer_limits_no_positions_that_are_not_said_to_be_learned(tmp_path: Path) -> None:
    write(tmp_path, "tokenizer_config.json", {"model_max_length": 128})
    assert folder_card(tmp_path, position_embedding_type=None).max_model_len == 512


@pytest.mark.parametrize("text", ["{", "{}", '"x"', "[" * 100_000])
def test_broken_files_are_named_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "modules.json").write_text(text)
    with pytest.raises(BadConfig, match=r"modules\.json") as failure:
        folder_card(tmp_path)
    assert "\n" not in str(failure.value)


def test_a_pooling_layer_outside_of_the_repository_is_not_read(tmp_path: Path) -> None:
    inside = tmp_path / "model"
    inside.mkdir()
    write(tmp_path, "secret/config.json", {"pooling_mode_lasttoken": True})
    write(inside, "modules.json", [{"type": POOLING, "path": "../secret"}])
    assert folder_card(inside).pooling.method == "CLS"  # the class's own


def bert_tensors() -> Stored:
    """As transformers stores it: with a pooler and positions, which vLLM leaves out."""
    norm = {"weight": [8], "bias": [8]}
    shapes: dict[str, list[int]] = {
        "embeddings.word_embeddings.weight": [100, 8],
        "embeddings.position_embeddings.weight": [512, 8],
        "embeddings.token_type_embeddings.weight": [2, 8],
        "embeddings.position_ids": [1, 512],
        "pooler.dense.weight": [8, 8],
        "pooler.dense.bias": [8],
        **{f"embeddings.LayerNorm.{name}": shape for name, shape in norm.items()},
    }
    for layer in range(2):
        path = f"encoder.layer.{layer}"
        for name in ("attention.self.query", "attention.self.key", "attention.self.value"):
            shapes |= {f"{path}.{name}.weight": [8, 8], f"{path}.{name}.bias": [8]}
        shapes |= {f"{path}.intermediate.dense.weight": [16, 8]}
        shapes |= {f"{path}.output.dense.weight": [8, 16]}
    return {name: ("F32", shape) for name, shape in shapes.items()}


def test_no_alarm_over_what_an_encoder_leaves_out(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors", bert_tensors())
    card = folder_card(tmp_path, torch_dtype="float32")
    assert (card.exact, card.notes) == (True, ())


def test_files_of_a_classifier_have_no_output_head(tmp_path: Path) -> None:
    tensors = {name: t for name, t in llama_tensors(LLAMA).items() if "lm_head" not in name}
    write_safetensors(tmp_path / "model.safetensors", tensors)
    write(tmp_path, "config.json", llama(architectures=["LlamaForSequenceClassification"]))
    card = open_card(str(tmp_path))
    assert (card.exact, card.notes, card.lm_head) == (True, (), NO_HEAD)


def test_files_of_an_embedding_model_may_have_no_output_head(tmp_path: Path) -> None:
    tensors = {name: t for name, t in llama_tensors(LLAMA).items() if "lm_head" not in name}
    write_safetensors(tmp_path / "model.safetensors", tensors)
    write(tmp_path, "config.json", LLAMA)
    assert "no output head" in " ".join(open_card(str(tmp_path)).notes)
    write(tmp_path, "modules.json", [{"type": POOLING, "path": "1_Pooling"}])
    card = open_card(str(tmp_path))
    assert (card.exact, card.notes, card.lm_head) == (True, (), NO_HEAD)
