"""What is wrong with the variables that vLLM is started with, by their names and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from planner.engine.flags import accepts_flag
from planner.engine.options import knows_variable, releases_with_variable
from planner.engine.releases import Release
from planner.engine.replacements import variable_instead
from planner.engine.variables import stops_the_start, unreadable
from planner.findings import Finding, Severity

_OFF: Final = ("0", "")
# Variables that change memory and that no plan knows: whether any value does, or all but 0, or 0.
_NOT_PLANNED: Final = (
    ("VLLM_MLA_DISABLE", "on", "latent attention is cached by the head, many times as large"),
    ("VLLM_PP_LAYER_PARTITION", "set", "layers are spread otherwise over the pipeline's stages"),
    ("VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE", "off",
     "chunks of local attention are cached whole"),
    ("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "off",
     "the cache also gets what is kept for CUDA graphs"),
)  # fmt: skip


def lint_variables(environ: Mapping[str, str], release: Release) -> Iterator[Finding]:
    """Findings about variables alone; what they do to a model is found with the plan."""
    for name, value in environ.items():
        why = unreadable(name, value, release)
        if why is not None:
            yield _unreadable(name, why, release)
        elif name.startswith("VLLM_") and not knows_variable(name, release):
            yield _unknown(name, release)
    yield from _not_planned(environ, release)


def _unreadable(name: str, why: str, release: Release) -> Finding:
    fix = f"leave {name} out"
    if stops_the_start(name, release):
        text = f"{why}: vLLM {release.name} reads it when it starts, and stops"
        return Finding("bad_variable", Severity.ERROR, text, fix)
    text = f"{why}: vLLM {release.name} stops where it comes to read it"
    return Finding("bad_variable", Severity.WARNING, text, fix)


def _unknown(name: str, release: Release) -> Finding:
    text = f"vLLM {release.name} does not read {name}: it has no effect"
    span, instead = releases_with_variable(name), variable_instead(name)
    if span is not None:
        text += f" (read by {span[0]} to {span[1]})"
    fix = f"use {instead}" if instead is not None and instead.startswith("--") else instead
    if instead is not None and instead.startswith("--"):
        flag = instead.partition(" ")[0]
        fix = fix if accepts_flag(release, flag) else None
    return Finding("unknown_variable", Severity.WARNING, text, fix or "leave it out")


def _not_planned(environ: Mapping[str, str], release: Release) -> Iterator[Finding]:
    for name, when, about in _NOT_PLANNED:
        value = environ.get(name)
        if value is None or not knows_variable(name, release):
            continue
        is_off = value.strip() in _OFF
        if when == "set" or is_off == (when == "off"):
            text = f"{name}={value} is not planned for ({about}): the plan is without it"
            yield Finding("not_planned", Severity.WARNING, text)
