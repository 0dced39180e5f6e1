"""Random plans for random releases: is every option and value that they emit in that release?

    python benchmarks/random_plans.py [--plans 5000] [--seed 0]

Each plan is a random bundled model on a random rig with random settings, for one of the known
releases. What is emitted (the command, and what the machines of several add to it) is held against
the tables of the release's own parser: option strings, types, closed choices, keys and methods of
JSON options.
"""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

from launch_space import RIGS, representatives

from hardware_db import find_rig
from model_cards import ModelCard
from planner import EngineConfig
from planner.command.exports import export
from planner.command.values import convert
from planner.engine.flags import accepts_choice, accepts_flag
from planner.engine.options import (
    Takes,
    closed_choices,
    has_config_key,
    has_speculative_key,
    has_speculative_method,
    known_option,
)
from planner.engine.refusal import RefusalKind
from planner.engine.releases import Release, known_releases
from planner.engine_config import EplbConfig, SpeculativeConfig
from planner.errors import PlanError
from planner.memory.plan import MemoryPlan, plan_memory

SETTINGS: dict[str, tuple[Any, ...]] = {
    "tensor_parallel_size": (1, 1, 2, 4, 8),
    "pipeline_parallel_size": (1, 1, 1, 2),
    "data_parallel_size": (1, 1, 1, 2),
    "decode_context_parallel_size": (1, 1, 1, 2),
    "distributed_executor_backend": (None, None, "ray", "mp"),
    "enable_expert_parallel": (False, False, True),
    "dtype": ("auto", "auto", "half", "bfloat16"),
    "max_model_len": (None, 2048, 8192, 32768, -1),
    "max_num_seqs": (None, 1, 16, 300),
    "max_num_batched_tokens": (None, 1024, 8192),
    "gpu_memory_utilization": (None, 0.5, 0.95),
    "kv_cache_memory_bytes": (None, None, 2**31),
    "kv_cache_dtype": ("auto", "auto", "fp8", "fp8_e5m2", "bfloat16", "fp8_per_token_head"),
    "quantization": (None, None, None, "fp8", "fp8_per_tensor"),
    "block_size": (None, None, 16, 32),
    "num_gpu_blocks_override": (None, None, 4096),
    "enable_prefix_caching": (None, True, False),
    "enable_chunked_prefill": (None, True, False),
    "async_scheduling": (None, True, False),
    "cpu_offload_gb": (0.0, 0.0, 2.0),
    "enforce_eager": (False, True),
    "disable_hybrid_kv_cache_manager": (False, False, True),
    "language_model_only": (False, False, True),
    "mm_encoder_tp_mode": ("weights", "weights", "data"),
    "enable_lora": (False, False, True),
    "enable_eplb": (False, False, True),
    "runner": ("auto", "auto", "pooling"),
    "trust_remote_code": (False, True),
}
METHODS = ("ngram", "suffix", "mtp", "ngram_gpu")


def random_plans(count: int, seed: int) -> Iterator[MemoryPlan]:
    """So many plans that could be made, and would be written down."""
    random = Random(seed)
    cards = representatives()
    made = 0
    while made < count:
        plan = _plan(random, cards)
        if plan is not None:
            made += 1
            yield plan


def _plan(random: Random, cards: list[ModelCard]) -> MemoryPlan | None:
    rig = find_rig(random.choice(RIGS))
    chosen = random.sample(sorted(SETTINGS), random.randint(0, 7))
    settings = {name: random.choice(SETTINGS[name]) for name in chosen}
    if random.random() < 0.3:
        settings["speculative_config"] = SpeculativeConfig(random.choice(METHODS), 3)
    if settings.get("enable_eplb"):
        settings["eplb_config"] = EplbConfig(random.choice((0, 8)))
    if rig.nodes > 1 and random.random() < 0.7:
        settings["nnodes"] = rig.nodes
        settings["tensor_parallel_size"], settings["pipeline_parallel_size"] = 8, rig.nodes
    release = random.choice(known_releases())
    try:
        plan = plan_memory(random.choice(cards), rig, EngineConfig(**settings), vllm=release)
        export(plan, "command")
    except PlanError:
        return None
    methods = {refusal.kind for refusal in plan.refusals} & {RefusalKind.SPECULATION}
    return None if methods else plan


def emitted(plan: MemoryPlan) -> Iterator[list[str]]:
    """The arguments of each command of a plan."""
    for line in export(plan, "command").replace("\\\n", "").splitlines():
        if "vllm serve" in line:
            words = shlex.split(line)
            yield words[words.index("serve") + 2 :]


def problems(words: list[str], release: Release) -> list[str]:
    """What of the arguments is not in the release's table."""
    found, at = [], 0
    while at < len(words):
        name = words[at]
        option = known_option(name, release) if accepts_flag(release, name) else None
        at += 1
        if option is None:
            found.append(f"{name}: no such option")
            continue
        if option.takes is Takes.SWITCH:
            continue
        value = words[at]
        at += 1
        try:
            read = convert(option.type, value) if value[0] != "$" else value
        except ValueError as error:
            found.append(f"{name} {value}: {error}")
            continue
        choices = closed_choices(option.dest, release)
        if choices and value not in choices:
            found.append(f"{name} {value}: one of {choices}")
        if option.dest in ("kv_cache_dtype", "quantization") and not accepts_choice(
            release, option.dest, value
        ):
            found.append(f"{name} {value}: not known")
        if isinstance(read, dict):
            found += [f"{name}: key {key}" for key in _unknown(option.dest, read, release)]
    return found


def _unknown(dest: str, content: dict[str, Any], release: Release) -> list[str]:
    if dest != "speculative_config":
        return [key for key in content if not has_config_key(dest, key, release)]
    unknown = [key for key in content if not has_speculative_key(key, release)]
    method = content.get("method")
    if method is not None and not has_speculative_method(method, release):
        unknown.append(f"method {method}")
    return unknown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plans", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    options: Counter[str] = Counter()
    releases: Counter[str] = Counter()
    wrong = 0
    for plan in random_plans(given.plans, given.seed):
        releases[plan.release.name] += 1
        for words in emitted(plan):
            options.update(word for word in words if word.startswith("--"))
            for problem in problems(words, plan.release):
                wrong += 1
                print(f"{plan.release.name}: {problem}")
    print(
        f"{given.plans} plans for {len(releases)} releases, {options.total()} options of "
        f"{len(options)} kinds: {wrong} not in the release's table"
    )


if __name__ == "__main__":
    main()
