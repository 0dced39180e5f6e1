"""GPU names as people and drivers write them, reduced to what can be compared.

A name is compared as a whole, word by word, never by substring: "A100-SXM4" contains "m4",
"RTX A1000" contains "a100", and neither is that card.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

_VENDORS = ("nvidia", "geforce", "tesla", "amd", "instinct", "intel")
# Words that say nothing about the model. "rtx" and "quadro" do: RTX 4000 Ada, RTX A4000, Quadro
# RTX 4000 and RTX PRO 4000 are four cards.
_NOISE = frozenset((*_VENDORS, "gpu", "generation"))
# People leave the series out where the number says it all: "4090", "7900 xtx", "a4000".
_SERIES = ("rtx", "rx")
_SYNONYMS = {
    **dict.fromkeys(("sxm2", "sxm3", "sxm4", "sxm5", "sxm6"), "sxm"),
    **dict.fromkeys(("mobile", "notebook"), "laptop"),
}
# Words that tell apart the variants of one model; a name without them may mean any variant.
_VARIANTS = frozenset(("sxm", "pcie", "nvl", "active", "workstation", "maxq", "server", "edition"))

_TRADEMARKS = re.compile(r"\((?:r|tm)\)|[®™]")
_SEPARATORS = re.compile(r"[^0-9a-z]+")
_SIZE = re.compile(r"([0-9]{1,3})g(?:i?b)?")
_GLUED = re.compile(rf"(?:{'|'.join(_VENDORS)})(.+)|(.+)(?:gpu|generation)")


class Name(Struct, frozen=True):
    """A name taken apart."""

    key: str
    """Everything that identifies, run together; only a gap between two digits is kept."""
    model: str
    """``key`` without the memory size."""
    size_gb: int | None
    """The memory size written in the name."""
    loose: frozenset[str]
    """The words in any order, without the memory size."""

    @property
    def family(self) -> frozenset[str]:
        """The words without those that tell variants apart."""
        return self.loose - _VARIANTS

    @property
    def variant(self) -> frozenset[str]:
        """The words that tell variants apart."""
        return self.loose & _VARIANTS


def parse_name(text: str) -> Name:
    """Take ``text`` apart; total: text without any letter or digit gives an empty name."""
    return _name(_words(text))


def spellings(*names: str) -> list[Name]:
    """The different ways to write known ``names``: in full, and without the series ("rtx")."""
    written: dict[tuple[str, ...], Name] = {}
    for name in names:
        words = tuple(_words(name))
        ways = (words, words[1:]) if len(words) > 1 and words[0] in _SERIES else (words,)
        for way in ways:
            if way not in written:
                written[way] = _name(way)
    return list(written.values())


def run_together(key: str) -> str:
    """``key`` as people write it who leave out every separator: "308012gb"."""
    return key.replace(" ", "")


def _name(words: Sequence[str]) -> Name:
    model, size = [], None
    for word in words:
        if size is None and word[0].isdigit() and (match := _SIZE.fullmatch(word)):
            size = int(match[1])
        else:
            model.append(word)
    key = _join(words)
    return Name(
        key=key,
        model=key if size is None else _join(model),
        size_gb=size,
        loose=frozenset([_SYNONYMS.get(word, word) for word in model]),
    )


def _words(text: str) -> list[str]:
    words: list[str] = []
    for word in _SEPARATORS.split(_TRADEMARKS.sub(" ", text.casefold())):
        previous = words[-1] if words else ""
        if not word or word in _NOISE:
            continue
        while len(word) > 4 and (glued := _GLUED.fullmatch(word)):  # "geforcertx4090", "laptopgpu"
            word = glued[1] or glued[2]
        if word in ("gb", "gib", "g") and previous.isdigit():  # "80 GB"
            words[-1] = previous + "gb"
        elif word == "q" and previous == "max":  # "Max-Q"
            words[-1] = "maxq"
        elif word[0].isdigit() and (size := _SIZE.fullmatch(word)):  # "80g", "80GiB"
            words.append(size[1] + "gb")
        else:
            words.append(word)
    return words


def _join(words: Iterable[str]) -> str:
    joined = ""
    for word in words:
        gap = word[0].isdigit() and joined[-1:].isdigit()
        joined += f" {word}" if gap else word
    return joined
