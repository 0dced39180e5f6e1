"""The keys of a screen in its last line, each of which can be clicked."""

from __future__ import annotations

from textual.content import Content
from textual.style import Style
from textual.widgets import Static


class KeyLine(Static):
    """Written once: unlike a Footer it does not change with what has the focus."""

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
        """Write the keys of the screen and of the app."""
        pieces: list[Content] = []
        for node, binding, *_ in self.screen.active_bindings.values():
            if not binding.show or binding.system:
                continue
            name = binding.action.partition("(")[0]
            where = "app" if node is self.app else "screen"
            action = binding.action if "." in name else f"{where}.{binding.action}"
            key = Content.assemble(
                (f" {self.app.get_key_display(binding)}", "bold"),
                f" {binding.description} ",
            )
            pieces.append(key.stylize(Style.from_meta({"@click": action})))
        self.update(Content.assemble(*pieces))
