"""Which GPU a model needs: the smallest rigs of the database that serve it."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hardware_db import Gpu, all_gpus, find_rig
from model_cards import ModelCard
from planner.engine.releases import Release
from planner.recommendation.quality import NO_LOSS
from planner.recommendation.requirements import PLEASANT_PACE, Requirements
from planner.recommendation.settle import Settled, settle
from planner.recommendation.variants import Variant, base_id, variants

# The most GPUs in a machine that people build: more need a datacentre's links.
_COUNTS: Final = {
    "desktop": (1, 2, 4),
    "workstation": (1, 2, 4),
    "datacenter": (1, 2, 4, 8),
    "superchip": (1,),
    "soc": (1,),
}
_ROOMIEST: Final = "8xb300"  # has memory for every checkpoint that any rig here has memory for
_ROWS_OF_OTHERS: Final = 5


class RigChoice(Struct, frozen=True):
    """A rig that serves a checkpoint of the model, with its hourly price where one is known."""

    variant: Variant
    spec: str
    gpu: Gpu
    count: int
    settled: Settled
    usd_per_hour: float | None


def cheapest_rigs(
    card: ModelCard,
    requirements: Requirements,
    release: Release,
    *,
    usd_per_hour: float | None = None,
) -> list[RigChoice]:
    """Rigs for the checkpoint that was named, then for others of the model that need less.

    At `PLEASANT_PACE` at least, where no other was asked for and one of the rigs reaches it.
    """
    if requirements.min_tokens_per_second is None:
        pleasant = replace(requirements, min_tokens_per_second=PLEASANT_PACE)
        found = cheapest_rigs(card, pleasant, release, usd_per_hour=usd_per_hour)
        if found:
            return found
    found = rigs_for(card, requirements, release, usd_per_hour=usd_per_hour)
    for variant in variants(base_id(card.model_id), find_rig(_ROOMIEST), card):
        if variant.is_named or variant.card.weight_bytes > 0.9 * card.weight_bytes:
            continue
        if variant.weight_format not in ("fp8", "int4"):
            continue  # what every GPU has kernels for
        found += rigs_for(
            variant.card,
            requirements,
            release,
            variant=variant,
            usd_per_hour=usd_per_hour,
            limit=_ROWS_OF_OTHERS,
        )
    return found


def rigs_for(
    card: ModelCard,
    requirements: Requirements,
    release: Release,
    *,
    variant: Variant | None = None,
    usd_per_hour: float | None = None,
    counts: tuple[int, ...] = (1, 2, 4, 8),
    limit: int = 10,
) -> list[RigChoice]:
    """The fewest GPUs of each kind that serve `card`, cheapest first where prices are known.

    Without a price, by total memory: the smallest rig that does is the nearest answer. With
    `usd_per_hour` only those that are known to cost no more, with `counts` so many of a kind.
    """
    found = []
    weights = card.weight_bytes
    if card.dtype == "float32":  # served in 16 bits
        weights //= 2
    for gpu in all_gpus():
        total = gpu.memory.total_bytes
        if total is None or gpu.vendor != "nvidia":
            continue
        price = hourly_price(gpu)
        for count in _COUNTS.get(gpu.category, ()):
            if count not in counts or weights > total * count:
                continue
            cost = None if price is None else price * count
            if usd_per_hour is not None and (cost is None or cost > usd_per_hour):
                break
            spec = gpu.slug if count == 1 else f"{count}x{gpu.slug}"
            result = settle(card, find_rig(spec), requirements, release)
            if isinstance(result, Settled) and result.sure and _is_fast(result, requirements):
                served = variant or Variant(card, None, NO_LOSS)
                found.append(RigChoice(served, spec, gpu, count, result, cost))
                break
    found.sort(key=_cheapest)
    return found[:limit]


def _is_fast(settled: Settled, requirements: Requirements) -> bool:
    pace = requirements.min_tokens_per_second
    return pace is None or settled.speed is None or settled.speed.per_user.value >= pace


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
