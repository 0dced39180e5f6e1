"""A part of the screen that is drawn often."""

from __future__ import annotations

from textual.content import Content
from textual.geometry import Size
from textual.reactive import Reactive
from textual.visual import VisualType
from textual.widgets import Static


class Steady(Static):
    """Lays the screen out anew only where its own height changes, which is what takes long."""

    virtual_size = Reactive(Size(0, 0), layout=False)  # once laid out, it needs no second layout

    _measured: tuple[int, int] | None = None  # width and height of what is drawn
    _drawn: Content | None = None
    _title = ""

    def entitle(self, title: str) -> None:
        """Write it into the border, unless it is there."""
        if title != self._title:
            self._title = title
            self.border_title = title

    def update(self, content: VisualType = "", *, layout: bool = True) -> None:
        """Draw, unless that is drawn already."""
        if not isinstance(content, Content):
            super().update(content, layout=layout)
            return
        width = self.content_size.width
        measured = (
            (width, content.get_height(self.styles.get_rules(), width)) if width > 0 else None
        )
        same_place = measured is not None and measured == self._measured
        if same_place and self._drawn is not None and content.is_same(self._drawn):
            return
        self._measured, self._drawn = measured, content
        super().update(content, layout=not same_place)
