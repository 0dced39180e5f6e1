"""Architectures that are not modelled, from their files' tensors: exact totals, split by name."""

from __future__ import annotations

from typing import Any

import pytest
from checkpoint_files import Stored, card_with, llama_tensors, packed_tensors, recorded
from tiny_models import LLAMA, llama

from model_cards import Fidelity, UnsupportedModel
from model_cards.architectures import find_family
from model_cards.caches import Attention
from model_cards.card import ModelCard
from model_cards.config import Config
from model_cards.modules import Bulk, Embedding, Experts, Linear, Module, Shard, Tensor

FUTURE = {"architectures": ["FutureForCausalLM"], "model_type": "future"}
NOTE = "FutureForCausalLM is not modelled; the tensors of its files are split over ranks by name"

RECORDED = {config["architectures"][0]: (config, tensors) for config, tensors in recorded()}
UNMODELLED = [n for n, (c, _) in RECORDED.items() if find_family(Config(c, "")) is None]


def future(**changes: Any) -> dict[str, Any]:
    return llama(**FUTURE | changes)


def share(module: Module, ranks: int) -> int:
    """Elements that one of so many tensor-parallel ranks holds."""
    match module:
        case Linear(shard=Shard.COLUMN):
            features = sum(
                max(output.units // ranks, 1 if output.replicable else 0) * output.width
                for output in module.outputs
            )
            return features * (module.inputs + module.bias)
        case Linear(shard=Shard.ROW):
            features = sum(output.size for output in module.outputs)
            return features * (module.inputs // ranks + module.bias)
        case Experts() | Embedding() | Bulk():
            return module.elements // ranks
        case _:
            return module.elements


def rank_elements(card: ModelCard, ranks: int) -> int:
    return sum(share(module, ranks) for module in card.modules())


def cached(card: ModelCard) -> list[tuple[int, int]]:
    """Heads and their size in every layer's cache."""
    return [(cache.num_kv_heads, cache.head_size) for cache in card.attention_layers]


# Those whose whole split the names tell, by families that are modelled module by module.
SPLIT_ALIKE = [
    "LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM",
    "GemmaForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM", "Phi3ForCausalLM",
    "GraniteForCausalLM", "Olmo2ForCausalLM", "SmolLM3ForCausalLM", "SeedOssForCausalLM",
    "GlmForCausalLM", "Glm4ForCausalLM", "Exaone4ForCausalLM", "CohereForCausalLM",
    "StableLmForCausalLM", "Starcoder2ForCausalLM", "Ernie4_5ForCausalLM", "GPT2LMHeadModel",
    "OPTForCausalLM", "MixtralForCausalLM", "OlmoeForCausalLM", "Qwen2MoeForCausalLM",
    "Qwen3MoeForCausalLM", "GraniteMoeForCausalLM", "GptOssForCausalLM", "DeepseekV2ForCausalLM",
    "Glm4MoeLiteForCausalLM",
]  # fmt: skip


@pytest.mark.parametrize("name", SPLIT_ALIKE)
def test_names_split_as_the_modelled_families_do(name: str) -> None:
    config, tensors = RECORDED[name]
    modelled = card_with(config, tensors)
    guessed = card_with({**config, "architectures": ["FutureForCausalLM"]}, tensors)
    assert (modelled.exact, guessed.exact) == (True, False)
    for ranks in (1, 2, 4):
        assert rank_elements(guessed, ranks) == rank_elements(modelled, ranks)
    assert cached(guessed) == cached(modelled)


@pytest.mark.parametrize(
    "name", [n for n in UNMODELLED if n not in ("BloomForCausalLM", "MptForCausalLM")]
)
def test_totals_are_those_of_the_files(name: str) -> None:
    config, tensors = RECORDED[name]
    card = card_with(config, tensors)
    assert (card.fidelity, card.unreadable) == (Fidelity.ESTIMATED, None)
    assert card.weight_bytes == card.checkpoint_bytes
    assert card.notes[0].startswith(f"{name} is not modelled; the tensors of its files are split")


@pytest.mark.parametrize("name", ["BloomForCausalLM", "MptForCausalLM"])
def test_configs_with_keys_of_their_own_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedModel) as caught:
        card_with(*RECORDED[name])
    assert str(caught.value) == (
        "config.json: no layer count, hidden size or vocabulary to estimate from"
    )


def named(modules: tuple[Module, ...]) -> dict[str, Module]:
    return {module.name: module for module in modules}


def test_rules_by_name() -> None:
    tensors = llama_tensors(LLAMA)
    for layer in ("model.layers.0", "model.layers.1"):
        tensors[f"{layer}.mlp.low_rank.weight"] = ("BF16", [4, 8])
        tensors[f"{layer}.mlp.wide.weight"] = ("BF16", [24, 8])
        tensors[f"{layer}.self_attn.sinks"] = ("BF16", [4])
    card = card_with(future(), tensors)
    assert card.notes == (NOTE,)
    assert len({id(layer) for layer in card.layers}) == 1
    found = named(card.layers[0].modules)
    shards = {name: m.shard for name, m in found.items() if isinstance(m, Linear)}
    assert shards == {
        "self_attn.q_proj": Shard.COLUMN,
        "self_attn.k_proj": Shard.COLUMN,
        "self_attn.v_proj": Shard.COLUMN,
        "self_attn.o_proj": Shard.ROW,
        "mlp.gate_proj": Shard.COLUMN,
        "mlp.up_proj": Shard.COLUMN,
        "mlp.down_proj": Shard.ROW,
        "mlp.low_rank": Shard.REPLICATED,  # narrower than the hidden state
        "mlp.wide": Shard.COLUMN,
    }
    assert found["self_attn.sinks"] == Tensor("self_attn.sinks", (4,))
    assert found["input_layernorm.weight"] == Tensor("input_layernorm.weight", (8,))
    key = found["self_attn.k_proj"]
    assert isinstance(key, Linear)
    assert [(o.units, o.width, o.replicable) for o in key.outputs] == [(2, 2, True)]
    assert card.lm_head is not None
    assert (card.embedding.rows, card.lm_head.rows) == (10, 10)


def expert_tensors(dtype: str = "BF16") -> Stored:
    """Llama with 4 experts of 3 x 8 x 6 in place of each MLP, and a router."""
    tensors = {n: t for n, t in llama_tensors(LLAMA).items() if ".mlp." not in n}
    for layer in range(2):
        mlp = f"model.layers.{layer}.mlp"
        tensors[f"{mlp}.gate.weight"] = ("BF16", [4, 8])
        for expert in range(4):
            for name, shape in (("gate_proj", [6, 8]), ("up_proj", [6, 8]), ("down_proj", [8, 6])):
                tensors[f"{mlp}.experts.{expert}.{name}.weight"] = (dtype, shape)
    return tensors


MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 6}


def test_experts_by_their_index() -> None:
    card = card_with(future(**MOE), expert_tensors())
    found = named(card.layers[0].modules)
    experts = found["mlp.experts"]
    assert isinstance(experts, Experts)
    assert (experts.count, experts.active, experts.gated) == (4, 2, True)
    assert (experts.hidden, experts.intermediate) == (8, 6)
    router = found["mlp.gate"]
    assert isinstance(router, Linear)
    assert router.shard is Shard.REPLICATED
    assert (card.is_moe, card.weight_bytes) == (True, card.checkpoint_bytes)


def test_packed_experts_count_by_the_share_that_is_active() -> None:
    """An int8 layout nobody knows: 2 layers x 4 x 3 x 48 bytes, of which half are met."""
    tensors = expert_tensors("I8")
    for layer in range(2):
        tensors[f"model.layers.{layer}.mlp.experts.marker"] = ("I32", [1])
    settings = {"quant_method": "unheard-of"}
    card = card_with(future(quantization_config=settings, **MOE), tensors)
    bulk = named(card.layers[0].modules)["packed"]
    assert isinstance(bulk, Bulk)
    assert bulk.bytes == 4 * 3 * 48 + 4
    assert bulk.active == pytest.approx(bulk.elements / 2, abs=1)
    assert card.weight_bytes == card.checkpoint_bytes


def test_packed_weights_are_known_by_their_bytes() -> None:
    config, tensors = packed_tensors()
    card = card_with({**config, **FUTURE}, tensors)
    assert (card.exact, card.quantization, card.format_kind) == (False, "awq", "int4")
    assert card.weight_bytes == card.checkpoint_bytes
    kinds = {type(module) for module in card.layers[0].modules}
    assert kinds == {Tensor, Bulk}


def test_fp8_shows_its_shape() -> None:
    """One scale for each block of 128 x 128."""
    tensors = llama_tensors(LLAMA)
    for name in list(tensors):
        if "_proj" in name:
            tensors[name] = ("F8_E4M3", tensors[name][1])
            tensors[name.replace(".weight", ".weight_scale_inv")] = ("F32", [1, 1])
    settings = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    card = card_with(future(quantization_config=settings), tensors)
    formats = {m.format.kind for m in card.layers[0].modules if isinstance(m, Linear)}
    assert formats == {"fp8"}
    assert card.weight_bytes == card.checkpoint_bytes


def test_only_the_quantization_is_not_modelled() -> None:
    """Then the caches are those of the architecture."""
    config, tensors = packed_tensors()
    settings = {"quant_method": "unheard-of"}
    card = card_with({**config, "quantization_config": settings}, tensors)
    *_, note = card.notes
    assert note == "the tensors of its files are split over ranks by name"
    assert card.attention_layers == card_with(config, tensors).attention_layers
    assert card.weight_bytes == card.checkpoint_bytes


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"num_attention_heads": None}, "no attention heads to estimate a KV cache from"),
        ({"num_hidden_layers": None}, "no layer count, hidden size or vocabulary to estimate"),
        # 2 KV heads of 2 features are what the files have.
        ({"num_key_value_heads": None}, "self_attn.k_proj.weight is [4, 8], which num_key_value"),
        ({"head_dim": 3}, "(6 features) do not explain; its KV cache is not known"),
    ],
)
def test_a_cache_that_the_config_does_not_tell(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(UnsupportedModel) as caught:
        card_with(future(**changes), llama_tensors(LLAMA))
    message = str(caught.value)
    assert message.startswith("config.json: ")
    assert problem in message
    assert message.isprintable()


def test_layers_without_keys_have_no_kv_cache() -> None:
    tensors = llama_tensors(LLAMA)
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        del tensors[f"model.layers.0.self_attn.{name}.weight"]
    tensors["model.layers.0.mixer.in_proj.weight"] = ("BF16", [24, 8])
    card = card_with(future(), tensors)
    assert [len(layer.caches) for layer in card.layers] == [0, 1]
    assert card.notes == (
        NOTE, "what layers without keys and values keep for a request is not counted",
    )  # fmt: skip
    (cache,) = card.attention_layers
    assert isinstance(cache, Attention)
    assert (cache.num_kv_heads, cache.head_size) == (2, 2)


def test_what_is_not_served_is_not_counted() -> None:
    tensors = llama_tensors(LLAMA)
    served = card_with(future(), tensors).weight_bytes
    for name in ("mtp.fc.weight", "model.layers.2.eh_proj.weight", "model.rotary.inv_freq"):
        tensors[name] = ("BF16", [8, 16])
    assert card_with(future(), tensors).weight_bytes == served


def test_encoders_are_towers() -> None:
    tensors = llama_tensors(LLAMA)
    tensors["vision_tower.layers.0.fc1.weight"] = ("BF16", [6, 5])
    card = card_with(future(), tensors)
    (tower,) = card.towers
    (module,) = tower.modules
    assert module.elements == 30


def test_a_tied_head_is_its_embedding() -> None:
    tensors = llama_tensors(LLAMA)
    tied = future(tie_word_embeddings=True)
    assert card_with(tied, tensors).tied
    assert card_with(tied, tensors, head_is_copy=True).tied
    assert not card_with(tied, tensors, head_is_copy=False).tied
    del tensors["lm_head.weight"]
    assert card_with(future(), tensors).tied


def test_files_that_show_no_network_are_planned_by_their_total() -> None:
    tensors: Stored = {"blob": ("BF16", [1000, 8])}
    card = card_with(future(), tensors)
    assert card.notes == (
        "FutureForCausalLM is not modelled module by module; planned from its totals",
    )
