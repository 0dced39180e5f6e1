"""How fast it will be, or why that is not known."""

from __future__ import annotations

from textual.content import Content

from planner.cli.format import rate_band
from planner.quantity import Quantity
from planner.tui.outcome import Outcome
from planner.tui.show import DIM, plain
from planner.tui.widgets.panel import Panel


class SpeedCard(Panel):
    """Rates and times with their bands."""

    BORDER_TITLE = "Speed"

    def draw(self, outcome: Outcome, width: int) -> None:
        """Show the estimate."""
        speed = outcome.speed
        at_once = outcome.settings.concurrency
        self.entitle("Speed" if speed is None else f"Speed, {speed.per_user.basis.label}")
        if speed is None:
            self.update(Content.assemble((plain(outcome.no_speed), DIM)))
            return
        each = "tok/s" if at_once == 1 else "tok/s a user"
        lines = [(rate_band(speed.per_user), each)]
        if at_once > 1:
            lines.append((rate_band(speed.total), "tok/s together"))
        if speed.ttft is not None:
            band, unit = _time_band(speed.ttft)
            lines.append((band, f"{unit} to first token"))
        lines.append(("", f"bound by {speed.bound_by}"))
        lines += [("", plain(note)) for note in speed.notes]
        self.update(
            Content("\n").join(
                Content.assemble((a, "bold"), (f" {b}" if a else b, DIM)) for a, b in lines
            )
        )


def _time_band(quantity: Quantity) -> tuple[str, str]:
    """A time with its band, and the unit of all three."""
    if quantity.high < 1:
        return rate_band(quantity.times(1000)), "ms"
    return f"{quantity.value:.2f} [{quantity.low:.2f}-{quantity.high:.2f}]", "s"
