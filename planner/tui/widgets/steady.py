"""A part of the screen that is drawn often."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from msgspec import Struct
from rich.segment import Segment
from textual.color import Color
from textual.content import Content, Span
from textual.filter import LineFilter
from textual.geometry import Region, Size, Spacing
from textual.reactive import Reactive
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, VisualType
from textual.widgets import Static

_Line = tuple[str, tuple[Span, ...]]  # a line of text and its styles


class Row(Struct, eq=False):
    """A row of cells, where it begins in its line of the text, and it between its borders."""

    strip: Strip
    start: int
    framed: Strip | None = None  # once that was needed


class Frame(Struct, frozen=True):
    """What is around rows, as Textual draws it."""

    made_for: tuple[object, ...]
    background: Color
    empty: Strip  # a row without text
    edges: dict[int, Strip]  # lines of border and padding, those below counted from the end

    def around(self, row: Row, gutter: Spacing, filters: Sequence[LineFilter]) -> Strip:
        """A row between its borders; drawn once."""
        if row.framed is None:
            strip = row.strip
            for each in filters:
                strip = strip.apply_filter(each, self.background)
            before = self.empty.crop(0, gutter.left)
            after = self.empty.crop(gutter.left + strip.cell_length, self.empty.cell_length)
            row.framed = Strip.join([before, strip, after])
        return row.framed


class Steady(Static):
    """Draws the rows that changed, and lays the screen out anew only where its own height changes.

    `Static` does both for all of it, which is what takes long. There are no links in it.
    """

    virtual_size = Reactive(Size(0, 0), layout=False, repaint=False)  # its layout is done by then
    auto_links = Reactive(False)

    _content = Content("")
    _title = ""
    _look: tuple[int, Style] | None = None  # width and style that the rows were drawn for
    _frame: Frame | None = None
    _frames = False  # whether one is being drawn

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._lines: list[list[Row]] = []  # the rows of each line
        self._rows: list[Row] = []
        self._known: dict[_Line, list[Row]] = {}

    def entitle(self, title: str) -> None:
        """Write it into the border, unless it is there."""
        if title != self._title:
            self._title = title
            self.border_title = title

    def update(self, content: VisualType = "", *, layout: bool = True) -> None:
        """Draw what is not drawn already."""
        assert isinstance(content, Content)
        before, look = self._rows, self._look
        self._content = content
        width, height = self.content_size
        if width <= 0:
            self._look = None
            self.refresh(layout=layout)
            return
        self._draw(width, anew=True)
        now = self._rows
        if self._look != look or len(now) != len(before):
            has_room = len(before) < height >= len(now)  # it is higher than what is in it
            self.refresh(layout=layout and len(now) != len(before) and not has_room)
            return
        pairs = enumerate(zip(before, now, strict=True))
        changed = [Region(0, y, width, 1) for y, (one, other) in pairs if one is not other]
        if changed:
            self.refresh(*changed)

    def render(self) -> Content:
        """What is shown."""
        return self._content

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many rows as it takes."""
        if width <= 0:
            return 0
        self._draw(width)
        return len(self._rows)

    def notify_style_update(self) -> None:
        """Draw all anew."""
        self._look = None
        super().notify_style_update()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Rows between their borders."""
        if self.text_selection is not None:
            return super().render_lines(crop)
        (width, height), gutter = self.size, self.gutter
        self._draw(width)
        frame, rows, filters = self._framed(), self._rows, self.get_line_filters()
        lines = []
        for y in crop.line_range:
            place = y - gutter.top
            if not 0 <= place < height:
                edge = y if place < 0 else y - self.outer_size.height
                lines.append(frame.edges.get(edge) or frame.edges.setdefault(edge, self._bare(y)))
            elif place < len(rows):
                lines.append(frame.around(rows[place], gutter, filters))
            else:
                lines.append(frame.empty)
        if crop.column_span != (0, self.outer_size.width):
            lines = [line.crop(*crop.column_span) for line in lines]
        return lines

    def render_line(self, y: int) -> Strip:
        """A row, with where in the text it is: the mouse asks for that."""
        if self.text_selection is not None:
            return super().render_line(y)
        if self._frames or y >= len(self._rows):
            return Strip.blank(self.size.width, self.visual_style.rich_style)
        ends = accumulate(map(len, self._lines))
        line = next(number for number, end in enumerate(ends) if y < end)
        row = self._rows[y]
        return row.strip.apply_offsets(row.start, line)

    def _bare(self, y: int) -> Strip:
        """A line without text: border, padding, or room that is left."""
        self._frames = True
        try:
            return super().render_lines(Region(0, y, self.outer_size.width, 1))[0]
        finally:
            self._frames = False

    def _framed(self) -> Frame:
        """The frame that is right now."""
        made_for = self._look, self.border_title
        if self._frame is None or self._frame.made_for != made_for:
            empty = self._bare(self.gutter.top)
            self._frame = Frame(made_for, self.background_colors[1], empty, {})
        return self._frame

    def _draw(self, width: int, *, anew: bool = False) -> None:
        """Draw the rows, but for those of lines that are there already."""
        look = width, self.visual_style
        if look != self._look:
            self._known.clear()
            self._look, self._frame = look, None
        elif not anew:
            return
        known: dict[_Line, list[Row]] = {}
        self._lines = []
        for line in _lines(self._content):
            rows = known[line] = self._known.get(line) or self._rows_of(line, *look)
            self._lines.append(rows)
        self._known = known
        self._rows = [row for rows in self._lines for row in rows]

    def _rows_of(self, words: _Line, width: int, style: Style) -> list[Row]:
        """The rows of a line, as `Content` draws them."""
        line = Content(words[0], list(words[1]), strip_control_codes=False)
        if line.cell_length <= width and "\t" not in line.plain:
            pieces = line.render(style, end="", parse_style=self._get_style)
            segments = [Segment(text, (style + own).rich_style) for text, own in pieces]
            return [Row(Strip(segments, line.cell_length), 0)]
        options = RenderOptions(self._get_style, self.styles.get_rules(), None, None)
        strips = line.render_strips(width, None, style, options)
        return [Row(strip, _start(strip)) for strip in strips]


def _lines(content: Content) -> list[_Line]:
    """The lines of a text, as `Content.split` has them."""
    texts = content.plain.split("\n")
    starts = [0, *accumulate(len(text) + 1 for text in texts)]
    spans: list[list[Span]] = [[] for _ in texts]
    for start, end, style in content.spans:
        line = bisect_right(starts, start) - 1
        while line < len(texts) and starts[line] < end:
            first, last = max(0, start - starts[line]), min(end - starts[line], len(texts[line]))
            if first < last:
                spans[line].append(Span(first, last, style))
            line += 1
    return [(text, tuple(each)) for text, each in zip(texts, spans, strict=True)]


def _start(strip: Strip) -> int:
    """Where in its line it begins."""
    for segment in strip:
        if segment.style is not None and "offset" in segment.style.meta:
            return int(segment.style.meta["offset"][0])
    return 0
