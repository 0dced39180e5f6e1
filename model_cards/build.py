"""config.json and what else is known of a checkpoint, to its ModelCard."""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from model_cards.architectures import Family, checkpoint_names, find_family
from model_cards.architectures.decoder import Body, bidirectional
from model_cards.caches import Attention
from model_cards.card import Fidelity, ModelCard, Origin
from model_cards.config import Config
from model_cards.config_classes import through_class
from model_cards.context_length import context_lengths, names_length
from model_cards.counting import count_packed, count_parameters
from model_cards.drafts import draft_method, head_config
from model_cards.dtypes import DTYPE_BYTES
from model_cards.errors import UnmodelledQuantization
from model_cards.facts import Facts
from model_cards.modules import NO_HEAD, Embedding
from model_cards.output_head import drafting_head, has_own_head
from model_cards.pooling import (
    GENERATES,
    NOT_POOLED,
    Pooling,
    base_names,
    is_causal,
    read_pooling,
    without_head,
)
from model_cards.quantization import quantization_method, quantization_settings, read_scheme
from model_cards.quantization.online import VERIFIED, OnlineScheme, is_online
from model_cards.quantization.scheme import QuantScheme
from model_cards.reconcile import check_body, total_note
from model_cards.stand_in import stand_in

# Model classes that heed `is_causal`.
_BIDIRECTIONAL = frozenset(
    {
        "Gemma3TextModel",
        "LlamaForCausalLM",
        "MistralForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen3ForCausalLM",
    }
)


def build_card(model_id: str, config: Config, origin: Origin, facts: Facts) -> ModelCard:
    """The card of a checkpoint.

    Exact where architecture and quantization are modelled, else estimated from totals, and the
    notes say which. Raises `BadConfig`, or `UnsupportedModel` where nothing can be said.
    """
    given, config = config, through_class(config)
    method = facts.draft_method or draft_method(config)
    if method is not None:
        config = head_config(config, method)
    family, text = find_family(config), config.text
    scheme, notes = _scheme(config, facts, family)
    modelled = family is not None and scheme is not None
    if family is not None and scheme is not None:
        body = family.build(config, scheme)
    else:
        body = stand_in(config, facts, scheme, family)
    pooling = NOT_POOLED
    if method is None:  # classes of draft models have names like those of pooled ones
        pooling = read_pooling(config, body.pooling, facts.pooling)
        body = _as_pooled(body, config, facts, pooling)
    dtype, dtype_notes = _dtype(config, facts, pooling)
    built = body
    if modelled or facts.inventory is None:  # else the files have told already
        body = _with_own_head(body, given, facts, scheme)
        body = _without_absent_drafts(body, facts)
    differs = None
    # Classes that only pool leave out some of what their files hold.
    checked = method is None and body.pooling == GENERATES
    if modelled and checked and facts.inventory is not None:
        body = check_body(body, facts.inventory, class_ties=built.lm_head is None)
        differs = total_note(body, facts.inventory, DTYPE_BYTES[dtype])
    unsure = (facts.assumed, _unverified(facts, scheme), differs)
    attends = any(isinstance(c, Attention) for layer in body.layers for c in layer.caches)
    limit, default = context_lengths(config, attends=attends, pooling=pooling, files=facts.pooling)
    if attends and not given.complete and not names_length(given):
        notes.append("the copy of this config gives no context length; the default stands in")
    if (facts.generation.max_new_tokens or default) < default:
        notes.append(str(facts.generation.note()))
    settings = quantization_settings(config, facts.side_file)
    return ModelCard(
        model_id=model_id,
        architecture=config.architectures[0] if config.architectures else config.model_type,
        model_type=config.model_type,
        origin=origin,
        fidelity=Fidelity.EXACT if modelled and not any(unsure) else Fidelity.ESTIMATED,
        notes=tuple(filter(None, (*unsure, *notes, *dtype_notes, *body.notes))),
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
        pooling=pooling,
        embedding_for_drafts=body.embedding_for_drafts,
        head=drafting_head(method, body, facts) if method is not None else None,
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


def _as_pooled(body: Body, config: Config, facts: Facts, pooling: Pooling) -> Body:
    """The network without the head that such checkpoints lack, and attending both ways if so."""
    architecture = config.architectures[0] if config.architectures else ""
    files = facts.inventory
    lacks = pooling.pools and files is not None and not files.names_a_head
    if body.lm_head is not None and (lacks or without_head(architecture)):
        body = replace(body, lm_head=NO_HEAD)
    heeds = not _BIDIRECTIONAL.isdisjoint((architecture, *base_names(architecture)))
    if heeds and not is_causal(config):
        body = replace(body, layers=bidirectional(body.layers))
    return body


def _scheme(
    config: Config, facts: Facts, family: Family | None
) -> tuple[QuantScheme | None, list[str]]:
    """How the weights are stored, None if that is not modelled; and notes."""
    settings, notes = quantization_settings(config, facts.side_file), []
    if settings is not None and quantization_method(settings) is None:
        notes.append("quantization_config names no quant_method; vLLM loads it unquantized")
    try:
        scheme = read_scheme(config, facts.side_file, checkpoint_names(family))
    except UnmodelledQuantization as error:
        return None, [*notes, f"weights estimated: {error}"]
    if facts.online is not None and not scheme.method:
        scheme = OnlineScheme(facts.online)
    return scheme, notes


def _unverified(facts: Facts, scheme: QuantScheme | None) -> str | None:
    if not isinstance(scheme, OnlineScheme) or facts.online in VERIFIED:
        return None
    return f"the layout of {facts.online} after loading was not verified"


def _dtype(config: Config, facts: Facts, pooling: Pooling) -> tuple[str, list[str]]:
    """The checkpoint's dtype, and that it was assumed: what vLLM makes of fp32 without one."""
    dtype = config.dtype or config.text.dtype
    if dtype is None and facts.inventory is not None:
        dtype = facts.inventory.dtype
    if dtype in ("bfloat16", "float16", "float32"):
        return dtype, []
    assumed = "float32" if pooling.pools else "bfloat16"
    return assumed, [f"the config names no dtype; {assumed} assumed"]


def _with_own_head(body: Body, given: Config, facts: Facts, scheme: QuantScheme | None) -> Body:
    """With an output head, where the checkpoint has one although its model class ties it."""
    tied = any(part.boolean("tie_word_embeddings", False) for part in (given, given.text))
    if scheme is None or not has_own_head(body, tied, facts):
        return body
    head = Embedding("lm_head", body.embedding.rows, body.embedding.width)
    return replace(body, lm_head=replace(head, format=scheme.head("lm_head")))


def _without_absent_drafts(body: Body, facts: Facts) -> Body:
    """Without drafting layers that the checkpoint's total leaves no room for."""
    if not body.drafts or facts.inventory is not None:
        return body
    served = (count_parameters(body), count_packed(body))
    return replace(body, drafts=()) if facts.parameters in served else body


def _method_name(settings: Config | None, scheme: QuantScheme | None) -> str | None:
    if scheme is not None:
        return scheme.method or None
    return quantization_method(settings) if settings is not None else None
