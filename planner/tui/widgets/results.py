"""What the planner says, in panels; those that need room share it as tabs."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from textual.app import ComposeResult
from textual.containers import Horizontal, ScrollableContainer
from textual.geometry import Size
from textual.message import Message
from textual.reactive import Reactive
from textual.widgets import Tab, Tabs

from planner.findings import Finding
from planner.tui.outcome import Outcome
from planner.tui.widgets.capacity import CapacityPanel
from planner.tui.widgets.command import CommandPanel
from planner.tui.widgets.kv_card import KvCard
from planner.tui.widgets.nothing import Nothing
from planner.tui.widgets.panel import Panel
from planner.tui.widgets.speculation_panel import SpeculationPanel
from planner.tui.widgets.speed_card import SpeedCard
from planner.tui.widgets.speed_panel import SpeedPanel
from planner.tui.widgets.study import Study
from planner.tui.widgets.vram_bar import VramBar
from planner.tui.widgets.why import WhyPanel

_DRAWN: Final = 0.05  # seconds that a panel takes to have drawn itself for its width
_TABS: Final = ("capacity", "speed", "speculation", "command", "why")


class Pair(Horizontal):
    """Two cards side by side."""

    virtual_size = Reactive(Size(0, 0), layout=False, repaint=False)  # as in Steady


class Body(ScrollableContainer, can_focus=False):
    """Knobs and results, which a small screen scrolls together."""

    virtual_size = Reactive(Size(0, 0), layout=False)  # as in Steady


class Results(ScrollableContainer, can_focus=False):
    """The right side of the plan screen."""

    virtual_size = Reactive(Size(0, 0), layout=False, repaint=False)  # as in Steady

    class TabShown(Message):
        """A tab is in sight, which may want an answer now."""

    _seeks = False  # whether a tab was asked for, not only switched to
    _grows = False  # whether what was asked for may still get longer

    def compose(self) -> ComposeResult:
        """The budget, two cards, and the tabs, which a wide screen shows all at once."""
        yield VramBar(classes="card", id="vram")
        with Pair(classes="pair"):
            yield KvCard(classes="card", id="kv-card")
            yield SpeedCard(classes="card", id="speed-card")
        yield Tabs(*(Tab(name.capitalize(), id=name) for name in _TABS), id="tabs")
        with Pair(classes="pair"):
            yield CapacityPanel(classes="card tab", id="tab-capacity")
            yield SpeedPanel(classes="card tab", id="tab-speed")
        with Pair(classes="pair"):
            yield SpeculationPanel(classes="card tab", id="tab-speculation")
            yield CommandPanel(classes="card tab", id="tab-command")
        yield WhyPanel(classes="card tab", id="tab-why")
        yield Nothing(classes="card", id="nothing")

    def show(self, outcome: Outcome) -> None:
        """Show an outcome in every panel."""
        self._grows = False
        for panel in self._panels:
            panel.show(outcome)

    def show_planned(self) -> None:
        """Show the panels of a plan."""
        for part in self.children:
            part.styles.display = None

    def show_refused(self) -> None:
        """Show why vLLM refuses, and the ways on from there."""
        self._show_only("tab-why", "nothing")

    def show_nothing(self) -> None:
        """Show the ways on from where nothing could be planned."""
        self._show_only("nothing")

    def _show_only(self, *names: str) -> None:
        # Not by a class of the screen: every style below it would be looked up again.
        for part in self.children:
            part.display = part.id in names

    @cached_property
    def _panels(self) -> tuple[Panel, ...]:
        return tuple(self.query(Panel))

    def studies(self, outcome: Outcome) -> list[Study[Any]]:
        """Panels that want an answer about an outcome."""
        return [panel for panel in self.query(Study) if panel.wants(outcome)]

    def show_pasted(self, findings: tuple[Finding, ...]) -> None:
        """Show what is wrong with a pasted command."""
        self.query_one(WhyPanel).pasted = findings

    def next_tab(self) -> None:
        """Show the tab after this one."""
        now = _TABS.index(self.query_one(Tabs).active)
        self.reveal(_TABS[(now + 1) % len(_TABS)])

    def reveal(self, name: str) -> None:
        """Show a tab, and bring it into sight."""
        tabs = self.query_one(Tabs)
        self._seeks = self._grows = True
        if tabs.active == name:
            self._show_tab(name)
        tabs.active = name

    def answered(self) -> None:
        """All studies have their answers: what was asked for has its length now."""
        if self._grows:
            self.set_timer(_DRAWN, self._bring_into_sight)

    def watch_virtual_size(self) -> None:
        """What was asked for, or a scrollbar beside it, has got longer."""
        if self._grows:
            self.call_after_refresh(self._bring_into_sight)

    def scroll_pages(self, pages: int) -> None:
        """Scroll by pages."""
        self._grows = False
        for area in self._scrolled():
            area.scroll_relative(y=pages * max(1, area.size.height - 2), animate=False)

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        """Show the tab's panel."""
        self._show_tab(event.tab.id or _TABS[0])

    def _show_tab(self, shown: str) -> None:
        for name in _TABS:
            self.query_one(f"#tab-{name}").set_class(name == shown, "-active")
        if self._seeks:
            self._seeks = False
            self.set_timer(_DRAWN, self._bring_into_sight)
        # A panel that comes back as large as it was is told of no resize.
        self.call_after_refresh(self.query_one(f"#tab-{shown}", Panel).redraw)
        self.call_after_refresh(self.post_message, self.TabShown())

    def _bring_into_sight(self) -> None:
        """Scroll to the tabs; where all panels are shown, to the one that was asked for."""
        tabs = self.query_one(Tabs)
        panel = self.query_one(f"#tab-{tabs.active}", Panel)
        target = tabs if tabs.region.height else panel
        for area in self._scrolled():
            area.scroll_to_widget(target, top=True, animate=False)

    def _scrolled(self) -> list[ScrollableContainer]:
        """What scrolls: this, or all that it is stacked with."""
        around = [each for each in self.ancestors if isinstance(each, ScrollableContainer)]
        return [area for area in (self, *around) if area.max_scroll_y > 0][:1]
