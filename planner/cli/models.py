"""`vplan models`: the bundled catalogue, and what one checkpoint holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import typer

from model_cards import ModelCard, open_card
from model_cards.caches import Attention, AttentionKind
from model_cards.card import ANY_LENGTH
from model_cards.errors import CardError
from model_cards.sources.bundled import entries, open_bundled
from planner.cli.console import print_json, say, show
from planner.cli.format import gib, short_count

_FULL: Final = "32bit"


def models(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A Hub id or a folder to show; part of a name to list; all if left out."
        ),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the Hub.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the bundled models, or show what a checkpoint holds."""
    if name is not None:
        listed = [i for i in _ids(drafts=True) if name.lower() in i.lower()]
        exact = any(i.lower() == name.lower() for i in listed)
        if exact or not listed or "/" in name:
            card = open_card(name, offline=offline)
            if as_json:
                _print_json([card])
            else:
                _show(card)
            return
    else:
        listed = _ids()
    cards = list(_bundled(listed))
    if as_json:
        _print_json(cards)
    else:
        _list(cards)
        if name is None:
            heads = len(_ids(drafts=True)) - len(listed)
            say(f"Not listed: {heads} drafts for speculative decoding; part of a name finds them.")


def _ids(*, drafts: bool = False) -> list[str]:
    return [entry.model_id for entry in entries() if drafts or entry.kind != "draft"]


def _bundled(ids: list[str]) -> Iterator[ModelCard]:
    """Cards of the bundled models, as far as a card can be made of what is bundled."""
    for model_id in ids:
        try:
            card = open_bundled(model_id)
        except CardError:
            continue
        if card is not None:
            yield card


def _print_json(cards: list[ModelCard]) -> None:
    from planner.report import ModelReport, ModelsReport

    print_json(ModelsReport(models=[ModelReport.of(card) for card in cards]))


def _list(cards: list[ModelCard]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("model", max_width=46)
    table.add_column("params", justify="right")
    table.add_column("format")
    table.add_column("GiB", justify="right")
    table.add_column("")
    for card in cards:
        table.add_row(
            card.model_id,
            short_count(card.parameters),
            _stored_as(card),
            gib(card.weight_bytes),
            "" if card.exact else "~",
        )
    show(table)
    say(
        f"\n{len(cards)} models. ~ estimated: its architecture or layout is not modelled module by "
        "module. vplan models NAME shows one."
    )


def _show(card: ModelCard) -> None:
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column()
    table.add_row("model", card.model_id)
    table.add_row("architecture", card.architecture)
    active = f", {short_count(card.active_parameters)} of them active" if card.is_moe else ""
    table.add_row("parameters", f"{card.parameters:,}{active}")
    table.add_row(
        "weights", f"{gib(card.weight_bytes)} GiB as {_stored_as(card)} ({card.fidelity.value})"
    )
    if _stored_as(card) == _FULL:
        table.add_row("", "vLLM serves them in bfloat16, half of that")
    if card.checkpoint_bytes is not None:
        table.add_row("checkpoint", f"{gib(card.checkpoint_bytes)} GiB on disk")
    table.add_row("layers", _layers(card))
    unlimited = card.max_model_len == ANY_LENGTH
    table.add_row("context", "unlimited" if unlimited else f"{card.max_model_len:,} tokens")
    table.add_row("vocabulary", f"{card.vocab_size:,}{', tied embeddings' if card.tied else ''}")
    if card.license:
        table.add_row("licence", card.license)
    table.add_row("described by", f"{card.origin.kind}: {card.origin.detail}")
    if card.origin.reconstructed:
        table.add_row("", "config put together from published facts")
    for note in card.notes:
        table.add_row("note", note)
    show(table)


def _stored_as(card: ModelCard) -> str:
    """The format of the checkpoint: what is called 16 bit may be stored in twice as many."""
    full = card.dtype == "float32" and card.format_kind == "16bit"
    return _FULL if full else card.format_kind


def _layers(card: ModelCard) -> str:
    counts: dict[str, int] = {}
    for cache in (cache for layer in card.layers for cache in layer.caches):
        key = cache.kind.value
        if isinstance(cache, Attention):
            heads = f"{cache.num_kv_heads} KV heads of {cache.head_size}"
            if cache.kind is AttentionKind.ENCODER_ONLY:
                heads = "nothing cached"
            if cache.kind in (AttentionKind.MLA, AttentionKind.SLIDING_MLA):
                heads = f"a latent vector of {cache.head_size}"
            if cache.compression > 1:
                heads += f" for every {cache.compression} tokens"
            window = f" over {cache.window} tokens" if cache.window else ""
            key = f"{key}{window}, {heads}"
        counts[key] = counts.get(key, 0) + 1
    described = "; ".join(f"{number} x {key}" for key, number in counts.items())
    return f"{card.num_layers}: {described}" if described else str(card.num_layers)
