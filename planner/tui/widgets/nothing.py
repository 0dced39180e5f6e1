"""What is shown where nothing could be planned, or nothing yet."""

from __future__ import annotations

from typing import Final

from textual.widgets import Static

from planner.tui.show import columns, plain

_WAYS: Final = (
    ("m", "another model: type to search; a folder, or any id of the Hub"),
    ("g", "other hardware"),
    ("↑ ↓ ← →", "go to another knob, and turn it"),
    ("u", "undo: back to what was there before"),
    ("r", "every model worth running on this hardware"),
    ("p", "paste a vllm serve command"),
    ("ctrl+o", "open a plan, or a log of vLLM"),
)


_OPENING: Final = (
    ("asked", "the Hub, for the model's config and the headers of its files"),
    ("not fetched", "weights; and no code of the repository is run"),
    ("escape", "stop, and back to what was there"),
    ("m  g  u", "another model, other hardware, undo: the knobs work meanwhile"),
)


class Nothing(Static):
    """The ways from there; while a model is opened what that means."""

    BORDER_TITLE = "Nothing is planned; what you can do"

    _opening = ""

    def show(self, opening: str = "") -> None:
        """Show the ways, or that a model is being opened."""
        self._opening = opening
        self.border_title = f"Opening {plain(opening)}" if opening else self.BORDER_TITLE
        self.on_resize()

    def on_resize(self) -> None:
        """Draw for the width there is."""
        ways = _OPENING if self._opening else _WAYS
        rows = [((key, "bold"), (what, "")) for key, what in ways]
        self.update(columns(rows, width=self.content_size.width))
