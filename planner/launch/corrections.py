"""The next command after one that failed: the smallest change that should make it start."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from model_cards import CardError
from planner.command.amend import amended, split_command, without_option
from planner.engine.releases import Release
from planner.errors import PlanError
from planner.findings import Severity
from planner.launch.explain import explain
from planner.launch.facts import Failure, FailureKind, LaunchFacts
from planner.launch.fixes import concerns_memory, corrected
from planner.launch.preflight import Preflight
from planner.memory.plan import MemoryPlan

_OPTION: Final = re.compile(r"--[\w.-]+")
_ROUND: Final = 16  # tokens: vLLM's estimate is exact, a shorter length is never refused for it
# Options that are left out where vLLM refuses what they ask for.
_LEFT_OUT: Final = {
    FailureKind.BATCH: ("--max-num-batched-tokens", "--max-num-seqs"),
    FailureKind.BACKEND: ("--block-size", "--attention-backend"),
    FailureKind.PORT: ("--port",),
}
_LESS_SHARE: Final = 0.05
_MIB: Final = 2**20


class Correction(Struct, frozen=True):
    """A changed command, and the change in words."""

    change: str
    words: tuple[str, ...]


def correct_plan(preflight: Preflight, tried: Sequence[str]) -> Correction | None:
    """The change for a command that the plan or a check forbids; None if none is known.

    `tried` are the changes that were made already.
    """
    words, release = preflight.words, preflight.check.command.release
    findings = (*preflight.findings, *preflight.check.findings)
    for finding in findings:
        if finding.severity is not Severity.ERROR:
            continue
        named = _OPTION.search(finding.text)
        if finding.code in ("unknown_option", "bad_value") and named is not None:
            return _without(words, (named[0],), release, tried)
        if finding.code == "port":
            return _without(words, ("--port",), release, tried)
    for remedy in preflight.check.remedies:
        if remedy.change not in tried:
            return _with(words, remedy.change, release)
    return None


def correct_failure(
    preflight: Preflight, facts: LaunchFacts, failure: Failure, tried: Sequence[str]
) -> Correction | None:
    """The change for a launch that failed, by the numbers that vLLM named."""
    words, release = preflight.words, preflight.check.command.release
    kind = failure.kind
    if kind in _LEFT_OUT:
        return _without(words, _LEFT_OUT[kind], release, tried)
    if kind is FailureKind.OPTION and failure.subject:
        return _without(words, tuple(_OPTION.findall(failure.subject)), release, tried)
    change: str | None = None
    match kind:
        case FailureKind.KV_ROOM | FailureKind.MAX_MODEL_LEN if failure.longest_len:
            change = f"--max-model-len {failure.longest_len // _ROUND * _ROUND}"
        case FailureKind.DTYPE:
            change = "--dtype half"
        case _ if concerns_memory(failure):
            change = _planned(preflight, facts, failure, tried) or _by_its_numbers(
                preflight, failure, tried
            )
        case _:
            pass
    return _with(words, change, release) if change is not None and change not in tried else None


def _planned(
    preflight: Preflight, facts: LaunchFacts, failure: Failure, tried: Sequence[str]
) -> str | None:
    """The first change by a plan that knows what the launch told."""
    check = preflight.check
    try:
        known = corrected(check.command, facts, failure, check.rig)
    except (PlanError, CardError):
        return None
    return next((each.change for each in known.remedies if each.change not in tried), None)


def _by_its_numbers(preflight: Preflight, failure: Failure, tried: Sequence[str]) -> str | None:
    """Without such a plan: the share that vLLM's figures leave, or less of everything."""
    first, memory = explain(failure).changes[0], preflight.check.memory
    if failure.kind is FailureKind.FREE_MEMORY:
        return first if first.startswith("--gpu-memory-utilization ") else None
    return _less(memory, tried) if memory is not None else None


def _less(memory: MemoryPlan, tried: Sequence[str]) -> str | None:
    """Less of the GPU outside the budget's estimate, one thing after the other."""
    config = memory.config
    share = round(config.gpu_memory_utilization - _LESS_SHARE, 2)
    tokens = max(config.max_num_batched_tokens // 2, config.max_num_seqs)
    changes = [f"--gpu-memory-utilization {share:g}"] if share > _LESS_SHARE else []
    given = config.given.kv_cache_memory_bytes
    if given is not None:  # the share has no effect then
        size = (given - int(_LESS_SHARE * memory.device_total.value)) // _MIB * _MIB
        changes = [f"--kv-cache-memory-bytes {size}"] if size > 0 else []
    changes.append(f"--max-num-batched-tokens {tokens}")
    changes += [] if config.given.enforce_eager else ["--enforce-eager"]
    return next((change for change in changes if change not in tried), None)


def _with(words: Sequence[str], change: str, release: Release) -> Correction:
    return Correction(change, tuple(amended(words, change, release)))


def _without(
    words: Sequence[str], options: Sequence[str], release: Release, tried: Sequence[str]
) -> Correction | None:
    head, arguments = split_command(words)
    left = arguments
    for option in options:
        left = without_option(left, option, release)
    change = f"without {', '.join(options)}"
    if left == arguments or change in tried:
        return None
    return Correction(change, (*head, *left))
