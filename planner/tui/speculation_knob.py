"""The knob for speculative decoding: none, or a method with its tokens and its draft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from model_cards import ModelCard
from model_cards.known_drafts import KnownDraft, drafts_of, find_draft
from planner.engine.releases import find_release
from planner.engine_config import SpeculativeConfig
from planner.errors import PlanError
from planner.settings import Settings
from planner.tui.knob import Knob
from planner.tui.outcome import Outcome

NONE: Final = "none"
_MATCHING: Final = (KnownDraft("ngram", None), KnownDraft("suffix", None))
_TOKENS: Final = 3  # drafted in a step, where nobody says otherwise


def speculation() -> Knob:
    """Method, tokens and draft as one value: `eagle3 3 REPOSITORY`."""
    return Knob(
        "speculation",
        "speculation",
        "none; ngram 4; mtp 1; eagle3 3 REPOSITORY: method, tokens drafted a step, draft",
        lambda settings: written(settings.config.speculative_config),
        lambda settings, outcome: _shown(settings.config.speculative_config),
        _write,
        _steps,
        lambda settings, outcome: written(settings.config.speculative_config),
        picks=True,
    )


def written(given: SpeculativeConfig | None) -> str:
    """As it is typed."""
    if given is None:
        return NONE
    words = (given.method, str(given.num_speculative_tokens), given.model or "")
    return " ".join(words).strip()


def known(card: ModelCard, release: str) -> list[KnownDraft]:
    """What can draft for a model: its own heads, known drafts, and its own text."""
    methods = find_release(release).fact("speculative_methods")
    return [each for each in (*drafts_of(card), *_MATCHING) if each.method in methods]


def config_of(draft: KnownDraft) -> SpeculativeConfig:
    """A draft with the tokens its makers recommend."""
    parallel = True if draft.parallel else None
    tokens = draft.tokens or (1 if draft.method == "mtp" else _TOKENS)
    return SpeculativeConfig(draft.method, tokens, draft.model, parallel_drafting=parallel)


def _shown(given: SpeculativeConfig | None) -> str:
    if given is None:
        return NONE
    return f"{given.method}, {given.num_speculative_tokens} tok."


def _steps(settings: Settings, outcome: Outcome | None) -> Sequence[str]:
    if outcome is None:
        return ()
    found = known(outcome.inputs.card, settings.vllm)
    steps = [NONE, *(written(config_of(draft)) for draft in found)]
    now = written(settings.config.speculative_config)
    return steps if now in steps else [now, *steps]


def _write(settings: Settings, text: str) -> Settings:
    words = text.split()
    if not words or words == [NONE]:
        return settings.with_engine(speculative_config=None)
    now = settings.config.speculative_config
    if text.strip() == written(now):
        return settings
    methods = find_release(settings.vllm).fact("speculative_methods")
    method, *rest = words
    if method not in methods:
        raise PlanError(f"{method} is no method of vLLM {settings.vllm}: {', '.join(methods)}")
    tokens = _TOKENS
    if rest and rest[0].isdecimal():
        tokens, rest = int(rest[0]), rest[1:]
    if len(rest) > 1:
        raise PlanError(f"{' '.join(rest)} is no repository; one looks like org/name")
    model = rest[0] if rest else None
    if model is None and now is not None and now.method == method:
        model = now.model
    found = find_draft(model) if model is not None else None
    parallel = True if found is not None and found.parallel else None
    config = SpeculativeConfig(method, tokens, model, parallel_drafting=parallel)
    return settings.with_engine(speculative_config=config)
