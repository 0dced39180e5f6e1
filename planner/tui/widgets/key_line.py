"""The keys of a screen in its last line, each of which can be clicked."""

from __future__ import annotations

from textual.binding import Binding
from textual.content import Content
from textual.style import Style
from textual.widgets import Static

from planner.tui.keys import called, usable


class KeyLine(Static):
    """Unlike a Footer it does not change with what has the focus."""

    DEFAULT_CSS = """
    KeyLine {
        dock: bottom;
        height: 1;
        background: $panel;
        text-wrap: nowrap;
        link-style: none;
        link-color: $foreground;
        link-background: transparent;
        link-style-hover: bold;
        link-color-hover: $foreground;
        link-background-hover: $primary 40%;
    }
    """

    def on_mount(self) -> None:
        """Write the keys."""
        self.rewrite()

    def on_resize(self) -> None:
        """Write as many as there is room for."""
        self.rewrite()

    def rewrite(self) -> None:
        """The screen's keys, the most important first, as far as they fit; those of the app."""
        always = [self._piece(each, "app") for each in usable(self.app)]
        width = self.size.width or self.app.size.width
        room = width - sum(piece.cell_length for piece in always)
        shown: list[Content] = []
        for piece in (self._piece(each, "screen") for each in usable(self.screen)):
            room -= piece.cell_length
            if room < 0:
                break
            shown.append(piece)
        self.update(Content.assemble(*shown, *always), layout=False)  # a line, whatever is in it

    def _piece(self, binding: Binding, where: str) -> Content:
        key = (f" {self.app.get_key_display(binding)}", "bold")
        piece = Content.assemble(key, f" {binding.description} ")
        return piece.stylize(Style.from_meta({"@click": called(binding, where)}))
