"""Which speculative method pays for a plan and its load, if any.

Every draft that is known for the target is planned, memory and all: what it takes from the KV cache
counts where requests then have to wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from model_cards import ModelCard
from model_cards.known_drafts import KnownDraft, draft_card, drafts_of
from planner.memory.plan import MemoryPlan
from planner.speed.acceptance import acceptance_data
from planner.speed.drafting import drafting_kind
from planner.speed.speculative import LARGEST_BATCH, WORTH_IT, SpeculativeModel
from planner.speed.speculative_option import (
    SpeculativeOption,
    judged,
    mean_context,
    planned,
    running_requests,
    without_drafts,
)
from planner.workload import Workload

_MATCHING: Final = ("ngram", "suffix")


class SpeculationChoice(Struct, frozen=True):
    """Every method that is known for a target, the one to use, and why."""

    plain: MemoryPlan
    workload: Workload
    task: str
    options: tuple[SpeculativeOption, ...]  # the best first, those that cannot be used last
    chosen: SpeculativeOption | None
    reason: str


def choose_speculation(
    memory: MemoryPlan, workload: Workload, *, task: str = "chat", temperature: float = 0.0
) -> SpeculationChoice:
    """Whether to speculate, and how, in a planned launch under a load.

    A speculative method that the plan has is left out first. Of those that gain at least `WORTH_IT`
    the one is chosen that is surest to, by the lower end of its band; none where there are none.
    Raises `MissingFact` where there is no step to time (`StepModel.of`).
    """
    plain = without_drafts(memory)
    options = [
        judged(plain, draft, workload, task, temperature)
        for draft in _worth_planning(plain, task, workload.total_tokens)
    ]
    usable = [option for option in options if option.gain is not None]
    usable.sort(key=lambda option: (_gain(option) >= WORTH_IT, _least(option)), reverse=True)
    others = [option for option in options if option.gain is None]
    best = max(usable, key=_gain, default=None)
    chosen = None
    if best is not None and _gain(best) >= WORTH_IT:
        usable[0] = chosen = _scheduled(usable[0], workload)
    reason = _reason(plain, chosen, best, others, workload)
    return SpeculationChoice(plain, workload, task, (*usable, *others), chosen, reason)


def _gain(option: SpeculativeOption) -> float:
    return option.gain.value if option.gain is not None else 0.0


def _least(option: SpeculativeOption) -> float:
    return option.gain.low if option.gain is not None else 0.0


def _worth_planning(plain: MemoryPlan, task: str, length: int) -> Iterator[KnownDraft]:
    """Of each kind of draft the best known for requests of a length, then those that need none."""
    best: dict[str, KnownDraft] = {}
    for draft in drafts_of(plain.card):
        if draft.model is not None and draft_card(draft, plain.card) is None:
            continue
        kind = drafting_kind(draft.method, draft.parallel)
        if kind not in best or _known(draft, plain.card, task, length) > _known(
            best[kind], plain.card, task, length
        ):
            best[kind] = draft
    yield from best.values()
    methods = plain.release.fact("speculative_methods")
    for method in _MATCHING:
        if method in methods:
            yield KnownDraft(method, None)


def _known(
    draft: KnownDraft, target: ModelCard, task: str, length: int
) -> tuple[bool, bool, bool, bool]:
    """How well a draft suits: made for that length, measured on such text, on any, known."""
    card = draft_card(draft, target)
    if draft.model is None or card is None:
        return True, True, True, True
    measured = acceptance_data()["drafts"].get(draft.model.lower())
    on_task = measured is not None and task in measured["tasks"]
    return card.max_model_len >= length, on_task, measured is not None, card.exact


def _scheduled(option: SpeculativeOption, workload: Workload) -> SpeculativeOption:
    """The option with drafted tokens by batch size, where the release can and it matters."""
    memory = option.memory
    assert memory is not None
    able = memory.release.fact("drafts_by_batch_size") and memory.config.model_runner_v2
    if not able or memory.config.given.data_parallel_size > 1:
        return option
    # Every number of tokens has CUDA graphs of its own: few of them.
    choices = sorted({option.tokens, max(1, option.tokens // 2), 1})
    ranges = SpeculativeModel.of(memory).schedule(
        mean_context(workload), option.acceptance.likely, choices, memory.config.max_num_seqs
    )
    if len(ranges) == 1:
        return option
    config = replace(option.config, num_speculative_tokens_per_batch_size=ranges)
    draft = draft_card(option.draft, memory.card)
    return replace(option, config=config, memory=planned(memory, draft, config))


def _reason(
    plain: MemoryPlan,
    chosen: SpeculativeOption | None,
    best: SpeculativeOption | None,
    others: Iterable[SpeculativeOption],
    workload: Workload,
) -> str:
    at_once = running_requests(plain, workload)
    load = "a single request" if at_once == 1 else f"{at_once} requests at once"
    if chosen is not None:
        assert chosen.memory is not None
        assert chosen.gain is not None
        gib = chosen.draft_bytes / 2**30
        taken = f"takes {gib:.2f} GiB of weights on a GPU" if gib else "takes no weights"
        before, after = plain.kv_tokens.value, chosen.memory.kv_tokens.value
        if before > 0 and after < 0.995 * before:
            taken += f" and {100 * (1 - after / before):.0f} % of the KV cache"
        ends = (
            f"no slower up to {chosen.break_even} requests"
            if chosen.break_even < LARGEST_BATCH
            else "no slower at any batch"
        )
        return (
            f"{chosen.gain.value:.2f} [{chosen.gain.low:.2f}-{chosen.gain.high:.2f}] times as fast "
            f"for {load} with {chosen.tokens} tokens drafted a step; {taken}; {ends}"
        )
    if best is not None:
        assert best.gain is not None
        why = "verifying costs what drafts save" if at_once > 1 else "too few drafts are accepted"
        return (
            f"nothing gains {WORTH_IT:g}x for {load}: the best, {best.name}, would be "
            f"{best.gain.value:.2f} times as fast; {why}"
        )
    problem = next((option.problem for option in others if option.problem), None)
    return f"no method can be used: {problem or 'none is known for this model'}"
