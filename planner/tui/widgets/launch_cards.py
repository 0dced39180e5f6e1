"""A validation that is ready: what is run, what happens then, and what the plan says of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static

from planner.cli.format import (
    gib,
    gib_band,
    rate_band,
    seconds_band,
    short_band,
    times_band,
)
from planner.findings import Severity
from planner.launch.facts import Milestone
from planner.launch.preflight import Preflight
from planner.memory.budget import budget
from planner.memory.plan import MemoryPlan
from planner.quantity import Quantity
from planner.speed.serving import SpeedEstimate
from planner.tui.budget import LOOKS, bar, columns_of_a_byte
from planner.tui.prospect import Prospect
from planner.tui.show import DIM, columns, plain
from planner.tui.widgets.steady import Steady

_ROOMY: Final = 62  # columns from which on the plan says where its numbers come from
_LONG: Final = 80  # and from which on the steps name their milestones

Cell = tuple[str, str]


class LaunchCards(Horizontal):
    """Three cards; without a launch, the one on what would have been run."""

    def compose(self) -> ComposeResult:
        """What is run and what happens on the left, the plan on the right."""
        with Vertical(id="before"):
            yield Static(id="launch", classes="card")
            yield StepsCard(id="steps", classes="card")
        yield PlannedCard(id="planned", classes="card")

    def on_mount(self) -> None:
        """The title."""
        self.query_one("#launch").border_title = "What is run"

    def show(self, preflight: Preflight, expected: Prospect) -> None:
        """Show a launch that can begin, or that the plan forbids."""
        self.query_one("#launch", Static).update(_launch(preflight))
        self.query_one(StepsCard).show(preflight, expected)
        self.query_one(PlannedCard).show(preflight.check.memory, expected.speeds)

    def show_command(self, command: str) -> None:
        """Show what cannot be run here, for want of anything that runs it."""
        lines = [Content(plain(line)) for line in command.split("\n")]
        lines.append(
            Content.assemble(
                ("Nothing of it was started. It can be copied (c, on the plan), or deployed.", DIM)
            )
        )
        self.query_one("#launch", Static).update(Content("\n").join(lines))
        self.query_one("#launch").border_title = "What would be run"


class StepsCard(Static):
    """What a validation does, in its order."""

    BORDER_TITLE = "What happens"

    _shown: tuple[Preflight, Prospect] | None = None

    def show(self, preflight: Preflight, expected: Prospect) -> None:
        """Show the steps of a launch."""
        self._shown = preflight, expected
        self.on_resize()

    def on_resize(self) -> None:
        """Draw for the width there is."""
        width = self.content_size.width
        if self._shown is not None and width > 0:
            self.update(_steps(*self._shown, width))


class PlannedCard(Steady):
    """The numbers that the launch is compared with."""

    BORDER_TITLE = "What the plan says, to be compared"

    _memory: MemoryPlan | None = None
    _speeds: tuple[SpeedEstimate, ...] = ()

    def show(self, memory: MemoryPlan | None, speeds: tuple[SpeedEstimate, ...]) -> None:
        """Show a plan."""
        self._memory, self._speeds = memory, speeds
        self.on_resize()

    def on_resize(self) -> None:
        """Draw for the width there is."""
        memory, width = self._memory, self.content_size.width
        self.display = memory is not None
        if memory is None or width <= 0:
            return
        drawn = bar(memory, memory.tightest, columns_of_a_byte(memory, width), width)
        rows = [*_sizes(memory), *_amounts(memory), *_times(self._speeds)]
        if width < _ROOMY:
            rows = [row[:-1] for row in rows]  # without the basis
        self.update(Content("\n").join([drawn, drawn, columns(rows, right=(1,))]))


def _launch(preflight: Preflight) -> Content:
    installation = preflight.installation
    build = ", the build for CPUs" if installation.is_cpu_build else ""
    where = preflight.check.rig.describe()
    lines = [
        Content.assemble((f"vLLM {installation.release}{build}, on {plain(where)}", "bold")),
        Content(plain(preflight.shown())),
        Content.assemble(("on the loopback interface, with a random API key", DIM)),
    ]
    for finding in (*preflight.findings, *preflight.check.findings):
        if finding.severity is Severity.WARNING:
            lines.append(Content.assemble(("▲ ", "$text-warning"), plain(finding.text)))
    return Content("\n").join(lines)


def _steps(preflight: Preflight, expected: Prospect, width: int) -> Content:
    """The steps of a validation, with what each may take."""
    texts = enumerate(_texts(preflight, expected, width >= _LONG), 1)
    return columns([((f"{at}", "bold"), (text, "")) for at, text in texts], width=width)


def _texts(preflight: Preflight, expected: Prospect, roomy: bool) -> Iterator[str]:
    download, load, time = preflight.download, preflight.workload, expected.start
    if download is None:
        yield "the weights are here: nothing is fetched"
    else:
        size = "an unknown size" if download.size is None else f"{gib(download.size)} GiB"
        yield f"the weights are fetched: {size}"
    within = f", ready after some {time.low:.0f} to {time.high:.0f} s" if time else ""
    yield f"the server starts{within}" + (f" (by {time.why})" if time else "")
    if roomy:
        labels = [each.label for each in Milestone if Milestone.STARTED < each < Milestone.STOPPED]
        yield f"milestones on the way, as its log tells them: {', '.join(labels)}"
    many = f", then {load.concurrency:,} at once" if load.concurrency > 1 else ""
    lengths = f"{load.prompt_tokens:,} + {load.output_tokens:,} tokens"
    yield f"it is asked: first requests, then {lengths}, one request at a time{many}"
    yield "it is stopped, and nothing of it is left"
    yield "plan and measurement are shown side by side, and correct the next plans"


def _row(name: str, band: str, basis: str, style: str = "") -> tuple[Cell, ...]:
    number, _, rest = band.partition(" ")
    return (name, style), (number, "bold"), (rest, ""), (basis, DIM)


def _sizes(memory: MemoryPlan) -> Iterator[tuple[Cell, ...]]:
    for part in budget(memory):
        pattern, style = LOOKS[part.letter]
        title = f"{part.letter}{pattern} {part.name}, GiB"
        yield _row(title, gib_band(part.size), part.size.basis.label, style)


def _amounts(memory: MemoryPlan) -> Iterator[tuple[Cell, ...]]:
    if not memory.kv_cache.groups:
        return
    tokens, held = memory.kv_tokens, memory.max_concurrency
    length = memory.config.max_model_len
    yield _row("KV tokens", short_band(tokens), tokens.basis.label)
    yield _row(f"requests of {length:,} tokens", times_band(held), held.basis.label)


def _times(speeds: tuple[SpeedEstimate, ...]) -> Iterator[tuple[Cell, ...]]:
    for speed in speeds:
        at_once = speed.workload.concurrency
        when = "one alone" if at_once == 1 else f"{at_once:,} at once"
        yield _row(f"tok/s, {when}", rate_band(speed.per_user), speed.per_user.basis.label)
        first: Quantity | None = speed.ttft_loaded
        if first is not None:
            yield _row(f"first token, {when}", seconds_band(first), first.basis.label)
