"""The user's own catalogue: descriptions kept by `vplan models add`, in the user's data folder.

A kept model answers to its name without the Hub, until `vplan models update` reads it anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from model_cards.card import ModelCard
from model_cards.errors import CardError, UnknownModel

if TYPE_CHECKING:  # most users keep nothing, and do without
    from model_cards.sources.kept import Kept

_NAME: Final = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?(@[\w.-]+(/[\w.-]+)*)?", re.ASCII)
_BROKEN: Final = ".broken"


class SetAside(CardError):
    """A file of the catalogue that cannot be read any more; it was given another name."""


class Member(Struct, frozen=True):
    """One model of the user's catalogue, by the name it answers to."""

    name: str
    kept: Kept

    def card(self) -> ModelCard:
        """Its card."""
        return self.kept.card("kept")


def folder() -> Path:
    """Where the descriptions are."""
    from platformdirs import user_data_path

    return user_data_path("vplan", appauthor=False) / "models"


def add(name: str, card: ModelCard) -> Member:
    """Keep a card's description under a name, instead of what was kept there before.

    Raises `UnknownModel` for what cannot be a name, `OSError` if it cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise UnknownModel(f"{name} cannot be the name of a kept model; letters, digits, . _ - can")
    from model_cards.sources.kept import Kept, save

    member = Member(name, Kept.of(card))
    save(_file(name), member.kept)
    return member


def find(model_id: str, revision: str | None = None) -> Member | None:
    """The model kept under a name (in any case); None if there is none.

    A revision is looked up as `NAME@REVISION`. Raises `SetAside` for a broken file.
    """
    name = model_id if revision is None else f"{model_id}@{revision}"
    if not _NAME.fullmatch(name):
        return None
    path = _file(name)
    return _read(path) if os.path.isfile(path) else None


def members() -> Iterator[Member | SetAside]:
    """Every kept model by name; what is broken is set aside, and comes as its error."""
    try:
        paths = sorted(path for path in folder().iterdir() if path.suffix == ".json")
    except OSError:  # nothing was kept yet
        return
    for path in paths:
        try:
            yield _read(path)
        except SetAside as error:
            yield error


def _file(name: str) -> Path:
    return folder() / f"{name.lower().replace('/', '--')}.json"


def _read(path: Path) -> Member:
    from model_cards.sources.kept import NewerFormat, load

    try:
        kept = load(path)
        kept.card()  # a description that makes no card is as good as none
    except NewerFormat as error:
        raise SetAside(str(error)) from None
    except CardError as error:
        aside = _free_name(path)
        try:
            os.replace(path, aside)
        except OSError:
            raise SetAside(f"{path} is not used: {error}") from None
        raise SetAside(
            f"{path.name} in {path.parent} is broken ({error}); renamed {aside.name}"
        ) from None
    return Member(_name(path, kept), kept)


def _free_name(path: Path) -> Path:
    """A name for a broken file that no earlier one has."""
    names = (f"{path.name}{_BROKEN}{f'-{n}' if n > 1 else ''}" for n in range(1, 1000))
    return next((a for name in names if not (a := path.with_name(name)).exists()), path)


def _name(path: Path, kept: Kept) -> str:
    """The name as it was written, where the file's lower-case one is the same."""
    written = kept.model_id
    if kept.origin.revision is not None:
        written = f"{written}@{kept.origin.revision}"
    name = path.name.removesuffix(".json")
    return written if _file(written).name == path.name else name
