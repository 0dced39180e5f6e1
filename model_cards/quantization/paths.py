"""Tables of module paths, as quantization lists name them.

A path may hold ranges for its numbers, as the bundled snapshot folds long lists:
`model.layers.{0-47}.mlp.experts.{0-127}.up_proj`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, Generic, TypeVar

T = TypeVar("T", bound=Hashable)

_PART: Final = re.compile(r"(?:^|(?<=\.))(?:(\d+)|\{(\d+)-(\d+)\})(?=\.|$)")  # number or range
_NUMBER: Final = re.compile(r"(?<=\.)\d+(?=\.)")
_AMBIGUOUS: Final = re.compile(r"\.\d+(?:$|[^.\d])|\d\*")

Numbers = tuple[tuple[int, int], ...]  # the first and last value of every number of a path


class PathTable(Generic[T]):
    """Values of module paths; of several entries for a path the first one counts."""

    def __init__(self, entries: Iterable[tuple[str, T]]) -> None:
        self._entries: dict[str, list[tuple[Numbers, T]]] = {}
        self._below: dict[str, list[tuple[Numbers, T]]] = {}
        # What the first number of an entry spans; entries that differ in it alone are one kind.
        self._layers: list[tuple[int, int, int]] = []
        kinds: dict[tuple[str, Numbers, T], int] = {}
        for path, value in entries:
            shape, numbers = _taken_apart(path)
            self._entries.setdefault(shape, []).append((numbers, value))
            if numbers:
                kind = kinds.setdefault((shape, numbers[1:], value), len(kinds))
                self._layers.append((*numbers[0], kind))
            parent = shape.rpartition(".")[0]
            while parent:
                held = self._below.setdefault(parent, [])
                held.append((numbers[: parent.count("#")], value))
                parent = parent.rpartition(".")[0]

    def get(self, path: str) -> T | None:
        """The value of exactly this path."""
        return _find(self._entries, path)

    def below(self, path: str) -> T | None:
        """The value of the first entry for anything inside this module."""
        return _find(self._below, path)

    def layer_key(self, path: str) -> Hashable:
        """What tells the layer at `path` from others: the kinds of entries that name its number."""
        index = int(path.rpartition(".")[2])
        return frozenset(kind for first, last, kind in self._layers if first <= index <= last)


def _taken_apart(path: str) -> tuple[str, Numbers]:
    """`a.{0-3}.b.7.c` as `a.#.b.#.c` and ((0, 3), (7, 7))."""
    numbers = [(int(one or first), int(one or last)) for one, first, last in _PART.findall(path)]
    return _PART.sub("#", path) if numbers else path, tuple(numbers)


def _find(table: dict[str, list[tuple[Numbers, T]]], path: str) -> T | None:
    shape, numbers = _taken_apart(path)
    for spans, value in table.get(shape, ()):
        if all(low <= n <= high for (n, _), (low, high) in zip(numbers, spans, strict=True)):
            return value
    return None


def layer_keys(patterns: Sequence[str]) -> Callable[[str], Hashable]:
    """What tells the layer at a path from others by such a list of patterns.

    Layers with equal keys are named alike. A pattern that may match several numbers (a regular
    expression, a number at its end) tells every layer apart.
    """
    named: dict[int, list[str]] = {}
    beginnings: list[str] = []
    for pattern in patterns:
        if pattern.startswith("re:"):
            if any(map(str.isdigit, pattern)):
                beginnings.append("")
        elif (match := _NUMBER.search(pattern)) is not None:
            template = f"{pattern[: match.start()]}#{pattern[match.end() :]}"
            named.setdefault(int(match.group()), []).append(template)
        elif _AMBIGUOUS.search(pattern):
            # With a wildcard it is a whole path, whose beginning says where; else any part of one.
            beginnings.append(pattern.partition("*")[0] if "*" in pattern else "")
    frozen = {index: frozenset(templates) for index, templates in named.items()}

    def key(path: str) -> Hashable:
        if any(path.startswith(each) or each.startswith(path) for each in beginnings):
            return path
        return frozen.get(int(path.rpartition(".")[2]))

    return key
