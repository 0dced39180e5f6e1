"""Text and tables are laid out as Rich does it, which lays out the same for all the world."""

from __future__ import annotations

import os
import pty
import subprocess
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from program import EXECUTABLE, environment
from rich.console import Console
from rich.table import Table as RichTable

from planner.cli.layout import Column, Table, cells, wrap

# Wide letters, one that combines with what is before it, and what the pages use.
LETTERS = st.sampled_from("ab-/ 12±×…模型\u0301")
WORDS = st.text(LETTERS, max_size=30).map(lambda text: text.lstrip("\u0301"))
GIVEN = st.lists(WORDS, min_size=1, max_size=3).map("\n".join)
# Rich takes an accent for a letter of its own where it breaks words, and drops a blank last line.
HEADINGS = WORDS.map(lambda text: text.replace("\u0301", ""))
FULL = st.lists(HEADINGS.filter(str.strip), min_size=1, max_size=3).map("\n".join)


def by_rich(width: int, what: object) -> list[str]:
    console = Console(
        file=StringIO(), width=width, highlight=False, markup=False, emoji=False, no_color=True
    )
    console.print(what)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().split("\n")[:-1]


@given(GIVEN, st.integers(2, 40))
def test_lines_are_wrapped_at_words(text: str, width: int) -> None:
    """Rich breaks before a combining letter where its base no longer fits; no text is lost."""
    lines = wrap(text, width)
    assert all(cells(line) <= width for line in lines)
    if "\u0301" not in text:
        assert lines == by_rich(width, text)
    assert "".join(lines).split() == "".join(lines).split()
    assert "".join("".join(lines).split()) == "".join(text.split())


@st.composite
def tables(draw: st.DrawFn) -> tuple[Table, RichTable]:
    """One table for both."""
    count, gap = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    headings = draw(st.lists(HEADINGS, min_size=count, max_size=count))
    ours, columns = Table(gap=gap), []
    theirs = RichTable(box=None, pad_edge=False, padding=(0, gap, 0, 0), show_header=any(headings))
    for heading in headings:
        right, at_most = draw(st.booleans()), draw(st.none() | st.integers(6, 20))
        columns.append(Column(heading, right, at_most=at_most))
        theirs.add_column(
            heading, justify="right" if right else "left", max_width=at_most, overflow="fold"
        )
    ours.columns = columns
    first = draw(st.lists(FULL, min_size=count, max_size=count))  # no column is empty
    others = draw(st.lists(st.lists(st.just("") | FULL, min_size=count, max_size=count)))
    for row in (first, *others):
        ours.add(*row)
        theirs.add_row(*row)
    return ours, theirs


@given(tables(), st.integers(32, 80))
def test_tables_are_laid_out_as_rich_does(both: tuple[Table, RichTable], width: int) -> None:
    ours, theirs = both
    lines = ["".join(text for text, _ in line) for line in ours.lines(width)]
    assert lines == by_rich(width, theirs)


def test_what_is_to_stay_whole_is_never_broken() -> None:
    """12 cells for three columns and their gaps: 5 + 1, 2 + 1 and 3."""
    table = Table((Column("GPU", whole=True), "b", "c"), gap=1)
    table.add("h100x", "1234", "123456")
    assert ["".join(text for text, _ in line) for line in table.lines(12)] == [
        "GPU   b  c  ",
        "h100x 12 123",
        "      34 456",
    ]


def test_a_terminal_that_is_far_too_narrow_loses_nothing() -> None:
    table = Table(("a", "b", "c"))
    table.add("123", "456", "789")
    lines = ["".join(text for text, _ in line) for line in table.lines(3)]
    assert "".join("".join(lines).split()) == "abc147258369"


def on_a_terminal(*arguments: str, **changes: str) -> str:
    ours, theirs = pty.openpty()
    with subprocess.Popen([EXECUTABLE, *arguments], stdout=theirs, env=environment(**changes)):
        os.close(theirs)
        said = b""
        try:
            while block := os.read(ours, 65536):
                said += block
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    return said.decode()


@pytest.mark.parametrize(
    ("changes", "bold", "red"),
    [({}, True, True), ({"NO_COLOR": "1"}, True, False), ({"TERM": "dumb"}, False, False)],
    ids=["colours", "none wanted", "none possible"],
)
def test_styles_on_a_terminal(changes: dict[str, str], bold: bool, red: bool) -> None:
    """Headings are bold (1) and the graphs' part of the memory is red (31), as ECMA-48 numbers."""
    said = on_a_terminal(
        "recommend", "--gpu", "4090", "--limit", "1", **{"TERM": "xterm", **changes}
    )
    assert ("\x1b[1m" in said) is bold
    assert ("\x1b[31m" in said) is red
    assert ("\x1b" in said) is (bold or red)
