"""The `vllm serve` command of a plan: the flags it depends on, each with a reason.

Only option strings that the release's own parser has are written. What a plan depends on is
stated even where it equals the default, because defaults change between releases and GPUs.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from planner.engine.flags import accepts_flag
from planner.engine.releases import Release
from planner.errors import PlanError
from planner.memory.plan import MemoryPlan


@dataclass(frozen=True, slots=True)
class Flag:
    """One option of the command, with why it is there."""

    name: str
    value: str | None  # None: a switch
    reason: str

    @property
    def words(self) -> list[str]:
        """As argv."""
        return [self.name] if self.value is None else [self.name, self.value]


@dataclass(frozen=True, slots=True)
class Command:
    """A command line to copy."""

    model: str
    flags: tuple[Flag, ...]

    @property
    def argv(self) -> list[str]:
        """Words of the command."""
        return ["vllm", "serve", self.model, *(word for flag in self.flags for word in flag.words)]

    def shell(self) -> str:
        """For a POSIX shell, one option a line."""
        lines = [shlex.join(["vllm", "serve", self.model])]
        lines += [shlex.join(flag.words) for flag in self.flags]
        return " \\\n  ".join(lines)


def render_command(memory: MemoryPlan, reasons: dict[str, str] | None = None) -> Command:
    """The command that starts the planned launch.

    `reasons` are words for settings that were chosen, by EngineConfig field.
    """
    reasons = reasons or {}
    config, given = memory.config, memory.config.given
    release = memory.release

    def reason(field: str, otherwise: str) -> str:
        return reasons.get(field, otherwise)

    flags = []
    if given.tensor_parallel_size > 1:
        flags.append(
            Flag(
                "--tensor-parallel-size",
                str(given.tensor_parallel_size),
                reason("tensor_parallel_size", "as asked for"),
            )
        )
    if given.pipeline_parallel_size > 1:
        flags.append(
            Flag(
                "--pipeline-parallel-size",
                str(given.pipeline_parallel_size),
                reason("pipeline_parallel_size", "as asked for"),
            )
        )
    if given.data_parallel_size > 1:
        flags.append(Flag("--data-parallel-size", str(given.data_parallel_size), "as asked for"))
    if given.enable_expert_parallel:
        flags.append(Flag("--enable-expert-parallel", None, "whole experts on every rank"))
    length = "auto" if config.auto_length else str(config.max_model_len)
    flags.append(Flag("--max-model-len", length, reason("max_model_len", "as asked for")))
    if given.kv_cache_memory_bytes is not None:
        flags.append(
            Flag("--kv-cache-memory-bytes", str(given.kv_cache_memory_bytes), "as asked for")
        )
    flags.append(
        Flag(
            "--gpu-memory-utilization",
            f"{config.gpu_memory_utilization:g}",
            reason("gpu_memory_utilization", "the default, stated: other releases differ"),
        )
    )
    flags.append(
        Flag(
            "--max-num-seqs",
            str(config.max_num_seqs),
            reason("max_num_seqs", "the default here, stated: it sets the activation peak"),
        )
    )
    flags.append(
        Flag(
            "--max-num-batched-tokens",
            str(config.max_num_batched_tokens),
            reason("max_num_batched_tokens", "the default here, stated for the same reason"),
        )
    )
    if given.kv_cache_dtype != "auto":
        flags.append(
            Flag("--kv-cache-dtype", given.kv_cache_dtype, reason("kv_cache_dtype", "as asked for"))
        )
    if given.dtype != "auto":
        flags.append(Flag("--dtype", given.dtype, "as asked for"))
    if given.block_size is not None:
        flags.append(Flag("--block-size", str(given.block_size), "as asked for"))
    if given.enforce_eager:
        flags.append(Flag("--enforce-eager", None, "no CUDA graphs: less memory, slower"))
    for flag in flags:
        _check(flag, release)
    return Command(memory.card.model_id, tuple(flags))


def _check(flag: Flag, release: Release) -> None:
    if not accepts_flag(release, flag.name):
        raise PlanError(f"vLLM {release.name} has no option {flag.name}")
