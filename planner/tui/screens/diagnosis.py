"""A log of vLLM: how far the launch got, where the memory went, what failed and why."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from planner.cli.format import count, gib, seconds, short_band, times_band
from planner.launch.explain import WHOLE, explain, said
from planner.launch.facts import LaunchFacts, Milestone
from planner.launch.fixes import logged_words
from planner.launch.shares import Shares, shares
from planner.tui.background import in_background
from planner.tui.budget import LOOKS
from planner.tui.dropped import OpenedLog
from planner.tui.library import Library
from planner.tui.screens.help import Help
from planner.tui.second_look import SecondLook, second_look
from planner.tui.show import DIM, columns, plain
from planner.tui.widgets.key_line import KeyLine
from planner.tui.widgets.verdict import paint
from planner.tui.widgets.verified import terms_table

_LAST_LINES: Final = 40
_LOUD: Final = {"ERROR": "$text-error", "WARNING": "$text-warning", "Error: ": "$text-error"}


class DiagnosisScreen(Screen[LaunchFacts | None]):
    """Gives back the launch that is to be opened as a plan, or None."""

    KEYS: ClassVar[Help] = {
        "Diagnosis": {
            "enter": "open the launch as a plan",
            "← →": "another start, where the log holds several",
            "pgup pgdn": "scroll",
            "escape": "back",
        }
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "back", tooltip="Back to the plan"),
        Binding("enter", "open", "open as a plan", tooltip="Open the launch as a plan"),
        Binding("left", "turn(-1)", "start before", tooltip="The start before"),
        Binding("right", "turn(1)", "next start", tooltip="The next start"),
        Binding("pagedown", "scroll_by(1)", "scroll", show=False),
        Binding("pageup", "scroll_by(-1)", "scroll back", show=False),
    ]

    def __init__(self, log: OpenedLog, gpu: str, library: Library) -> None:
        super().__init__()
        self._log = log
        self._gpu, self._library = gpu, library
        self._at = len(log.launches) - 1

    def compose(self) -> ComposeResult:
        """Title, verdict, and a card for each thing that the log tells of."""
        yield Static(id="title")
        yield Static(id="verdict")
        with VerticalScroll(id="log"):
            yield Static(id="log-failure", classes="card")
            yield Static(id="log-fixes", classes="card")
            yield Static(id="log-memory", classes="card")
            with Horizontal(classes="pair"):
                yield Static(id="log-course", classes="card")
                yield Static(id="log-served", classes="card")
            yield Static(id="log-terms", classes="card")
            yield Static(id="log-command", classes="card")
            yield Static(id="log-end", classes="card")
        yield KeyLine()

    def on_mount(self) -> None:
        """Show the last launch."""
        for card, title in (
            ("failure", "What vLLM says, and what would change it"),
            ("course", "Course, in seconds from its start"),
            ("served", "Cache and speed"),
            ("command", "What was launched, as far as the log tells it"),
            ("end", "The last lines"),
        ):
            self.query_one(f"#log-{card}").border_title = title
        self._show()

    def on_resize(self) -> None:
        """Draw for the new width."""
        self.call_after_refresh(self._show_memory)

    @property
    def _facts(self) -> LaunchFacts:
        return self._log.launches[self._at]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """One start has none beside it."""
        return action != "turn" or len(self._log.launches) > 1

    def action_turn(self, by: int) -> None:
        """Another start in the same log."""
        at = self._at + by
        if 0 <= at < len(self._log.launches):
            self._at = at
            self._show()

    def action_open(self) -> None:
        """Open it as a plan."""
        if self._facts.model is None:
            self.notify("The log does not say which model it was", severity="warning")
        else:
            self.dismiss(self._facts)

    def action_scroll_by(self, pages: int) -> None:
        """Scroll by pages."""
        body = self.query_one("#log")
        body.scroll_relative(y=pages * max(1, body.size.height - 2), animate=False)

    def _show(self) -> None:
        facts = self._facts
        starts = len(self._log.launches)
        which = f", start {self._at + 1} of {starts} (← →)" if starts > 1 else ""
        ranks = facts.tensor_parallel_size
        split = f", tensor parallel {ranks}" if ranks and ranks > 1 else ""
        self.query_one("#title", Static).update(
            Content.assemble(
                (" vplan ", "bold reverse $primary"),
                (f" Log {plain(self._log.name)}", "bold"),
                f": {plain(facts.model or 'model not said')}{split}, "
                f"vLLM {plain(facts.release or '(release not said)')}",
                (which, DIM),
            )
        )
        self._show_verdict(facts)
        self._show_card("failure", _failure(facts))
        self._show_card("course", _course(facts))
        self._show_card("served", _served(facts))
        self._show_card("command", _command(facts))
        self._show_card("end", _end(self._log.ends[self._at]))
        self._show_card("fixes", iter(()))
        self._show_card("terms", iter(()))
        self._look_again(facts)
        self.call_after_refresh(self._show_memory)

    def _show_verdict(self, facts: LaunchFacts) -> None:
        line = self.query_one("#verdict", Static)
        if facts.failure is not None:
            sign, words, style, says = (
                "✘",
                "failed",
                "$text-error",
                explain(facts.failure, facts).meaning,
            )
        elif facts.is_ready:
            sign, words, style, says = "✔", "served", "$text-success", _held(facts)
        else:
            reached = facts.reached.label if facts.reached is not None else "nothing"
            sign, words, style = "▲", "not ready", "$text-warning"
            says = f"the log ends before the server is ready; the last it reached: {reached}"
        paint(line, {"✘": "no", "✔": "yes", "▲": "risky"}[sign])
        line.update(Content.assemble((f"{sign} {words}  ", f"bold {style}"), plain(says)))

    @work(exclusive=True, group="look")
    async def _look_again(self, facts: LaunchFacts) -> None:
        """Ask the planner what it makes of the launch."""
        gpu, library = self._gpu, self._library
        look = await in_background(lambda: second_look(facts, gpu, library))
        if not self.is_attached:
            return
        where = plain(look.rig)
        self._show_card("fixes", _fixes(look, failed=facts.failure is not None))
        self._show_card("terms", iter([terms_table(look.terms)] if look.terms else []))
        self.query_one("#log-fixes").border_title = f"What would start on {where}"
        self.query_one("#log-terms").border_title = f"The plan for {where}, and what was measured"

    def _show_card(self, name: str, lines: Iterator[Content]) -> None:
        card = self.query_one(f"#log-{name}", Static)
        content = list(lines)
        card.display = bool(content)
        card.update(Content("\n").join(content))

    def _show_memory(self) -> None:
        card = self.query_one("#log-memory", Static)
        found = shares(self._facts)
        card.display = found is not None
        if found is None:
            return
        where = f" of {found.rank}" if found.rank and len(self._facts.ranks) > 1 else ""
        known = "" if found.total_known else " that the log tells of"
        card.border_title = f"Memory{where}: {gib(found.total)} GiB{known}"
        width = card.content_size.width or self.size.width - 6
        card.update(Content("\n").join([_bar(found, width), _legend(found)]))


def _bar(found: Shares, width: int) -> Content:
    """Two rows of the parts, each with its letter at its beginning."""
    pieces: list[tuple[str, str]] = []
    letters = found.bar(width)
    for index, letter in enumerate(letters):
        pattern, style = LOOKS[letter]
        begins = index == 0 or letters[index - 1] != letter
        pieces.append((letter if begins else pattern, style))
    bar = Content.assemble(*pieces)
    return Content("\n").join([bar, bar])


def _legend(found: Shares) -> Content:
    rows = []
    for part in found.parts:
        pattern, style = LOOKS[part.letter]
        rows.append(
            (
                (f"{part.letter}{pattern}", f"bold {style}"),
                (part.name, ""),
                (f"{gib(part.size)} GiB", "bold"),
            )
        )
    return columns(rows, right=(2,))


def _failure(facts: LaunchFacts) -> Iterator[Content]:
    if facts.failure is None:
        return
    yield Content(plain(said(facts.failure, WHOLE)))
    for change in explain(facts.failure, facts).changes:
        yield Content.assemble(("try: ", "bold"), plain(change))


def _fixes(look: SecondLook, *, failed: bool) -> Iterator[Content]:
    """Changes that were tried through the planner, or why none could be."""
    if look.why_not and failed:
        yield Content.assemble((f"nothing could be tried: {plain(look.why_not)}", DIM))
    if look.fixes is None:
        return
    if not look.fixes.remedies:
        yield Content("no change of its settings, by the plan that the log corrects")
        return
    heading = "a change of these", "KV tokens", "requests at once"
    rows = [tuple((text, DIM) for text in heading)]
    for remedy in look.fixes.remedies:
        tokens, held = remedy.memory.kv_tokens, remedy.memory.max_concurrency
        rows.append(
            ((plain(remedy.change), "bold"), (short_band(tokens), ""), (times_band(held), ""))
        )
    yield columns(rows)


def _command(facts: LaunchFacts) -> Iterator[Content]:
    if facts.model is not None:
        yield Content(plain(shlex.join(logged_words(facts))))
    told = [
        f"{name} {value}"
        for name, value in (("vLLM", facts.release), ("on", facts.device),
                            ("attention:", facts.attention_backend))
        if value is not None
    ]  # fmt: skip
    if told:
        yield Content.assemble((plain(", ".join(told)), DIM))


def _end(lines: Sequence[str]) -> Iterator[Content]:
    """The last of them last."""
    for line in lines[-_LAST_LINES:]:
        style = next((style for word, style in _LOUD.items() if word in line), "")
        yield Content.assemble((plain(line), style))


def _course(facts: LaunchFacts) -> Iterator[Content]:
    if facts.reached is None:
        return
    rows = [
        (("✔", "$text-success"), (milestone.label, ""), (_time(time), "bold"))
        for milestone, time in facts.milestones
    ]
    if facts.failure is not None:
        rows.append((("✘", "$text-error"), ("failed", ""), ("", "")))
    if not facts.is_ready:
        rows += [
            (("·", DIM), (each.label, DIM), ("", ""))
            for each in Milestone
            if facts.reached < each < Milestone.STOPPED
        ]
    yield columns(rows, right=(2,))
    told = [f"{name} {seconds(time)}" for name, time in facts.times.told.items()]
    if told:
        yield Content.assemble((f"of which: {', '.join(told)}", DIM))


def _time(time: float | None) -> str:
    return "" if time is None else f"{time:.0f} s"


def _held(facts: LaunchFacts) -> str:
    """What the cache holds, in a few words."""
    parts = []
    if facts.kv_tokens is not None:
        parts.append(f"{count(facts.kv_tokens)} tokens of KV cache")
    if facts.max_concurrency is not None and facts.max_model_len is not None:
        length = count(facts.max_model_len)
        parts.append(f"{facts.max_concurrency:g} requests of {length} tokens at once")
    return "; ".join(parts)


def _served(facts: LaunchFacts) -> Iterator[Content]:
    served = facts.served
    rows: list[tuple[tuple[str, str], ...]] = []

    def add(name: str, value: str | None) -> None:
        if value is not None:
            rows.append(((name, ""), (plain(value), "bold")))

    add("KV cache", None if facts.kv_tokens is None else f"{count(facts.kv_tokens)} tokens")
    add("blocks", None if facts.blocks is None else count(facts.blocks))
    if facts.max_concurrency is not None and facts.max_model_len is not None:
        length = count(facts.max_model_len)
        add("at once", f"{facts.max_concurrency:g} requests of {length} tokens")
    add("attention", facts.attention_backend)
    if served.lines:
        add("generated, at most", f"{served.generation_rate:g} tok/s")
        add("prompts, at most", f"{served.prompt_rate:g} tok/s")
        waiting = f", {served.waiting} waiting" if served.waiting else ""
        add("at the same time", f"{served.running} requests running{waiting}")
    add(
        "cache in use, at most", None if served.cache_usage is None else f"{served.cache_usage:g} %"
    )
    if served.acceptance_length is not None:
        add("acceptance length", f"{served.acceptance_length:g}")
    if rows:
        yield columns(rows)
    if served.preemptions:
        yield Content.assemble(
            (
                f"▲ {count(served.preemptions)} preemptions: the KV cache was full. Fewer requests "
                "at once (--max-num-seqs), or more cache.",
                "$text-warning",
            )
        )
