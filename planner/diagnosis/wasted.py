"""What a command asks for that this GPU or model makes idle or harmful."""

from __future__ import annotations

from collections.abc import Iterator

from planner.command.parse import ServeCommand
from planner.findings import Finding, Severity
from planner.memory.plan import MemoryPlan


def wasted(command: ServeCommand, memory: MemoryPlan) -> Iterator[Finding]:
    """Findings about settings that do less than they say, or the opposite."""
    yield from _idle_parallelism(command, memory)
    yield from _graph_sizes(command, memory)
    if command.random_benchmark and memory.config.speculation is not None:
        text = "random tokens cannot be drafted: a benchmark with them shows no gain, but a loss"
        fix = (
            "send real text (--dataset-name sharegpt), or accept drafts at a set rate "
            '(--speculative-config with "rejection_sample_method": "synthetic")'
        )
        yield Finding("random_benchmark", Severity.WARNING, text, fix)


def _idle_parallelism(command: ServeCommand, memory: MemoryPlan) -> Iterator[Finding]:
    config = memory.config.given
    ranks = config.tensor_parallel_size * config.data_parallel_size
    if config.enable_expert_parallel and ranks == 1 and memory.card.is_moe:
        text = "--enable-expert-parallel has nothing to spread: there is one rank"
        yield Finding("useless_option", Severity.WARNING, text, "leave it out")
    asked = {each.name for each in command.given}
    if "--disable-custom-all-reduce" in asked and config.tensor_parallel_size == 1:
        text = "--disable-custom-all-reduce has no effect: nothing is reduced over one GPU"
        yield Finding("useless_option", Severity.INFO, text, "leave it out")


def _graph_sizes(command: ServeCommand, memory: MemoryPlan) -> Iterator[Finding]:
    """Sizes of CUDA graphs are tokens; with drafts every request brings several."""
    speculation, sizes = memory.config.speculation, command.graph_sizes
    if speculation is None or not sizes or memory.config.given.enforce_eager:
        return
    needed = memory.config.max_num_seqs * speculation.query_len
    if max(sizes) >= needed or max(sizes) > memory.config.max_num_seqs:
        return
    requests = max(sizes) // speculation.query_len
    text = (
        f"CUDA graphs up to {max(sizes)} tokens hold {requests} requests of "
        f"{speculation.query_len} tokens a step: larger batches run without graphs, far slower"
    )
    fix = f"sizes are tokens, not requests: --max-cudagraph-capture-size {needed}"
    yield Finding("graphs_in_sequences", Severity.WARNING, text, fix)
