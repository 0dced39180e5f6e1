"""How fast it will be, or why that is not known."""

from __future__ import annotations

from textual.content import Content

from planner.cli.format import rate_band, seconds_band
from planner.speed.serving import SpeedEstimate
from planner.tui.outcome import Outcome
from planner.tui.show import DIM, plain
from planner.tui.widgets.panel import Panel


class SpeedCard(Panel):
    """Rates and times with their bands."""

    BORDER_TITLE = "Speed"

    def draw(self, outcome: Outcome, width: int) -> None:
        """Show the estimate."""
        speed = outcome.speed
        self.entitle("Speed" if speed is None else f"Speed, {speed.per_user.basis.label}")
        if speed is None:
            self.update(Content.assemble((plain(outcome.no_speed), DIM)))
            return
        lines = _rates(speed, outcome.alone)
        lines.append(("", f"bound by {speed.bound_by}"))
        lines += [("", plain(note)) for note in speed.notes]
        self.update(
            Content("\n").join(
                Content.assemble((a, "bold"), (f" {b}" if a else b, DIM)) for a, b in lines
            )
        )


def _rates(speed: SpeedEstimate, alone: SpeedEstimate | None) -> list[tuple[str, str]]:
    """Numbers and what they are; `alone`: the same of a single request, where several are asked."""
    if alone is None:
        rates = [(speed.per_user, "tok/s")]
    else:
        many = f"tok/s, {speed.workload.concurrency:,} at once"
        rates = [(speed.total, many), (speed.per_user, "tok/s for each of them")]
    lines = [(rate_band(rate), what) for rate, what in rates]
    if speed.ttft_loaded is not None:
        lines.append((seconds_band(speed.ttft_loaded), "to first token"))
    if alone is not None:
        lines.append((rate_band(alone.per_user), "tok/s, one alone"))
        if alone.ttft is not None:
            lines.append((seconds_band(alone.ttft), "one alone"))
    return lines
