"""`vplan models`: the known models, and what one checkpoint holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

import typer

from model_cards import ModelCard, open_card
from model_cards.caches import Attention, AttentionKind
from model_cards.card import ANY_LENGTH
from model_cards.errors import CardError
from model_cards.selection import SORTS, USES, ModelSelection
from model_cards.sources import user_catalogue
from model_cards.sources.bundled import entries, find_entry, open_bundled
from model_cards.sources.local import looks_like_path
from planner.cli.console import fail, print_json, say, say_verbatim, show
from planner.cli.format import gib, short_count
from planner.cli.options import AsJson, Offline
from planner.errors import PlanError

_FULL: Final = "32bit"
_NAME_WIDTH: Final = 46  # cells of a listing; four of five names are shorter


def models(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A Hub id, ID@REVISION or a folder to show; part of a name to list; all if "
            "left out."
        ),
    ] = None,
    architecture: Annotated[
        str | None, typer.Option("--architecture", "-a", help="Part of its class or model_type.")
    ] = None,
    weight_format: Annotated[
        str | None, typer.Option("--format", "-f", help='Of the weights: "fp8", "int4", "awq".')
    ] = None,
    min_params: Annotated[str | None, typer.Option(help='At least so many: "7B".')] = None,
    max_params: Annotated[str | None, typer.Option(help='At most so many: "32B".')] = None,
    license: Annotated[
        str | None, typer.Option("--license", "-l", help='Part of its licence: "apache".')
    ] = None,
    use: Annotated[
        str | None, typer.Option("--use", "-u", help=f"What it is for: {', '.join(USES)}.")
    ] = None,
    sort: Annotated[str, typer.Option(help=f"By {', '.join(SORTS)}.")] = "name",
    revision: Annotated[
        str | None, typer.Option(help="A branch, tag or commit of the model to show.")
    ] = None,
    offline: Offline = False,
    as_json: AsJson = False,
) -> None:
    """List the known models, or show what a checkpoint holds.

    vplan models search TEXT asks the Hub too; vplan models add MODEL keeps one in your own
    catalogue, and vplan models update reads those anew (each has its --help).
    """
    selection = ModelSelection.of(
        architecture=architecture,
        weight_format=weight_format,
        min_parameters=min_params,
        max_parameters=max_params,
        license=license,
        use=use,
        sort=sort,
    )
    chosen = selection != ModelSelection()
    if name is None and revision is not None:
        raise PlanError("--revision is about the model to show: vplan models NAME --revision ...")
    names_one = name is not None and ("/" in name or looks_like_path(name))
    if name is not None and (revision is not None or (names_one and not chosen)):
        _show(open_card(name, revision=revision, offline=offline), as_json)
        return
    kept = _kept()
    ids = {i.lower(): i for i in (*_ids(), *kept)}
    if name is not None:
        listed = [i for i in ids.values() if name.lower() in i.lower()]
        if not chosen and (name.lower() in ids or not listed):
            _show(open_card(name, offline=offline), as_json)
            return
    else:
        heads = use == "draft"
        listed = [i for i in ids.values() if i in kept or heads or not _drafts(i)]
    names = {id(card): name for name, card in kept.items()}
    cards = selection.select(_cards(listed, kept))
    if as_json:
        _print_json(cards)
    else:
        _list(cards, names)
        hidden = len(ids) - len(listed)
        if name is None and hidden and not chosen:
            say(f"Not listed: {hidden} drafts for speculative decoding; part of a name finds them.")


def _ids() -> list[str]:
    return [entry.model_id for entry in entries()]


def _cards(names: list[str], kept: Mapping[str, ModelCard]) -> Iterator[ModelCard]:
    """Cards of known models, as far as a card can be made of what is bundled."""
    for name in names:
        try:
            card = kept[name] if name in kept else open_bundled(name)
        except CardError:
            continue
        if card is not None:
            yield card


def _drafts(model_id: str) -> bool:
    entry = find_entry(model_id)
    return entry is not None and entry.kind == "draft"


def _kept() -> dict[str, ModelCard]:
    """Cards of the user's own catalogue by name; what is broken is told on stderr."""
    found = {}
    for member in user_catalogue.members():
        if isinstance(member, user_catalogue.SetAside):
            fail(str(member))
        else:
            found[member.name] = member.card()
    return found


def _print_json(cards: list[ModelCard]) -> None:
    from planner.report.models import ModelReport, ModelsReport

    print_json(ModelsReport(models=[ModelReport.of(card) for card in cards]))


def _list(cards: list[ModelCard], names: Mapping[int, str]) -> None:
    """A line a card; `names` are those of the user's own, by the card's identity.

    Not by Rich's tables, which take a second for so many cells; no text here has wide letters.
    """
    say_verbatim(_line("model", "params", "format", "GiB", ""), style="bold")
    lines = [
        _line(
            names.get(id(card), card.model_id),
            short_count(card.parameters),
            _stored_as(card),
            gib(card.weight_bytes),
            ("" if card.exact else "~") + ("+" if id(card) in names else ""),
        )
        for card in cards
    ]
    say_verbatim("\n".join(lines))
    own = " + in your own catalogue." if names else ""
    say(
        f"\n{len(cards)} models. ~ estimated: its architecture or layout is not modelled module by "
        f"module.{own} vplan models NAME shows one."
    )


def _line(model: str, parameters: str, stored: str, size: str, mark: str) -> str:
    if len(model) > _NAME_WIDTH:  # on a line of its own
        model = f"{model}\n{'':{_NAME_WIDTH}}"
    return f"{model:{_NAME_WIDTH}}  {parameters:>6}  {stored:8}  {size:>7}  {mark}".rstrip()


def _show(card: ModelCard, as_json: bool) -> None:
    if as_json:
        _print_json([card])
        return
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
