"""A published launch planned: what vplan says beside what vLLM printed."""

from __future__ import annotations

from functools import cache
from typing import Final

from launch_models import launched_card
from launch_rows import GIB, Launch, over_releases
from msgspec import Struct
from msgspec.structs import replace

from hardware_db import Rig, find_rig
from hardware_db.errors import HardwareError
from model_cards.card import ModelCard
from model_cards.errors import CardError
from planner import MemoryPlan, plan_memory
from planner.errors import PlanError
from planner.memory.plan import Refused
from planner.quantity import Quantity

_FEW: Final = 16  # requests at once, as people with one user set them


class Predicted(Struct, frozen=True):
    """vplan's answer to a launch; sizes in GiB, of the first pipeline stage as vLLM prints them."""

    chance_of_refusal: float
    reason: str
    weights: Quantity | None = None  # None: refused before anything is loaded
    activation: Quantity | None = None
    non_torch: Quantity | None = None
    graphs: Quantity | None = None
    kv_cache: Quantity | None = None
    tokens: Quantity | None = None
    concurrency: Quantity | None = None
    longest: Quantity | None = None
    groups: int = 0  # of the KV cache
    architecture: str = ""
    format: str = ""
    pinned: bool = False


class NotPlanned(Exception):
    """Why a launch cannot be planned."""


def predict(launch: Launch) -> Predicted:
    """The plan of a launch; over all releases it may come from where the row names none.

    Where it does not say how many requests at once it was for, the band is that of the default and
    of few, and of the other settings it may have had. Raises `NotPlanned`.
    """
    answers = [answer_of(plan) for plan in plans_of(launch)]
    if not answers:  # refused under every release
        return Predicted(1.0, "no release runs it")
    others = list(launch.beside)
    if not launch.batch_seen:
        others.append(replace(launch.settings, max_num_seqs=_FEW))
    apart = [
        answer_of(plan)
        for settings in others
        for plan in plans_of(replace(launch, settings=settings))
    ]
    first = answers[0]
    if len(answers) + len(apart) == 1:
        return first

    def over(name: str) -> Quantity | None:
        known = [value for each in answers if (value := getattr(each, name)) is not None]
        beside = [value for each in apart if (value := getattr(each, name)) is not None]
        return over_releases(known, beside) if known else None

    chances = [each.chance_of_refusal for each in (*answers, *apart)]
    return Predicted(
        sum(chances) / len(chances),
        first.reason,
        over("weights"),
        over("activation"),
        over("non_torch"),
        over("graphs"),
        over("kv_cache"),
        over("tokens"),
        over("concurrency"),
        over("longest"),
        first.groups,
        first.architecture,
        first.format,
        first.pinned,
    )


def plans_of(launch: Launch) -> list[MemoryPlan]:
    """Its plan under every release that it may come from and that can run it."""
    card, rig = parts_of(launch)
    plans = []
    for release in launch.releases:
        try:
            plans.append(
                plan_memory(
                    card,
                    rig,
                    launch.settings,
                    vllm=release,
                    offline=launch.offline,
                    environ=dict(launch.environ),
                )
            )
        except Refused as error:
            if launch.stated:
                raise NotPlanned(f"refused: {error}") from error
        except PlanError as error:
            raise NotPlanned(str(error)) from error
    # A release that does not know the model is not the one it ran on.
    able = [plan for plan in plans if not plan.starts.breaks_a_rule]
    return able or plans


def parts_of(launch: Launch) -> tuple[ModelCard, Rig]:
    """Model and machine of a launch. Raises `NotPlanned` where one is not known."""
    if launch.problem is not None:
        raise NotPlanned(launch.problem)
    try:
        card = launched_card(launch.model)
    except CardError as error:
        raise NotPlanned(str(error)) from error
    if card is None:
        raise NotPlanned("model not known")
    assert launch.rig is not None
    try:
        return card, _rig(launch.rig)
    except HardwareError as error:
        raise NotPlanned(str(error)) from error


@cache
def _rig(text: str) -> Rig:
    return find_rig(text)


def answer_of(plan: MemoryPlan) -> Predicted:
    """The figures of a plan that logs print."""
    rank = plan.ranks[0]
    loaded = rank.weights + Quantity.exact(rank.buffers.model)
    longest = (plan.kv_cache, plan.kv_cache_low, plan.kv_cache_high)
    lengths = [float(each.longest_len) for each in longest]
    return Predicted(
        plan.starts.chance_of_refusal,
        plan.starts.reason,
        loaded.times(1 / GIB),
        rank.activation.times(1 / GIB),
        rank.non_torch.times(1 / GIB),
        rank.cuda_graphs.times(1 / GIB),
        rank.kv_cache.times(1 / GIB),
        plan.kv_tokens,
        plan.max_concurrency,
        Quantity(*lengths, rank.kv_cache.basis),
        len(plan.kv_cache.groups),
        plan.card.architecture,
        plan.card.format_kind,
        plan.config.kv_cache_memory_bytes is not None,
    )
