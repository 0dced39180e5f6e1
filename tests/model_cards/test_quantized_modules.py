"""Which modules of a checkpoint are quantized: ignore lists, fused layers, output heads."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_models import card_of, formats, llama

from model_cards import BadConfig
from model_cards.card import ModelCard
from model_cards.modules import Experts

FUSED = ("self_attn.qkv_proj", "mlp.gate_up_proj")
LINEAR = (*FUSED, "self_attn.o_proj", "mlp.down_proj")

AWQ = {"quant_method": "awq", "bits": 4, "group_size": 4}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 4}
FP8 = {"quant_method": "fp8"}
MODELOPT = {"quant_method": "modelopt", "quant_algo": "FP8"}


def compressed(
    targets: tuple[str, ...] = ("Linear",), ignore: tuple[str, ...] = ()
) -> dict[str, Any]:
    weights = {"num_bits": 8, "type": "float", "strategy": "channel"}
    inputs = {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True}
    group = {"targets": [*targets], "weights": weights, "input_activations": inputs}
    return {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "config_groups": {"group_0": group},
        "ignore": [*ignore],
    }


def quantized(settings: dict[str, Any], **changes: Any) -> ModelCard:
    return card_of(llama(quantization_config=settings, **changes))


def kept(card: ModelCard, layer: int = 0) -> set[str]:
    """Modules in 16 bit."""
    return {name for name, kind in formats(card, layer).items() if kind == "16bit"}


def layer_path(index: int, name: str) -> str:
    return f"model.layers.{index}.{name}"


@pytest.mark.parametrize(
    "settings", [AWQ, GPTQ, FP8, compressed()], ids=lambda s: s["quant_method"]
)
def test_linear_layers_are_quantized_and_the_head_is_not(settings: dict[str, Any]) -> None:
    card = quantized(settings)
    assert card.quantization == settings["quant_method"]
    assert set(formats(card)) == {*LINEAR, "lm_head"}
    assert kept(card) == {"lm_head"}
    assert card.embedding.format.kind == "16bit"
    assert card.exact


def test_modelopt_quantizes_the_head_unless_it_is_excluded() -> None:
    assert kept(quantized(MODELOPT)) == set()
    assert kept(quantized(MODELOPT | {"exclude_modules": ["lm_head"]})) == {"lm_head"}
    # As one tensor of 10 x 8 in FP8 it takes 80 bytes and two scales.
    head = quantized(MODELOPT).lm_head
    assert head is not None
    assert head.format.bytes(8, (10,), 2) == 88


@pytest.mark.parametrize("settings", [AWQ, GPTQ])
def test_awq_and_gptq_can_quantize_the_head(settings: dict[str, Any]) -> None:
    assert kept(quantized(settings | {"lm_head": True})) == set()
    assert kept(quantized(settings | {"lm_head": False})) == {"lm_head"}


def test_a_target_that_names_the_head() -> None:
    assert kept(quantized(compressed(("Linear", "re:.*lm_head")))) == set()
    settings = compressed(("Linear", "lm_head"), ignore=("lm_head",))
    assert kept(quantized(settings)) == {"lm_head"}


def test_a_tied_head_is_the_embedding() -> None:
    card = quantized(MODELOPT, tie_word_embeddings=True)
    assert card.lm_head is None
    assert card.embedding.format.kind == "16bit"


LISTS: dict[str, tuple[dict[str, Any], set[str], set[str]]] = {
    # What stays in layer 0, and in layer 1.
    "awq: a part of the path": (
        AWQ | {"modules_to_not_convert": ["o_proj", "layers.1.mlp"]},
        {"self_attn.o_proj"},
        {"self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj"},
    ),
    "awq: the whole attention": (
        AWQ | {"modules_to_not_convert": ["self_attn"]},
        {"self_attn.qkv_proj", "self_attn.o_proj"},
        {"self_attn.qkv_proj", "self_attn.o_proj"},
    ),
    "gptq: a pattern from the beginning": (
        GPTQ | {"dynamic": {r"-:model\.layers\.1\.": {}, r"-:mlp": {}}},
        set(),
        set(LINEAR),
    ),
    "gptq: a pattern anywhere": (
        GPTQ | {"dynamic": {r"-:.*\.down_proj": {}}}, {"mlp.down_proj"}, {"mlp.down_proj"}
    ),
    "fp8: whole paths": (
        FP8 | {"ignored_layers": [layer_path(1, "self_attn.o_proj"), "mlp.down_proj"]},
        set(),
        {"self_attn.o_proj"},
    ),
    "fp8: the parts of a fused layer": (
        FP8 | {"ignored_layers": [layer_path(0, f"self_attn.{p}_proj") for p in "qkv"]},
        {"self_attn.qkv_proj"},
        set(),
    ),
    "fp8: the fused layer": (
        FP8 | {"ignored_layers": [layer_path(1, "mlp.gate_up_proj")]}, set(), {"mlp.gate_up_proj"}
    ),
    "fp8: transformers' key": (
        FP8 | {"modules_to_not_convert": [layer_path(1, "mlp.down_proj")]},
        set(),
        {"mlp.down_proj"},
    ),
    "fp8: vLLM's key comes first": (
        FP8 | {"ignored_layers": [layer_path(0, "mlp.down_proj")],
               "modules_to_not_convert": [layer_path(1, "mlp.down_proj")]},
        {"mlp.down_proj"},
        set(),
    ),
    "compressed-tensors: a name": (
        compressed(ignore=(layer_path(1, "mlp.down_proj"), "self_attn.o_proj")),
        set(),
        {"mlp.down_proj"},
    ),
    "compressed-tensors: a pattern": (
        compressed(ignore=("re:.*self_attn.*", "re:mlp")),
        {"self_attn.qkv_proj", "self_attn.o_proj"},
        {"self_attn.qkv_proj", "self_attn.o_proj"},
    ),
    "compressed-tensors: parts of a fused layer": (
        compressed(ignore=("re:.*0.mlp.(gate|up)_proj$",)), {"mlp.gate_up_proj"}, set()
    ),
    "compressed-tensors: only what is targeted": (
        compressed(("re:.*mlp.*",)),
        {"self_attn.qkv_proj", "self_attn.o_proj"},
        {"self_attn.qkv_proj", "self_attn.o_proj"},
    ),
    "modelopt: a wildcard": (
        MODELOPT | {"exclude_modules": ["model.layers.1*"]}, set(), set(LINEAR)
    ),
    "modelopt: a part of the path": (
        MODELOPT | {"exclude_modules": ["layers.0.self_attn"]},
        {"self_attn.qkv_proj", "self_attn.o_proj"},
        set(),
    ),
    "modelopt: whole paths of the parts": (
        MODELOPT | {"exclude_modules": [layer_path(0, f"self_attn.{p}_proj") for p in "qkv"]},
        {"self_attn.qkv_proj"},
        set(),
    ),
    "modelopt: under its newer name": (
        MODELOPT | {"ignore": ["*.down_proj"]}, {"mlp.down_proj"}, {"mlp.down_proj"}
    ),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "first", "second"), LISTS.values(), ids=LISTS.keys())
def test_ignore_lists(settings: dict[str, Any], first: set[str], second: set[str]) -> None:
    card = quantized(settings)
    assert kept(card, 0) - {"lm_head"} == first
    assert kept(card, 1) - {"lm_head"} == second


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (AWQ | {"modules_to_not_convert": ["q_proj"]}, "q_proj, k_proj, v_proj"),
        (GPTQ | {"dynamic": {"-:.*up_proj": {}}}, "gate_proj, up_proj"),
        (FP8 | {"ignored_layers": [layer_path(1, "self_attn.v_proj")]}, "q_proj, k_proj, v_proj"),
        (compressed(ignore=("re:.*gate_proj",)), "gate_proj, up_proj"),
        (compressed(("re:.*k_proj",)), "q_proj, k_proj, v_proj"),
        (MODELOPT | {"exclude_modules": [layer_path(0, "mlp.up_proj")]}, "gate_proj, up_proj"),
    ],
)
def test_parts_of_a_fused_layer_that_differ(settings: dict[str, Any], names: str) -> None:
    """vLLM refuses such a checkpoint too."""
    with pytest.raises(BadConfig) as caught:
        quantized(settings)
    message = str(caught.value)
    assert message.startswith("model.layers.")
    assert f"{names} are quantized differently, but vLLM fuses them" in message
    assert message.isprintable()


def test_phi3_stores_its_layers_fused_already() -> None:
    settings = FP8 | {"ignored_layers": [layer_path(0, "self_attn.qkv_proj")]}
    card = quantized(settings, architectures=["Phi3ForCausalLM"], model_type="phi3")
    assert kept(card, 0) == {"self_attn.qkv_proj", "lm_head"}
    assert kept(card, 1) == {"lm_head"}


def test_groups_with_schemes_of_their_own() -> None:
    settings = compressed(("re:.*down_proj",))
    packed = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 4}
    settings["config_groups"]["group_1"] = {
        "targets": ["Linear"], "weights": packed, "format": "pack-quantized",
    }  # fmt: skip
    kinds = formats(quantized(settings))
    assert (kinds["mlp.down_proj"], kinds["self_attn.o_proj"]) == ("fp8", "int4")


MOE = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 16, "norm_topk_prob": True,
}  # fmt: skip


def expert_kinds(settings: dict[str, Any]) -> list[str]:
    card = quantized(settings, **MOE)
    return [m.format.kind for layer in card.layers for m in layer.modules if isinstance(m, Experts)]


@pytest.mark.parametrize(
    ("settings", "listed"),
    [
        (AWQ, {"modules_to_not_convert": ["mlp.gate"]}),
        (GPTQ, {"dynamic": {r"-:.*mlp\.gate$": {}}}),
        (FP8, {"modules_to_not_convert": [layer_path(i, "mlp.gate") for i in (0, 1)]}),
        (compressed(), {"ignore": ["re:.*mlp.gate$"]}),
        (MODELOPT, {"exclude_modules": ["*.mlp.gate"]}),
    ],
)
def test_experts_are_quantized_and_routers_as_listed(
    settings: dict[str, Any], listed: dict[str, Any]
) -> None:
    """vLLM asks the list about Qwen's routers; Mixtral's it never quantizes."""
    assert "16bit" not in expert_kinds(settings)
    assert formats(quantized(settings, **MOE))["mlp.gate"] != "16bit"
    assert formats(quantized(settings | listed, **MOE))["mlp.gate"] == "16bit"
    assert "16bit" not in expert_kinds(settings | listed)
    mixtral = llama(
        architectures=["MixtralForCausalLM"], model_type="mixtral", num_local_experts=4,
        quantization_config=settings,
    )  # fmt: skip
    assert formats(card_of(mixtral))["block_sparse_moe.gate"] == "16bit"


@pytest.mark.parametrize(
    "settings",
    [
        AWQ | {"modules_to_not_convert": ["layers.1.mlp.experts"]},
        GPTQ | {"dynamic": {r"-:.*1\.mlp\.experts.*": {}}},
        # One listed expert keeps the experts of its layer.
        FP8 | {"ignored_layers": [layer_path(1, "mlp.experts.3.down_proj")]},
        compressed(ignore=(r"re:.*layers\.1\.mlp\.experts.*",)),
        MODELOPT | {"exclude_modules": ["model.layers.1.mlp.experts*"]},
    ],
)
def test_experts_of_one_layer_left_out(settings: dict[str, Any]) -> None:
    first, second = expert_kinds(settings)
    assert (first != "16bit", second) == (True, "16bit")


def test_mixed_precision_by_its_table() -> None:
    table = {
        **{layer_path(0, f"self_attn.{part}_proj"): {"quant_algo": "FP8"} for part in "qkvo"},
        **{layer_path(1, f"self_attn.{part}_proj"): {"quant_algo": "FP8"} for part in "qkvo"},
        layer_path(0, "mlp.down_proj"): {"quant_algo": "NVFP4"},
        layer_path(0, "mlp.gate_proj"): {"quant_algo": "NVFP4"},
        layer_path(0, "mlp.up_proj"): {"quant_algo": "NVFP4"},
    }  # fmt: skip
    settings = {
        "quant_method": "modelopt",
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": table,
    }
    card = quantized(settings)
    assert card.quantization == "modelopt_mixed"
    assert formats(card, 0) == {
        "self_attn.qkv_proj": "fp8", "self_attn.o_proj": "fp8", "mlp.gate_up_proj": "nvfp4",
        "mlp.down_proj": "nvfp4", "lm_head": "16bit",
    }  # fmt: skip
    assert kept(card, 1) == {"mlp.gate_up_proj", "mlp.down_proj", "lm_head"}
    table[layer_path(1, "mlp.down_proj")] = None  # type: ignore[assignment]
    with pytest.raises(BadConfig, match=r"mlp\.down_proj must be an object"):
        quantized(settings)


def test_without_a_method_vllm_loads_the_checkpoint_unquantized() -> None:
    card = quantized({"bits": 4, "group_size": 128})
    assert (card.quantization, card.weight_bytes) == (None, 2 * card.parameters)
    assert any("quantization_config names no quant_method" in note for note in card.notes)
    assert quantized({}).quantization is None


SIDE = {"producer": {"name": "modelopt", "version": "0.29"}, "quantization": {"quant_algo": "FP8"}}


def test_the_side_file_counts_only_without_a_quantization_config() -> None:
    assert card_of(llama(), side=SIDE).quantization == "modelopt"
    assert card_of(llama(), side=SIDE | {"producer": {"name": "other"}}).quantization is None
    both = card_of(llama(quantization_config=FP8), side=SIDE)
    assert both.quantization == "fp8"
    # Even where the config's own names no method.
    assert card_of(llama(quantization_config={"bits": 8}), side=SIDE).quantization is None


def test_settings_inside_a_text_config_or_under_the_older_name() -> None:
    nested = llama(text_config=llama(quantization_config=FP8))
    assert card_of(nested).quantization == "fp8"
    assert card_of(llama(compression_config=compressed())).quantization == "compressed-tensors"
    # The top level comes first.
    outer = llama(quantization_config=GPTQ, text_config=llama(quantization_config=FP8))
    assert card_of(outer).quantization == "gptq"


@pytest.mark.parametrize(
    ("written", "method"),
    [("AWQ", "awq"), ("Compressed_Tensors", "compressed-tensors"), ("gptq_marlin", "gptq")],
)
def test_spellings_of_methods(written: str, method: str) -> None:
    settings = {"awq": AWQ, "gptq": GPTQ, "compressed-tensors": compressed()}[method]
    assert quantized(settings | {"quant_method": written}).quantization == method


def test_a_method_that_is_not_modelled_leaves_an_estimate() -> None:
    card = quantized({"quant_method": "hqq"}, hidden_size=64, vocab_size=100)
    assert (card.exact, card.quantization) == (False, "hqq")
    assert any("quantization 'hqq' is not modelled" in note for note in card.notes)


@pytest.mark.parametrize(
    ("settings", "dtype"),
    [
        (FP8, None),
        (compressed(), None),
        (compressed() | {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8"),
        (compressed() | {"kv_cache_scheme": None}, None),
        (MODELOPT, None),
        (MODELOPT | {"kv_cache_quant_algo": "FP8"}, "fp8_e4m3"),
        (MODELOPT | {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8_e4m3"),
        (MODELOPT | {"kv_cache_quant_algo": None}, None),
    ],
)
def test_scales_of_the_kv_cache(settings: dict[str, Any], dtype: str | None) -> None:
    assert quantized(settings).kv_cache_dtype == dtype


def test_weight_bytes_of_a_whole_checkpoint() -> None:
    """A tiny Llama in FP8 by channel, hidden size 8, 16 features in its MLP, two layers.

    A layer: q, k, v (8 + 4 + 4 outputs of 8 inputs), o (8 x 8), gate and up (32 x 8), down
    (8 x 16): 128 + 64 + 256 + 128 weights and 16 + 8 + 32 + 8 scales of 4 bytes, two norms of 8
    in 16 bit. Around them the embedding and the head, 80 each, and a norm, in 16 bit.
    """
    layer = 128 + 64 + 256 + 128 + 4 * (16 + 8 + 32 + 8) + 2 * 2 * 8
    assert quantized(compressed()).weight_bytes == 2 * layer + 2 * (80 + 80 + 8)
