"""Vision-language models: towers, names of checkpoints old and new, what layers share."""

from __future__ import annotations

import pytest
from test_parameter_totals import scales

from model_cards.build import build_card
from model_cards.card import ModelCard, Origin
from model_cards.config import Config
from model_cards.facts import Facts
from model_cards.sources.bundled import bundled_config, find_entry, open_bundled


def quantized(model_id: str, skipped: list[str]) -> ModelCard:
    """The card of a model's FP8 checkpoint whose list of unquantized modules is `skipped`."""
    found = bundled_config(model_id)
    assert found is not None
    settings = {"quant_method": "fp8", "modules_to_not_convert": skipped}
    config = found[0].merged({"quantization_config": settings})
    return build_card(model_id, config, Origin("folder", "test"), Facts())


@pytest.mark.parametrize("tower", ["visual", "model.visual"])
@pytest.mark.parametrize("layers", ["model.layers", "model.language_model.layers"])
def test_lists_of_checkpoints_of_any_age(tower: str, layers: str) -> None:
    model_id = "Qwen/Qwen2.5-VL-7B-Instruct"
    skipped = [f"{tower}.blocks.3.attn.proj", f"{layers}.5.mlp.down_proj"]
    assert scales(quantized(model_id, [])) - scales(quantized(model_id, skipped)) == 2


def test_a_prefix_in_a_list_of_whole_paths_skips_nothing() -> None:
    model_id = "mistralai/Devstral-Small-2-24B-Instruct-2512"
    assert scales(quantized(model_id, ["model.vision_tower"])) == scales(quantized(model_id, []))


@pytest.mark.parametrize(
    "model_id",
    [
        "Qwen/Qwen3-VL-8B-Instruct-FP8",
        "Qwen/Qwen3-VL-30B-A3B-Instruct-FP8",
        "Qwen/Qwen3-VL-32B-Instruct-FP8",
        "RedHatAI/gemma-3-12b-it-FP8-dynamic",
        "RedHatAI/gemma-3-27b-it-FP8-dynamic",
        "RedHatAI/Mistral-Small-3.1-24B-Instruct-2503-FP8-dynamic",
        "RedHatAI/Qwen2.5-VL-7B-Instruct-FP8-Dynamic",
    ],
)
def test_published_variants_leave_towers_unquantized(model_id: str) -> None:
    card, entry = open_bundled(model_id), find_entry(model_id)
    assert card is not None
    assert entry is not None
    assert entry.parameters == card.checkpoint_parameters + scales(card)


def test_layers_that_share_a_cache_have_none() -> None:
    card = open_bundled("google/gemma-3n-E4B-it")
    assert card is not None
    windows = [attention.window for attention in card.attention_layers]
    assert (len(windows), windows.count(512)) == (20, 16)


def test_a_head_of_its_own_shows_in_the_total() -> None:
    """Mistral3's class ties embeddings, Mistral Small 3.1 has a head all the same."""
    found = bundled_config("mistralai/Mistral-Small-3.1-24B-Instruct-2503")
    assert found is not None
    values = {key: found[0].raw(key) for key in found[0] if key != "tie_word_embeddings"}
    config, origin = Config(values, "config.json"), Origin("folder", "test")
    assert build_card("a/b", config, origin, Facts()).tied
    assert not build_card("a/b", config, origin, Facts(parameters=24_011_361_280)).tied


def test_a_language_model_without_a_class_is_estimated() -> None:
    found = bundled_config("mistralai/Mistral-Small-3.1-24B-Instruct-2503")
    assert found is not None
    text = {key: found[0].text.raw(key) for key in found[0].text} | {"model_type": "mistral4"}
    config = found[0].merged({"text_config": text})
    card = build_card("a/b", config, Origin("folder", "test"), Facts(parameters=24 * 10**9))
    assert not card.exact


def test_bad_configs_are_refused() -> None:
    found = bundled_config("microsoft/Phi-3.5-vision-instruct")
    assert found is not None
    values = {key: found[0].raw(key) for key in found[0] if key != "img_processor"}
    with pytest.raises(ValueError, match="img_processor must be an object"):
        build_card("a/b", Config(values, "config.json"), Origin("folder", "test"), Facts())
