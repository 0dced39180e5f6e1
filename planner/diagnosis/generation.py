"""What vLLM makes of a checkpoint's generation_config.json, and of the options about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from model_cards import ModelCard
from model_cards.generation import Generation
from planner.command.parse import ServeCommand
from planner.command.values import convert
from planner.findings import Finding, Severity

_AUTO = "auto"
# The first release whose requests fail; before, min_p is passed over without a word.
_REFUSED_SINCE = "0.14.0"


def about_generation(command: ServeCommand, card: ModelCard) -> Iterator[Finding]:
    """The defaults of requests that a launch has, where they cap or refuse what is asked of it.

    vllm.config.ModelConfig.get_diff_sampling_param and SamplingParams._validate_spec_decode.
    """
    found = _in_force(command, card.generation)
    note = found.note()
    if note is not None and found.max_new_tokens != card.generation.max_new_tokens:
        text = f"--override-generation-config limits answers to {found.max_new_tokens:,} tokens"
        yield Finding("answer_limit", Severity.INFO, text)
    elif note is not None and (found.max_new_tokens or 0) < card.default_max_model_len:
        yield Finding("answer_limit", Severity.INFO, note)
    drafts = command.config.speculative_config is not None
    if drafts and found.min_p is not None and command.release.at_least(_REFUSED_SINCE):
        text = (
            f"requests have a min_p of {found.min_p:g} by the model's generation_config.json, and "
            "vLLM refuses each of them where drafts are used, unless it sets min_p to 0"
        )
        fix = """--override-generation-config '{"min_p": 0}'"""
        yield Finding("min_p_with_drafts", Severity.WARNING, text, fix)


def _in_force(command: ServeCommand, file: Generation) -> Generation:
    """The defaults with the command's own: another source than the checkpoint is not read."""
    source = _value(command, "--generation-config")
    if source is not None and source != _AUTO:
        file = Generation()
    overrides = _overrides(command)
    limit, min_p = overrides.get("max_new_tokens"), overrides.get("min_p")
    if "max_new_tokens" not in overrides:
        limit = file.max_new_tokens
    if "min_p" not in overrides:
        min_p = file.min_p
    return Generation(
        limit if type(limit) is int and limit > 0 else None,
        min_p if isinstance(min_p, float) and 0 < min_p <= 1 else None,
    )


def _overrides(command: ServeCommand) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in command.given:
        if each.name != "--override-generation-config" or not each.values:
            continue
        try:
            value = convert("json", each.values[0])
        except ValueError:  # which is a finding of its own
            continue
        if each.key is not None:
            found[each.key] = value
        elif isinstance(value, dict):
            found |= value
    return found


def _value(command: ServeCommand, option: str) -> str | None:
    """The last value that is given to an option."""
    values = [each.values[0] for each in command.given if each.name == option and each.values]
    return values[-1] if values else None
