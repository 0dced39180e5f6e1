"""Tables that are laid out without Rich look as Rich's own."""

from __future__ import annotations

import random
from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from planner.cli.columns import plain_lines

TEXTS = ("", "a", "abcdef", "abcdefghijklmnop", "x" * 25, "1,234", "-", "two words")


def of_rich(table: Table, width: int) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, highlight=False, markup=False, emoji=False).print(table)
    return out.getvalue().splitlines()


def made(rng: random.Random) -> Table:
    gap = rng.choice((1, 2, 3))
    heading = rng.random() < 0.8
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), show_header=heading)
    count = rng.randrange(1, 6)
    for _ in range(count):
        table.add_column(
            rng.choice(("", "model", "a heading")), justify=rng.choice(("left", "right")),
            max_width=rng.choice((None, None, 12)), overflow="fold",
        )  # fmt: skip
    for _ in range(rng.randrange(1, 6)):
        table.add_row(*rng.choices(TEXTS, k=count))
    return table


def test_as_rich_lays_them_out() -> None:
    rng = random.Random(1)
    compared = 0
    for _ in range(600):
        table, width = made(rng), rng.choice((40, 80, 120))
        lines = plain_lines(table, width)
        if lines is not None:
            compared += 1
            assert lines == of_rich(table, width)
    assert compared > 300


@pytest.mark.parametrize(
    ("table", "column", "row"),
    [({"box": None, "pad_edge": True}, {}, ["a"]), ({"title": "t"}, {}, ["a"]),
     ({"expand": True}, {}, ["a"]), ({"padding": (1, 2, 0, 0)}, {}, ["a"]),
     ({"row_styles": ["bold"]}, {}, ["a"]), ({}, {"style": "bold"}, ["a"]),
     ({}, {"width": 9}, ["a"]), ({}, {"min_width": 9}, ["a"]), ({}, {"ratio": 1}, ["a"]),
     ({}, {"justify": "center"}, ["a"]), ({}, {"max_width": 3}, ["two words"]),
     ({}, {"max_width": 3, "no_wrap": True}, ["abcdef"]), ({}, {}, ["x" * 41]),
     ({}, {}, ["größe"]), ({}, {}, [" a"]), ({}, {}, ["a\nb"]), ({}, {}, [Table()])],
)  # fmt: skip
def test_what_only_rich_lays_out(
    table: dict[str, Any], column: dict[str, Any], row: list[Any]
) -> None:
    usual: dict[str, Any] = {"box": None, "pad_edge": False, "padding": (0, 2, 0, 0)}
    asked = Table(**usual | table)
    asked.add_column("h", **column)
    asked.add_row(*row)
    assert plain_lines(asked, 40) is None
    plain = Table(**usual)
    plain.add_column("h")
    plain.add_row("a")
    assert plain_lines(plain, 40) == ["h", "a"]
