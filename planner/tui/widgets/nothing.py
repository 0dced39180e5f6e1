"""What is shown where nothing could be planned."""

from __future__ import annotations

from typing import Final

from textual.widgets import Static

from planner.tui.show import columns

_WAYS: Final = (
    ("m", "another model: type to search; a folder, or any id of the Hub"),
    ("g", "other hardware"),
    ("↑ ↓ ← →", "go to another knob, and turn it"),
    ("u", "undo: back to what was there before"),
    ("r", "every model worth running on this hardware"),
    ("p", "paste a vllm serve command"),
    ("ctrl+o", "open a plan, or a log of vLLM"),
)


class Nothing(Static):
    """The ways from there."""

    BORDER_TITLE = "Nothing is planned; what you can do"

    def on_resize(self) -> None:
        """Draw for the width there is."""
        rows = [((key, "bold"), (what, "")) for key, what in _WAYS]
        self.update(columns(rows, width=self.content_size.width))
