"""What is drawn of a screen at a time: the lines that changed, as far as they are in sight."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.strip import Strip

Chops = Sequence[Mapping[int, Strip | None]]


class LineCompositor(Compositor):
    """Draws what Textual's own does, with less work.

    That one goes through every line of every widget between the first and the last that changed,
    the backgrounds that nothing is seen of among them.
    """

    def render_partial_update(self) -> ChopsUpdate | None:
        """Draw what changed, a scrollbar that the layout changed a moment ago as well."""
        self.update_widgets(set(self.visible_widgets))
        screen, dirty = self.size.region, self._dirty_regions.copy()
        self._dirty_regions.clear()
        spans = [
            (y, x1, x2) for y, x1, x2 in self._regions_to_spans(dirty) if 0 <= y < screen.height
        ]
        if not spans:
            return None
        wanted: dict[int, tuple[int, int]] = {}
        for y, x1, x2 in spans:
            left, right = wanted.get(y, (x1, x2))
            wanted[y] = min(left, x1), max(right, x2)
        return ChopsUpdate(self._chops(wanted), spans, [cuts[1:] for cuts in self.cuts])

    def _render_chops(  # type: ignore[override] # a line may have gaps where nothing changed
        self, crop: Region, is_rendered_line: Callable[[int], bool]
    ) -> Chops:
        lines = {y: crop.column_span for y in crop.line_range if is_rendered_line(y)}
        return self._chops(lines)

    def _chops(self, wanted: Mapping[int, tuple[int, int]]) -> Chops:
        """The pieces that make up each line, by where they begin, from so far to so far."""
        cuts = self.cuts
        chops: list[dict[int, Strip | None]] = [dict.fromkeys(line[:-1]) for line in cuts]
        # Where pieces are still missing: what is in front is drawn first.
        missing = {
            y: {start for start, end in pairwise(cuts[y]) if start < right and end > left}
            for y, (left, right) in wanted.items()
        }
        for widget, (region, clip) in self.visible_widgets.items():
            if not missing:
                break
            shown = region.intersection(clip)
            left, right = shown.column_span
            lines = [
                y
                for y in shown.line_range
                if (starts := missing.get(y)) and any(left <= start < right for start in starts)
            ]
            if not lines:
                continue
            top, bottom = lines[0], lines[-1] + 1
            part = Region(left - region.x, top - region.y, shown.width, bottom - top)
            strips = widget.render_lines(part)
            for y in lines:
                starts, line = missing[y], chops[y]
                here = [cut for cut in cuts[y] if left <= cut <= right]
                pieces = strips[y - top].divide([cut - left for cut in here[1:]])
                for start, piece in zip(here, pieces, strict=False):
                    if start in starts:
                        line[start] = piece
                        starts.discard(start)
                if not starts:
                    del missing[y]
        return chops
