"""What a command says that vLLM would take, and that is still wrong, idle or dangerous.

Everything here follows from the words, the environment and the release; what depends on the GPU or
the plan is in planner/diagnosis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from planner.command.arguments import Given
from planner.command.lint_variables import lint_variables
from planner.engine.flags import option
from planner.engine.options import (
    default_of,
    has_config_key,
    has_speculative_key,
    known_option,
    releases_with_speculative_key,
)
from planner.engine.releases import Release, release_key
from planner.engine.replacements import compilation_key, dropped_key
from planner.findings import Finding, Severity

# Stating these pins what differs between releases and GPUs: never idle.
_PINNED: Final = frozenset(
    {"gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens", "max_model_len", "model",
     "seed", "host", "port", "dtype", "enable_prefix_caching", "enable_chunked_prefill",
     "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size",
     "data_parallel_size_local", "nnodes", "node_rank"}
)  # fmt: skip
_HIGHEST_SHARE: Final = 0.97
# Settings that say the same thing, or one of which leaves the other without effect.
_NO_GRAPHS: Final = "no graphs are captured: sizes have no effect"
_CLASHES: Final = (
    ("enforce_eager", "cudagraph_capture_sizes", _NO_GRAPHS),
    ("enforce_eager", "max_cudagraph_capture_size", _NO_GRAPHS),
    ("enforce_eager", "cuda_graph_sizes", _NO_GRAPHS),
    ("kv_cache_memory_bytes", "gpu_memory_utilization", "the KV cache gets the bytes that are "
     "given, whatever the share"),
    ("language_model_only", "limit_mm_per_prompt", "there is nothing but text to limit"),
)  # fmt: skip
_REFUSED_CLASHES: Final = (
    ("cudagraph_capture_sizes", "compilation_config", "cudagraph_capture_sizes"),
    ("max_cudagraph_capture_size", "compilation_config", "max_cudagraph_capture_size"),
    ("attention_backend", "attention_config", "backend"),
)


def lint(
    settings: Mapping[str, Any],
    given: Sequence[Given],
    environ: Mapping[str, str],
    release: Release,
) -> Iterator[Finding]:
    """Findings about settings as vLLM's parser has them."""
    yield from _idle(settings, given, release)
    yield from _clashing(settings)
    yield from _keys(settings, release)
    yield from lint_variables(environ, release)
    yield from _risky(settings, given, environ)


def _idle(
    settings: Mapping[str, Any], given: Sequence[Given], release: Release
) -> Iterator[Finding]:
    """Options that say what vLLM does anyhow."""
    for each in given:
        known = known_option(each.name) if each.name is not None and each.key is None else None
        if known is None or known.dest in _PINNED or known.dest not in settings:
            continue
        value, default = settings[known.dest], default_of(known.dest, release)
        if default is not None and value == default and type(value) is type(default):
            text = f"{each.written} is what vLLM {release.name} does anyhow"
            yield Finding("redundant_option", Severity.INFO, text, "leave it out")


def _clashing(settings: Mapping[str, Any]) -> Iterator[Finding]:
    for first, second, why in _CLASHES:
        if settings.get(first) and settings.get(second) is not None:
            text = f"{option(first, None)} with {option(second, None)}: {why}"
            yield Finding("conflicting_options", Severity.WARNING, text, "leave one of them out")
    for name, dest, key in _REFUSED_CLASHES:
        inside = settings.get(dest)
        if settings.get(name) is not None and isinstance(inside, Mapping) and key in inside:
            text = f"{option(name, None)} and {key} in {option(dest, None)} exclude each other"
            yield Finding("conflicting_options", Severity.ERROR, text, "leave one of them out")


def _keys(settings: Mapping[str, Any], release: Release) -> Iterator[Finding]:
    """Keys of JSON options; releases differ in what they do with one that they do not know."""
    speculative = settings.get("speculative_config")
    for key in speculative if isinstance(speculative, Mapping) else ():
        if not has_speculative_key(key, release):
            yield _speculative_key(key, release)
    compilation = settings.get("compilation_config")
    for key in compilation if isinstance(compilation, Mapping) else ():
        if not has_config_key("compilation_config", key, release):
            yield _compilation_key(key, release)


def _speculative_key(key: str, release: Release) -> Finding:
    """An error in 0.8.5, 0.9.0 and from 0.16.0 on; ignored between."""
    text = f"--speculative-config: vLLM {release.name} has no key {key}"
    span = releases_with_speculative_key(key)
    fix = "leave it out"
    if span is not None and release_key(span[0]) > release_key(release.name):
        fix = f"it came with {span[0]}"
    elif span is not None:
        text += f", it had it until {span[1]}"
        fix = dropped_key(key) or fix
    if key == "tensor_parallel_size":
        fix = dropped_key(key) or fix
    if release.at_least("0.9.1") and not release.at_least("0.16.0"):
        return Finding("ignored_key", Severity.WARNING, f"{text}; it ignores it", fix)
    return Finding("unknown_key", Severity.ERROR, text, fix)


def _compilation_key(key: str, release: Release) -> Finding:
    """An error in 0.9.0 and from 0.13.0 on; ignored in the others."""
    text = f"--compilation-config: vLLM {release.name} has no key {key}"
    became = compilation_key(key)
    fix = "leave it out"
    if became is not None:
        why, into = became
        fix = f"write {into}" if into is not None else why
    if release.at_least("0.13.0") or release.name == "0.9.0":
        return Finding("unknown_key", Severity.ERROR, text, fix)
    return Finding("ignored_key", Severity.WARNING, f"{text}; it ignores it", fix)


def _risky(
    settings: Mapping[str, Any], given: Sequence[Given], environ: Mapping[str, str]
) -> Iterator[Finding]:
    share = settings.get("gpu_memory_utilization")
    if isinstance(share, float) and _HIGHEST_SHARE < share <= 1:
        text = f"--gpu-memory-utilization {share:g} leaves next to nothing for what else is there"
        fix = "0.95 or less, or none of the driver, graphs and libraries has room to grow"
        yield Finding("high_utilization", Severity.WARNING, text, fix)
    if any(each.name in ("--api-key", "--hf-token") and each.values for each in given):
        text = "a key on the command line can be read by every user of the machine"
        fix = "set VLLM_API_KEY (for --api-key) or HF_TOKEN in the environment instead"
        yield Finding("exposed_key", Severity.WARNING, text, fix)
    if settings.get("trust_remote_code"):
        text = "--trust-remote-code runs code of the model's repository on this machine"
        fix = "leave it out where vLLM has a class of its own for the model"
        yield Finding("remote_code", Severity.INFO, text, fix)
    if environ.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "").lower() in ("1", "true"):
        text = "VLLM_ALLOW_LONG_MAX_MODEL_LEN lets requests be longer than the model has learnt"
        yield Finding("beyond_context", Severity.WARNING, text, "answers there may be nonsense")
    if environ.get("VLLM_SERVER_DEV_MODE") == "1":
        text = (
            "VLLM_SERVER_DEV_MODE opens routes that reset caches and show the whole configuration"
        )
        yield Finding("open_routes", Severity.WARNING, text, "never where others can reach it")
