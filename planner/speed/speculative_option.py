"""A way to speculate, planned and judged: what it takes, what it gains, where it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from model_cards import ModelCard
from model_cards.known_drafts import KnownDraft, draft_card
from planner.engine_config import EngineConfig, SpeculativeConfig
from planner.memory.plan import MemoryPlan, Refused, plan_memory
from planner.memory.verdict import Answer
from planner.quantity import Basis, Quantity
from planner.speed.acceptance import (
    ExpectedAcceptance,
    acceptance_data,
    draft_in,
    expected_acceptance,
)
from planner.speed.drafting import drafting_kind
from planner.speed.speculative import SpeculativeModel
from planner.workload import Workload

BATCHES: Final = (1, 4, 16, 64)  # what gains are shown for
# Drafted tokens that are tried; an MTP layer was trained for one, and seldom measured at more.
_MOST_TOKENS: Final = {"mtp": 3, "ngram": 6}
_MOST: Final = 8
_FIRST_TRY: Final = 3


class SpeculativeOption(Struct, frozen=True):
    """A way to speculate, judged for a plan and its load.

    `problem` says why it cannot be used; there is no gain then.
    """

    kind: str  # the method, with how it drafts: `peagle`, `pard`
    draft: KnownDraft
    draft_exact: bool  # whether the draft's own config is known
    config: SpeculativeConfig
    memory: MemoryPlan | None  # the plan with it
    acceptance: ExpectedAcceptance
    gain: Quantity | None = None  # tokens per second, times what they are without
    gains: tuple[tuple[int, int, Quantity], ...] = ()  # (batch, best tokens there, gain)
    break_even: int = 0  # the largest batch that is no slower with it
    made_for: int | None = None  # tokens of context that the draft was made for, where fewer
    problem: str | None = None

    @property
    def tokens(self) -> int:
        """Tokens drafted in a step."""
        return self.config.num_speculative_tokens

    @property
    def graph_requests(self) -> int | None:
        """Requests whose decode steps full CUDA graphs cover; None where there are no graphs.

        Graphs are captured for numbers of tokens, and every request brings 1 + `tokens`.
        """
        if self.memory is None or not self.memory.config.cudagraph_sizes:
            return None
        return max(self.memory.config.cudagraph_sizes) // (1 + self.tokens)

    @property
    def draft_bytes(self) -> int:
        """Weights it takes on each GPU of the last stage."""
        return self.memory.ranks[-1].parts.draft if self.memory is not None else 0

    @property
    def name(self) -> str:
        """What it is called: the draft's repository, or the method."""
        return self.draft.model or self.draft.method


def judge_speculation(
    memory: MemoryPlan, workload: Workload, *, task: str = "chat", temperature: float = 0.0
) -> SpeculativeOption:
    """The speculation that a plan has, as it is set up. Raises as `SpeculativeModel.of`."""
    model = SpeculativeModel.of(memory)
    found, given = memory.config.speculation, memory.config.given.speculative_config
    assert found is not None
    assert given is not None
    draft = KnownDraft(given.method, given.model, found.parallel_drafting)
    kind = drafting_kind(given.method, found.parallel_drafting)
    expected = _expected(kind, draft, memory.card, task, temperature)
    option = SpeculativeOption(kind, draft, True, given, memory, expected)
    return _with_gains(
        option, memory, model, without_drafts(memory), workload, [given.num_speculative_tokens]
    )


def judged(
    plain: MemoryPlan, draft: KnownDraft, workload: Workload, task: str, temperature: float
) -> SpeculativeOption:
    """A draft for a plan, with the number of tokens that gains most under its load."""
    kind = drafting_kind(draft.method, draft.parallel)
    card = draft_card(draft, plain.card)
    expected = _expected(kind, draft, plain.card, task, temperature)
    choices = _token_choices(kind, draft, plain.card)
    first = min(choices, key=lambda tokens: abs(tokens - _FIRST_TRY))
    option = SpeculativeOption(
        kind,
        draft,
        card is None or card.exact,
        _config(draft, first),
        None,
        expected,
        made_for=shorter_context(card, plain),
    )
    problem = _rule(draft, plain)
    if problem is not None:
        return replace(option, problem=problem)
    try:
        memory = planned(plain, card, option.config)
        model = SpeculativeModel.of(memory)
        best = _with_gains(option, memory, model, plain, workload, choices)
        if best.tokens != first:
            memory = planned(plain, card, best.config)
        return _if_it_starts(best, memory)
    except Refused as error:
        return replace(option, problem=str(error))


def _rule(draft: KnownDraft, plain: MemoryPlan) -> str | None:
    """What speaks against a draft before it is planned."""
    release = plain.release
    if draft.parallel and not release.fact("parallel_drafting"):
        return f"vLLM {release.name} has no parallel drafting"
    if draft.method == "ngram" and plain.card.states:
        return "matched n-grams corrupt recurrent states (vllm-project/vllm#39273)"
    return None


def _if_it_starts(option: SpeculativeOption, memory: MemoryPlan) -> SpeculativeOption:
    """The option with its plan; without its gain where vLLM would refuse it."""
    if memory.starts.answer is not Answer.NO:
        return replace(option, memory=memory)
    return replace(option, memory=memory, gain=None, problem=memory.starts.reason)


def _config(draft: KnownDraft, tokens: int) -> SpeculativeConfig:
    parallel = True if draft.parallel else None
    return SpeculativeConfig(draft.method, tokens, draft.model, parallel_drafting=parallel)


def _token_choices(kind: str, draft: KnownDraft, target: ModelCard) -> Sequence[int]:
    """Numbers of drafted tokens to try: up to those that the draft was made for."""
    if kind != "mtp" or draft.model is not None:
        return range(1, (draft.tokens or _MOST_TOKENS.get(kind, _MOST)) + 1)
    measured = acceptance_data()["drafts"].get(draft_in(target.model_id, kind), {})
    most = max(_MOST_TOKENS[kind], measured.get("longest", 0))
    # Several MTP modules take turns: vLLM wants a multiple of them, or fewer.
    modules = next((len(own.layers) for own in target.drafts if own.method == "mtp"), 1)
    return [k for k in range(1, most + 1) if k <= modules or k % modules == 0]


def _expected(
    kind: str, draft: KnownDraft, target: ModelCard, task: str, temperature: float
) -> ExpectedAcceptance:
    return expected_acceptance(
        kind,
        task,
        temperature=temperature,
        parameters=target.parameters,
        draft=draft.model,
        target=target.model_id,
    )


def planned(plain: MemoryPlan, draft: ModelCard | None, config: SpeculativeConfig) -> MemoryPlan:
    """The launch with a draft; a batch of requests whose drafts fit a step."""
    given = replace(plain.config.given, speculative_config=config)
    return plan_memory(
        plain.card,
        plain.rig,
        _roomy(given, plain, config.num_speculative_tokens),
        draft=draft,
        vllm=plain.release,
    )


def _roomy(given: EngineConfig, plain: MemoryPlan, tokens: int) -> EngineConfig:
    """Settings with a step large enough for the drafts of every request.

    vLLM schedules `max_num_seqs` x (1 + tokens); a step that is too small wastes drafts.
    """
    most = plain.config.max_num_batched_tokens // (1 + tokens)
    if plain.config.max_num_seqs <= most:
        return given
    return replace(given, max_num_seqs=max(1, most))


def _with_gains(
    option: SpeculativeOption,
    memory: MemoryPlan,
    model: SpeculativeModel,
    plain: MemoryPlan,
    workload: Workload,
    choices: Sequence[int],
) -> SpeculativeOption:
    """The option with the best number of tokens for the load, and what it gains."""
    expected, context = option.acceptance, mean_context(workload)
    running, before = running_requests(memory, workload), running_requests(plain, workload)
    tokens = model.best_tokens(running, context, expected.likely, choices)
    gain = model.gain(running, context, tokens, expected)
    if running < before:  # fewer requests at a time than without a draft
        rate = running / model.plain_seconds(running, context)
        gain = gain.times(float(rate * model.plain_seconds(before, context) / before))
    if not option.draft_exact:
        gain = gain.no_better_than(Basis.ESTIMATED)
    at_batches = []
    for batch in BATCHES:
        best = model.best_tokens(batch, context, expected.likely, choices)
        at_batches.append((batch, best, model.gain(batch, context, best, expected)))
    return replace(
        option,
        memory=memory,
        config=replace(option.config, num_speculative_tokens=tokens),
        gain=gain,
        gains=tuple(at_batches),
        break_even=model.break_even(context, tokens, expected.likely),
    )


def shorter_context(draft: ModelCard | None, memory: MemoryPlan) -> int | None:
    """Tokens of context that a head was made for, where the launch allows more.

    vLLM lets it draft on, but beyond what it was trained for less is accepted.
    """
    if draft is None or draft.head is None or not draft.exact:
        return None
    return draft.max_model_len if draft.max_model_len < memory.config.max_model_len else None


def running_requests(memory: MemoryPlan, workload: Workload) -> int:
    """Requests of a load that run at the same time."""
    admitted = memory.expected_requests_at(workload.total_tokens)
    return max(1, int(min(workload.concurrency, admitted, memory.config.max_num_seqs)))


def mean_context(workload: Workload) -> float:
    """Tokens that a request attends to, halfway through its answer."""
    return workload.prompt_tokens + workload.output_tokens / 2


def without_drafts(memory: MemoryPlan) -> MemoryPlan:
    """The same launch without drafts."""
    given = memory.config.given
    if given.speculative_config is None:
        return memory
    given = replace(given, speculative_config=None)
    return plan_memory(memory.card, memory.rig, given, vllm=memory.release)
