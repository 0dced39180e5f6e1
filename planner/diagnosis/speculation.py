"""What a command's speculative decoding gains, and where it ends."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from model_cards import ModelCard
from planner.engine.rules import is_emulated
from planner.findings import Finding, Severity
from planner.memory.plan import MemoryPlan
from planner.speed.acceptance import task_of
from planner.speed.speculative import LARGEST_BATCH, WORTH_IT
from planner.speed.speculative_option import (
    SpeculativeOption,
    judge_speculation,
    shorter_context,
)
from planner.speed.step import MissingFact
from planner.workload import use_case_workload

_USE_CASE = "chat"  # a command does not say what it is for


def about_speculation(memory: MemoryPlan, draft: ModelCard | None) -> list[Finding]:
    """The gain of the plan's speculation with its band, and its break-even; its draft's limits."""
    return [*_context(memory, draft), *_gain(memory)]


def _context(memory: MemoryPlan, draft: ModelCard | None) -> Iterator[Finding]:
    shorter = shorter_context(draft, memory)
    if shorter is None or draft is None:
        return
    text = (
        f"{draft.model_id} was made for contexts of {shorter:,} tokens, and the launch allows "
        f"{memory.config.max_model_len:,}: beyond, fewer of its drafts are accepted"
    )
    yield Finding("draft_context", Severity.WARNING, text)


def _gain(memory: MemoryPlan) -> list[Finding]:
    if memory.config.speculation is None or is_emulated(memory.card, memory.device):
        return []
    load = use_case_workload(_USE_CASE)
    load = replace(load, output_tokens=max(1, min(load.output_tokens, memory.config.max_model_len)))
    try:
        judged = judge_speculation(memory, load, task=task_of(_USE_CASE))
    except MissingFact:
        return []
    return [_judgement(judged)]


def _judgement(judged: SpeculativeOption) -> Finding:
    gain, method = judged.gain, judged.config.method
    assert gain is not None
    text = (
        f"{method} with {judged.tokens} tokens drafted a step: {gain.value:.2f} "
        f"[{gain.low:.2f}-{gain.high:.2f}] times as fast for a single {_USE_CASE} request "
        f"({gain.basis.label})"
    )
    if judged.break_even >= LARGEST_BATCH:
        text += ", no slower at any batch"
    elif judged.break_even:
        text += f"; slower than without from about {judged.break_even + 1} requests at once"
    if gain.value >= WORTH_IT:
        return Finding("speculation", Severity.INFO, text)
    fix = "leave it out, or draft fewer tokens; vplan speculate compares the methods"
    return Finding("speculation", Severity.WARNING, text, fix)
