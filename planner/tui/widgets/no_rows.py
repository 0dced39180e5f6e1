"""What stands in place of a ranking: how far it is, or what came closest where nothing works."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from textual.content import Content
from textual.widgets import Static

from planner.cli.format import short_count
from planner.recommendation.rank import Recommendation
from planner.tui.show import DIM, columns, plain

_NARROWEST: Final = 8  # columns of a bar
_WAYS: Final = (
    ("/", "other filters: a shorter context, any licence, a slower pace"),
    ("u", "another use case"),
    ("escape", "back to the plan, for other hardware or fewer requests at once"),
)


class NoRows(Static):
    """In sight while there are no rows."""

    BORDER_TITLE = "Ranking"

    _shown: tuple[int, int] | Recommendation | str = ""

    def show(self, what: tuple[int, int] | Recommendation | str) -> None:
        """Show how many models of how many are done, a ranking without rows, or what is wrong."""
        self._shown = what
        self.on_resize()

    def on_resize(self) -> None:
        """Draw for the room there is."""
        size = self.content_size
        if not size.width:
            return
        match self._shown:
            case (int(done), int(models)):
                self.border_title = "Ranking"
                ends = Content.assemble((" escape ", "bold reverse"), " stops it")
                self.update(Content("\n").join([progress(done, models, size.width), ends]))
            case Recommendation() as found:
                self.border_title = "No known model does as asked"
                self.update(Content("\n").join(_closest(found, size.width, size.height)))
            case text:
                self.border_title = "Nothing was ranked"
                wrong = Content.assemble(("✘ ", "$text-error"), plain(str(text)))
                self.update(Content("\n").join([wrong, Content(""), _ways()]))


def progress(done: int, models: int, width: int) -> Content:
    """A bar, and the fraction in figures."""
    text = f" {done:,} of {models:,} models" if models else " beginning"
    room = max(_NARROWEST, width - len(text) - 1)
    full = round(room * done / models) if models else 0
    bar = ("━" * full, "$primary"), ("╌" * (room - full), DIM)
    return Content.assemble(*bar, (text, "bold"))


def _ways() -> Content:
    return columns([((key, "bold"), (what, "")) for key, what in _WAYS])


def _closest(found: Recommendation, width: int, height: int) -> Iterator[Content]:
    """What can be done, and why each of the smallest does not work."""
    yield _ways()
    room = max(1, height - len(_WAYS) - 2)
    rows = [
        (
            (plain(miss.model_id.rpartition("/")[2]), "bold"),
            (short_count(miss.parameters), ""),
            (plain(miss.reason), DIM),
        )
        for miss in sorted(found.misses, key=lambda each: (each.parameters, each.model_id))[:room]
    ]
    if rows:
        many = f"{len(found.misses):,} models were looked at; of these the smallest:"
        yield Content.assemble(("\n" + many, "bold"))
        yield columns(rows, right=(1,))
