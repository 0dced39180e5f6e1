"""How the choice among speculative methods is printed: a line of advice, or the whole table."""

from __future__ import annotations

import json
import shlex
from typing import Final

from planner.cli.console import say, say_item, say_verbatim, show
from planner.cli.format import gib, short_count
from planner.engine_config import SpeculativeConfig
from planner.quantity import Basis, Quantity
from planner.speed.speculation_choice import SpeculationChoice
from planner.speed.speculative import LARGEST_BATCH, WORTH_IT
from planner.speed.speculative_option import BATCHES, SpeculativeOption

_NAMES: Final = {
    "eagle": "EAGLE", "eagle3": "EAGLE-3", "peagle": "P-EAGLE", "dflash": "DFlash",
    "dspark": "DSpark", "mtp": "MTP", "pard": "PARD", "draft_model": "draft model",
    "ngram": "n-gram", "suffix": "suffix", "medusa": "Medusa", "mlp_speculator": "MLP speculator",
}  # fmt: skip


def method_name(kind: str) -> str:
    """A kind of draft as people write it."""
    return _NAMES.get(kind, kind)


def print_advice(choice: SpeculationChoice) -> None:
    """Whether a method would pay, why, and what to add to the command."""
    chosen = choice.chosen
    if chosen is None:
        say(f"Speculative decoding: none; {choice.reason}")
        return
    model = f" with {chosen.draft.model}" if chosen.draft.model else ""
    say(
        f"Speculative decoding would pay: {method_name(chosen.kind)}{model}, {choice.reason} "
        f"(on {choice.task}; {_basis(chosen)}). Add, and compare with vplan speculate:"
    )
    print_flags(choice)


def print_choice(choice: SpeculationChoice) -> None:
    """Every method side by side, the choice, and the options that set it up."""
    _print_table(choice)
    say()
    for option in choice.options:
        if option.problem is not None:
            say_item(f"{method_name(option.kind)} cannot be used: {option.problem}")
        elif option.draft.model is not None:
            say_item(f"{method_name(option.kind)}: {option.draft.model}{_about(option)}")
    if any(option.problem or option.draft.model for option in choice.options):
        say()
    chosen = choice.chosen
    if chosen is None:
        say(f"Choice: none. {choice.reason[0].upper()}{choice.reason[1:]}.", style="bold")
    else:
        say(
            f"Choice: {method_name(chosen.kind)}, {choice.reason} ({_basis(chosen)}).", style="bold"
        )
        print_flags(choice)
    say(
        "\nx1 to x64: times as fast as without drafts for so many requests at once, at the best "
        "number of tokens (@). GiB of weights on each GPU. accepted: the share of first drafted "
        "tokens, and the tokens that a step emits with k drafted. even: the largest batch that is "
        f"no slower. ~ estimated. Chosen is the surest of those that gain {WORTH_IT:g}x. vLLM "
        "drafts chains: trees as in EAGLE-2 are not available, and lengths measured with them not "
        "used. Try with texts of your own: random tokens are hardly ever accepted."
    )


def _about(option: SpeculativeOption) -> str:
    """What the reader must know of a draft."""
    if not option.draft_exact:
        return " (usual dimensions; its config is not bundled)"
    if option.made_for is not None:
        return f" (made for {option.made_for:,} tokens: beyond, fewer drafts are accepted)"
    return ""


def _print_table(choice: SpeculationChoice) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("method")
    for heading in ("GiB", "KV tok", "accepted", "k", *(f"x{b}" for b in BATCHES), "even"):
        table.add_column(heading, justify="right")
    table.add_row("none", "0.00", short_count(choice.plain.kv_tokens.value),
                  *[""] * 2, *["1.00"] * len(BATCHES), "")  # fmt: skip
    for option in choice.options:
        table.add_row(*_row(option), style="dim" if option.problem else None)
    show(table)


def _row(option: SpeculativeOption) -> list[str]:
    memory, likely = option.memory, option.acceptance.likely
    kv_tokens = short_count(memory.kv_tokens.value) if memory is not None else "-"
    size = f"{'' if option.draft_exact else '~'}{gib(option.draft_bytes)}"
    accepted = f"{likely.first:.2f}, {likely.length(option.tokens):.1f}"
    gains = {batch: f"{_shown(gain)}@{tokens}" for batch, tokens, gain in option.gains}
    ends = str(option.break_even) if option.break_even < LARGEST_BATCH else "any"
    if option.problem is not None:
        gains, ends = {}, "-"
    return [
        method_name(option.kind), size, kv_tokens, accepted, str(option.tokens),
        *(gains.get(batch, "-") for batch in BATCHES), ends,
    ]  # fmt: skip


def _shown(gain: Quantity) -> str:
    return f"{'~' if gain.basis is Basis.ESTIMATED else ''}{gain.value:.2f}"


def _basis(option: SpeculativeOption) -> str:
    return option.gain.basis.label if option.gain is not None else ""


def print_flags(choice: SpeculationChoice) -> None:
    """The options that a command needs for the chosen method, beside those it has."""
    chosen = choice.chosen
    if chosen is None:
        return
    say_verbatim(f"  --speculative-config {shlex.quote(speculative_json(chosen.config))}")
    if chosen.memory is None:
        return
    seqs = chosen.memory.config.given.max_num_seqs
    if seqs is not None and seqs != choice.plain.config.given.max_num_seqs:
        say_verbatim(f"  --max-num-seqs {seqs}")
        say("The smaller batch lets the drafts of all its requests fit a step.")
    covered, most = chosen.graph_requests, chosen.memory.config.max_num_seqs
    if covered is not None and covered < choice.workload.concurrency <= most:
        say(
            f"CUDA graphs cover {covered} requests with their drafts; larger batches run without, "
            "slower than told here. --max-cudagraph-capture-size takes tokens: "
            f"{choice.workload.concurrency * (1 + chosen.tokens)} for all, and more memory."
        )


def speculative_json(config: SpeculativeConfig) -> str:
    """What `--speculative-config` takes, in one word."""
    return json.dumps(config.settings(), separators=(",", ":"))
