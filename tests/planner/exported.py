"""Launches to write down in every format, and what their consumers read in what was written."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import yaml
from launches import plan

from planner import MemoryPlan
from planner.engine_config import SpeculativeConfig

MOE = "Qwen/Qwen3-30B-A3B"
LARGE = "Qwen/Qwen3-235B-A22B"
LAUNCHES: dict[str, Callable[[], MemoryPlan]] = {
    "one GPU": lambda: plan("Qwen/Qwen3-8B", "4090", max_model_len=16384),
    "two of eight": lambda: plan("Qwen/Qwen3-8B", "8xh100-sxm", tensor_parallel_size=2),
    "drafts, no prefixes": lambda: plan(
        "Qwen/Qwen3-8B", "h100-sxm", enable_prefix_caching=False,
        speculative_config=SpeculativeConfig("ngram", 3),
    ),
    "data and expert parallel": lambda: plan(
        MOE, "8xh100-sxm", data_parallel_size=8, enable_expert_parallel=True
    ),
    "an old release": lambda: plan("Qwen/Qwen3-8B", "a100-80g", "0.8.5", cpu_offload_gb=2.0),
    "AMD": lambda: plan(MOE, "2xmi300x", tensor_parallel_size=2, kv_cache_dtype="fp8"),
    "a CPU": lambda: plan("Qwen/Qwen3-0.6B", "cpu", max_model_len=4096),
    "two machines": lambda: plan(
        LARGE, "2x8xh100-sxm", tensor_parallel_size=8, pipeline_parallel_size=2, nnodes=2
    ),
    "four machines, data parallel": lambda: plan(
        LARGE, "4x8xh100-sxm", data_parallel_size=32, enable_expert_parallel=True, nnodes=4
    ),
    "two machines, replicas counted by hand": lambda: plan(
        LARGE, "2x8xh100-sxm", "0.10.2", tensor_parallel_size=8, data_parallel_size=2,
        data_parallel_size_local=1, enable_expert_parallel=True,
    ),
    "four machines, replicas counted by hand": lambda: plan(
        LARGE, "4x8xh100-sxm", "0.10.2", tensor_parallel_size=4, data_parallel_size=8,
        data_parallel_size_local=2, enable_expert_parallel=True,
    ),
    "two machines on Ray": lambda: plan(
        LARGE, "2x8xh100-sxm", "0.10.2", tensor_parallel_size=8, pipeline_parallel_size=2,
        distributed_executor_backend="ray",
    ),
}  # fmt: skip
WITHOUT_RAY_SERVE = ("a CPU",)


@cache
def launch(name: str) -> MemoryPlan:
    """A plan of `LAUNCHES`."""
    return LAUNCHES[name]()


def documents(text: str) -> list[dict[str, Any]]:
    """The documents of a YAML text."""
    return list(yaml.safe_load_all(text))


def interpolated(text: str, environ: dict[str, str]) -> str:
    """A value as compose reads it: `$$` is a dollar, `${NAME}` a variable, perhaps with a default.

    Raises `KeyError` for a variable that is required and not set.
    """

    def of(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        name, default = match[1], match[2]
        return environ.get(name, default) if default is not None else environ[name]

    return re.sub(r"\$\$|\$\{(\w+)(?::-([^}]*)|:\?[^}]*)?\}", of, text)


def expanded(text: str, environ: dict[str, str]) -> str:
    """An argument as Kubernetes reads it: `$(NAME)` is a variable, `$$` a dollar."""

    def of(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else environ.get(match[1], match[0])

    return re.sub(r"\$\$|\$\((\w+)\)", of, text)


def pods(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Every pod template of a manifest."""
    found = []
    for key, value in document.items():
        if key in ("template", "leaderTemplate", "workerTemplate"):
            found.append(value)
        elif isinstance(value, dict):
            found += pods(value)
        elif isinstance(value, list):
            found += [pod for each in value if isinstance(each, dict) for pod in pods(each)]
    return found
