"""How far predictions of speed may be off: bands by model kind, load and hardware.

From what predictions missed by on measurements of sources that their constants had not seen
(data/constants.json, written by tools/fit_speed.py).
"""

from __future__ import annotations

from math import exp, hypot, log
from typing import Final

from msgspec import Struct

from planner.engine.device import Platform
from planner.memory.plan import MemoryPlan
from planner.quantity import Basis, Quantity
from planner.speed.constants import speed_data
from planner.speed.hardware import slowest

_FEW: Final = 8  # requests at once, up to which the time to the first token is hardly a queue


class Band(Struct, frozen=True):
    """Measured time over predicted time: between these in nine of ten cases."""

    low: float
    high: float
    basis: Basis

    def widened(self, gain: Quantity) -> Band:
        """With what is not known of a gain in speed, independent of the rest."""
        if gain.low == gain.high:
            return self
        faster = hypot(log(self.low), log(gain.high / gain.value))
        slower = hypot(log(self.high), log(gain.value / gain.low))
        return Band(exp(-faster), exp(slower), max(self.basis, gain.basis))

    def around(self, seconds: float, least: float, source: str) -> Quantity:
        """A predicted time with its band, no part of which is below `least`."""
        low = max(seconds * self.low, least)
        return Quantity(max(seconds, low), low, max(seconds * self.high, low), self.basis, source)


def load_class(running: float) -> str:
    """The loads that are judged together."""
    if running <= 1.5:
        return "1"
    return "2-16" if running <= 16 else "17+"


def time_band(memory: MemoryPlan, running: float) -> Band:
    """The band of a time between tokens with so many requests on a replica."""
    bands = speed_data()["bands"]
    kind = "moe" if memory.card.is_moe else "dense"
    low, high = (float(bands[f"{kind} {load_class(running)}"][end]) for end in ("low", "high"))
    listed = _listed(memory)
    widened = [] if listed else [_device_group(memory)]
    if not memory.config.cudagraph_sizes and memory.device.platform is not Platform.CPU:
        widened.append("eager")
    if any(rank.parts.offloaded for rank in memory.ranks):
        widened.append("offloaded")
    if memory.card.is_moe and memory.config.given.data_parallel_size > 1:
        widened.append("shared experts")
    for group in widened:
        low, high = min(low, bands[group]["low"]), max(high, bands[group]["high"])
    exact = listed and not widened and memory.card.exact
    return Band(low, high, Basis.CALIBRATED if exact else Basis.ESTIMATED)


def first_token_band(memory: MemoryPlan, running: float) -> Band:
    """The band of the time to the first token; under load it is mostly a queue."""
    group = speed_data()["bands"]["first token few" if running <= _FEW else "first token loaded"]
    low, high = float(group["low"]), float(group["high"])
    if not _listed(memory):
        other = speed_data()["bands"][_device_group(memory)]
        low, high = min(low, other["low"]), max(high, other["high"])
    return Band(low, high, Basis.ESTIMATED)


def _listed(memory: MemoryPlan) -> bool:
    """Whether the card is of a generation that measurements were made on."""
    gpu = slowest(memory.rig).gpu
    listed = [tuple(each) for each in speed_data()["listed_capabilities"]]
    on_cuda = memory.device.platform is Platform.CUDA and gpu.vendor == "nvidia"
    return on_cuda and gpu.compute_capability in listed


def _device_group(memory: MemoryPlan) -> str:
    return "rocm" if memory.device.platform is Platform.ROCM else "unlisted device"
