"""Which GPU a model needs: the smallest rigs of the database that serve it."""

from __future__ import annotations

from dataclasses import dataclass

from hardware_db import Gpu, all_gpus, find_rig
from model_cards import ModelCard
from planner.engine.releases import Release
from planner.recommendation.requirements import Requirements
from planner.recommendation.settle import Settled, settle

_COUNTS = (1, 2, 4, 8)
_CATEGORIES = ("desktop", "workstation", "datacenter", "superchip", "soc")


@dataclass(frozen=True, slots=True)
class RigChoice:
    """A rig that serves the model, with its hourly price where one is known."""

    spec: str
    gpu: Gpu
    count: int
    settled: Settled
    usd_per_hour: float | None


def rigs_for(
    card: ModelCard, requirements: Requirements, release: Release, *, limit: int = 10
) -> list[RigChoice]:
    """The fewest GPUs of each kind that serve `card`, cheapest first where prices are known.

    Without a price, by total memory: the smallest rig that does is the nearest answer.
    """
    found = []
    weights = card.weight_bytes
    if card.dtype == "float32":  # served in 16 bits
        weights //= 2
    for gpu in all_gpus():
        total = gpu.memory.total_bytes
        if total is None or gpu.vendor != "nvidia" or gpu.category not in _CATEGORIES:
            continue
        for count in _COUNTS:
            if weights > total * count:
                continue
            if count > 1 and gpu.category in ("superchip", "soc"):
                break
            spec = gpu.slug if count == 1 else f"{count}x{gpu.slug}"
            result = settle(card, find_rig(spec), requirements, release)
            if isinstance(result, Settled) and result.sure:
                price = hourly_price(gpu)
                found.append(
                    RigChoice(spec, gpu, count, result, None if price is None else price * count)
                )
                break
    found.sort(key=_cheapest)
    return found[:limit]


def hourly_price(gpu: Gpu) -> float | None:
    """The lowest known on-demand price of an hour, else the lowest of any kind."""
    hourly = [price for price in gpu.prices if price.per == "hour"]
    on_demand = [price.usd_low for price in hourly if price.kind == "on-demand"]
    every = [price.usd_low for price in hourly]
    return min(on_demand or every, default=None)


def _cheapest(choice: RigChoice) -> tuple[bool, float, int]:
    total = choice.gpu.memory.total_bytes or 0
    price = choice.usd_per_hour
    return price is None, price or 0.0, total * choice.count
