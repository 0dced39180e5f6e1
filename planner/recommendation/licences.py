"""Licences that a recommended model may have."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from planner.errors import PlanError

# Approved by the Open Source Initiative, as the Hub names them.
_OPEN: Final = ("apache-2.0", "apache-license-2.0", "mit", "bsd-3-clause", "bsd-2-clause", "isc")


class Licences(Struct, frozen=True):
    """The names that are allowed, in lower case; none: any licence, also an unknown one."""

    names: tuple[str, ...] = ()

    @classmethod
    def named(cls, text: str) -> Licences:
        """From a list with commas, in the Hub's names; `open` stands for Apache, MIT and BSD."""
        words = [word.strip().lower() for word in text.split(",")]
        if not all(words):
            raise PlanError("--licence takes names as the Hub writes them: apache-2.0,mit or open")
        names = [name for word in words for name in (_OPEN if word == "open" else (word,))]
        return cls(tuple(dict.fromkeys(names)))

    def allow(self, licence: str | None) -> bool:
        """Whether a model of that licence may be recommended."""
        return not self.names or (licence is not None and licence.lower() in self.names)


ANY_LICENCE: Final = Licences()
