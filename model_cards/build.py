"""config.json and what else is known of a checkpoint, to its ModelCard."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from model_cards.architectures import Family, checkpoint_names, find_family
from model_cards.architectures.decoder import Body
from model_cards.architectures.estimate import estimate_body
from model_cards.architectures.from_headers import Packed, headers_body
from model_cards.caches import Attention
from model_cards.card import (
    ANY_LENGTH,
    Fidelity,
    Head,
    ModelCard,
    Origin,
    count_same,
)
from model_cards.config import Config
from model_cards.config_classes import through_class
from model_cards.drafts import draft_method, head_config
from model_cards.dtypes import DTYPE_BYTES
from model_cards.errors import UnmodelledQuantization, UnsupportedModel
from model_cards.facts import Facts
from model_cards.modules import Embedding, Experts, Linear, Module
from model_cards.quantization import quantization_method, quantization_settings, read_scheme
from model_cards.quantization.online import VERIFIED, OnlineScheme, is_online
from model_cards.quantization.scheme import NO_QUANTIZATION, QuantScheme
from model_cards.reconcile import check_body, keeps_head, own_matrices, total_note

# Methods without a module of their own: weight format, and bytes of a weight with its scales.
_USUAL_STORAGE = {
    "mxfp4": ("mxfp4", 0.5 + 1 / 32),
    "modelopt": ("nvfp4", 0.75),
    "bitsandbytes": ("int4", 0.5 + 4 / 64),
    "gguf": ("int4", 0.6),
    "fbgemm_fp8": ("fp8", 1.05),
    "quark": ("mxfp4", 0.55),
    "auto-round": ("int4", 0.56),
}

_PACKED_FLOATS = frozenset({"nvfp4", "mxfp4"})

# Context lengths in the order in which vLLM looks for them; the smallest wins.
_LENGTH_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
_DEFAULT_LENGTH = 2048  # what vLLM assumes for a config that has none of them
# RoPE kinds whose configured length already includes their scaling.
_PRESCALED_ROPE = frozenset({"su", "longrope", "llama3", "yarn", "deepseek_yarn"})


def build_card(model_id: str, config: Config, origin: Origin, facts: Facts) -> ModelCard:
    """The card of a checkpoint.

    Exact where architecture and quantization are modelled, else estimated from totals, and the
    notes say which. Raises `BadConfig`, or `UnsupportedModel` where nothing can be said.
    """
    given = config
    assumed = facts.assumed
    notes = [assumed] if assumed else []
    says_length = config.complete or any(config.text.names(key) for key in _LENGTH_KEYS)
    says_tied = any(part.boolean("tie_word_embeddings", False) for part in (config, config.text))
    config = through_class(config)
    method = facts.draft_method or draft_method(config)
    if method is not None:
        config = head_config(config, method)
    text = config.text
    family = find_family(config)
    scheme: QuantScheme | None
    try:
        scheme = read_scheme(config, facts.side_file, checkpoint_names(family))
        if facts.online is not None and not scheme.method:
            scheme = OnlineScheme(facts.online)
            if facts.online not in VERIFIED:
                assumed = f"the layout of {facts.online} after loading was not verified"
                notes.append(assumed)
    except UnmodelledQuantization as error:
        scheme = None
        notes.append(f"weights estimated: {error}")
    settings = quantization_settings(config, facts.side_file)
    if settings is not None and quantization_method(settings) is None:
        notes.append("quantization_config names no quant_method; vLLM loads it unquantized")

    exact = family is not None and scheme is not None
    if family is not None and scheme is not None:
        body = family.build(config, scheme)
    else:
        body = _estimated(config, facts, scheme, family)
    class_ties = body.lm_head is None
    counts = exact or facts.inventory is None  # else the files told already
    if scheme is not None and counts and _has_own_head(body, says_tied, facts):
        head = Embedding("lm_head", body.embedding.rows, body.embedding.width)
        body = replace(body, lm_head=replace(head, format=scheme.head("lm_head")))
    if body.drafts and facts.parameters is not None:
        counted = facts.parameters == _count(body) or facts.parameters == _count_packed(body)
        if counted and facts.inventory is None:  # the total leaves no room for them
            body = replace(body, drafts=())

    dtype = config.dtype or text.dtype
    if dtype is None and facts.inventory is not None:
        dtype = facts.inventory.dtype
    if dtype is None or dtype not in ("bfloat16", "float16", "float32"):
        dtype = "bfloat16"
        notes.append("the config names no dtype; bfloat16 assumed")
    if exact and method is None and facts.inventory is not None:
        body = check_body(body, facts.inventory, class_ties=class_ties)
        differs = total_note(body, facts.inventory, DTYPE_BYTES[dtype])
        if differs is not None:
            exact = False
            body = replace(body, notes=(*body.notes, differs))
    notes += body.notes
    attends = any(isinstance(c, Attention) for layer in body.layers for c in layer.caches)
    limit, default = _lengths(config, attends=attends)
    if not says_length and attends:
        notes.append("the copy of this config gives no context length; the default stands in")
    return ModelCard(
        model_id=model_id,
        architecture=config.architectures[0] if config.architectures else config.model_type,
        model_type=config.model_type,
        origin=origin,
        fidelity=Fidelity.EXACT if exact and not assumed else Fidelity.ESTIMATED,
        notes=tuple(notes),
        dtype=dtype,
        hidden_size=text.integer("hidden_size"),
        vocab_size=text.integer("vocab_size"),
        max_model_len=limit,
        default_max_model_len=default,
        quantization=_method_name(settings, scheme),
        kv_cache_dtype=scheme.kv_cache_dtype if scheme is not None else None,
        embedding=body.embedding,
        layers=body.layers,
        final=body.final,
        lm_head=body.lm_head,
        rotary=body.rotary,
        buffers_bytes=body.buffers_bytes,
        embedding_on_every_stage=body.embedding_on_every_stage,
        output_on_every_stage=body.output_on_every_stage,
        max_intermediate_size=body.max_intermediate_size,
        experts_per_token=body.experts_per_token,
        beside=body.beside,
        batch_elements=body.batch_elements,
        residual_streams=body.residual_streams,
        towers=body.towers,
        multimodal_prefix=body.multimodal_prefix,
        largest_item_tokens=body.largest_item_tokens,
        deepstack_levels=body.deepstack_levels,
        residual_block=body.residual_block,
        drafts=body.drafts,
        unreadable=body.unreadable,
        stage_starts=body.stage_starts,
        passed_bytes=body.passed_bytes,
        embedding_for_drafts=body.embedding_for_drafts,
        head=_head(method, body, facts) if method is not None else None,
        checkpoint_bytes=facts.checkpoint_bytes,
        license=facts.license,
        built_from=(given, facts),
    )


@lru_cache(maxsize=64)
def quantized_online(card: ModelCard, method: str) -> ModelCard:
    """The card of a 16-bit checkpoint as `--quantization METHOD` makes it.

    The card itself where that names nothing to do: a checkpoint that is quantized already, or a
    method that only describes checkpoints.
    """
    if card.quantization is not None or card.built_from is None or not is_online(method):
        return card
    config, facts = card.built_from
    return build_card(card.model_id, config, card.origin, replace(facts, online=method))


def _head(method: str, body: Body, facts: Facts) -> Head:
    """Which vocabulary matrices a head has, by its files, else its total, else its method.

    A vocabulary of its own needs an output head of its own.
    """
    embedding, lm_head = body.embedding, body.lm_head
    own_vocabulary = lm_head is not None and lm_head.rows != embedding.rows
    if facts.inventory is not None:
        own_embedding, own_lm_head = own_matrices(facts.inventory)
        return Head(method, own_embedding, own_lm_head or own_vocabulary)
    parameters = facts.parameters
    if parameters is None:
        return Head(method, own_embedding=False, own_lm_head=own_vocabulary)
    output = lm_head.elements if lm_head is not None else 0
    rest = parameters - (_count(body) - embedding.elements - output)
    own_lm_head = own_vocabulary or (output > 0 and rest >= embedding.elements + output)
    if own_lm_head:
        rest -= output
    return Head(method, own_embedding=rest >= embedding.elements, own_lm_head=own_lm_head)


def _has_own_head(body: Body, says_tied: bool, facts: Facts) -> bool:
    """Whether the checkpoint has an output head although its model class ties it.

    vLLM looks for one and ties it only if it is a copy of the embedding, which it is taken to be
    where the config itself says that they are tied.
    """
    if body.lm_head is not None:
        return False
    if facts.inventory is not None:
        return keeps_head(facts.inventory, says_tied)
    if says_tied or facts.parameters is None:
        return False
    return facts.parameters == _count(body) + body.embedding.elements


def _method_name(settings: Config | None, scheme: QuantScheme | None) -> str | None:
    if scheme is not None:
        return scheme.method or None
    return quantization_method(settings) if settings is not None else None


def _estimated(
    config: Config, facts: Facts, scheme: QuantScheme | None, family: Family | None
) -> Body:
    """A stand-in for what is not modelled, from the files' headers or else from totals."""
    kind, per_weight = _storage(config, facts, scheme)
    name = ", ".join(config.architectures) or "an unnamed architecture"
    if facts.inventory is not None:
        caches = None
        if family is not None:  # only the quantization is not modelled
            caches = [layer.caches for layer in family.build(config, NO_QUANTIZATION).layers]
        packed = Packed(kind, per_weight)
        body = headers_body(config, facts.inventory, scheme, packed, caches)
        if body is not None:
            note = (
                f"{name} is not modelled; the tensors of its files are split over ranks by name"
                if family is None
                else "the tensors of its files are split over ranks by name"
            )
            return replace(body, notes=(note, *body.notes))
    parameters, stored = facts.parameters, facts.checkpoint_bytes
    if parameters is None and family is not None:
        parameters = _count(family.build(config, NO_QUANTIZATION))  # as if it were not quantized
    if parameters is None and stored is None:
        raise UnsupportedModel(
            f"{config.where}: {', '.join(config.architectures) or 'its architecture'} is not "
            "modelled and its size is not known; a folder with its safetensors files, or access "
            "to the Hub, would give it"
        )
    if parameters is None:
        assert stored is not None
        parameters = int(stored / per_weight)
    if stored is None:
        vocabulary = config.text.integer("vocab_size") * config.text.integer("hidden_size")
        outside = vocabulary * 2
        stored = int(2 * outside + max(0, parameters - outside) * per_weight)
    body = estimate_body(config, parameters, stored, kind)
    if family is not None:
        return body
    note = f"{name} is not modelled module by module; planned from its totals"
    return replace(body, notes=(note, *body.notes))


def _modules(body: Body) -> Iterator[tuple[Module, int]]:
    """The modules of the served model, with how often each occurs."""
    for layer, count in count_same(body.layers):
        yield from ((module, count) for module in layer.modules)
    for tower in body.towers:
        yield from count_same(tower.modules)
    alone = (body.embedding, *body.final, *body.beside)
    yield from ((module, 1) for module in alone)
    if body.lm_head is not None:
        yield body.lm_head, 1


def _count(body: Body) -> int:
    return sum(count * module.elements for module, count in _modules(body))


def _count_packed(body: Body) -> int:
    """Parameters where two 4-bit floats in a byte count as one, and scales not at all."""

    def elements(module: Module) -> int:
        packed = isinstance(module, (Linear, Experts)) and module.format.kind in _PACKED_FLOATS
        return module.elements // 2 if packed else module.elements

    return sum(count * elements(module) for module, count in _modules(body))


def _storage(config: Config, facts: Facts, scheme: QuantScheme | None) -> tuple[str, float]:
    """Weight format inside the layers, and bytes of one weight with its scales."""
    if scheme is not None:
        size = 4096
        weight_format = scheme.path_format("model.layers.0.mlp.up_proj")
        return weight_format.kind, weight_format.bytes(size, (size,), 2) / size**2
    settings = quantization_settings(config, facts.side_file)
    method = quantization_method(settings) if settings is not None else None
    return _USUAL_STORAGE.get(method or "", ("16bit", 2.0))


def _lengths(config: Config, *, attends: bool) -> tuple[int, int]:
    """Longest accepted context and the default one, as vLLM derives them from the config."""
    text = config.text
    found = [text.integer(key) for key in _LENGTH_KEYS if key in text]
    if not found and not attends:
        return ANY_LENGTH, _DEFAULT_LENGTH
    limit = min(found) if found else _DEFAULT_LENGTH
    if "model_max_length" in text:  # Cohere's, which overrules the others
        limit = text.integer("model_max_length")
    rope = text.rope_parameters
    kind = rope.string("rope_type", rope.string("type", "default"))
    if kind not in _PRESCALED_ROPE and "gemma3" not in config.model_type:
        limit = int(limit * rope.number("factor", 1.0))
        if limit == 0:
            raise rope.fail("factor", "large enough to leave a position")
    if kind in ("longrope", "su"):
        original = rope.integer("original_max_position_embeddings", limit)
        return limit, text.integer("original_max_position_embeddings", original)
    return limit, limit
