"""Lossless shorthand for long lists of module paths.

Quantization lists name the same modules of every layer: `model.layers.{0-47}.mlp.gate` stands for
48 of them. Used only in the bundled snapshot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_NUMBER = re.compile(r"(?<=\.)(?:0|[1-9]\d*)(?=\.)")  # leading zeros would be lost
RANGE = re.compile(r"\{(\d+)-(\d+)\}")


def fold(paths: Iterable[str]) -> list[str]:
    """Shorthand of a set of paths (sorted; the order of such lists has no meaning)."""
    current = sorted(set(paths))
    # Fold one number at a time, last one first: experts inside layers, then layers.
    for position in (2, 1, 0):
        templates: dict[tuple[str, str], list[int]] = {}
        rest: list[str] = []
        for path in current:
            numbers = list(_NUMBER.finditer(path))
            if len(numbers) <= position:
                rest.append(path)
                continue
            match = numbers[position]
            key = (path[: match.start()], path[match.end() :])
            templates.setdefault(key, []).append(int(match.group()))
        for (before, after), values in templates.items():
            for first, last in _runs(sorted(values)):
                number = str(first) if first == last else f"{{{first}-{last}}}"
                rest.append(f"{before}{number}{after}")
        current = sorted(rest)
    return current


def unfold(shorthand: Iterable[str]) -> list[str]:
    """The paths that `fold` put together."""
    return [path for item in shorthand for path in _expand(item)]


def _expand(item: str) -> Iterator[str]:
    match = RANGE.search(item)
    if match is None:
        yield item
        return
    for value in range(int(match[1]), int(match[2]) + 1):
        yield from _expand(f"{item[: match.start()]}{value}{item[match.end() :]}")


def _runs(values: list[int]) -> Iterator[tuple[int, int]]:
    start = previous = values[0]
    for value in values[1:]:
        if value != previous + 1:
            yield start, previous
            start = value
        previous = value
    yield start, previous
