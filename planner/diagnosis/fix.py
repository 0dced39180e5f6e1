"""A command corrected: what vLLM does not take replaced or left out, then what makes it start.

Every step is tried: the corrected command is read and judged as if it had been pasted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hardware_db import Rig
from planner.command.parse import ServeCommand, read_command
from planner.command.render import Command, Flag
from planner.command.rewrite import Change, Rewrite
from planner.command.secrets import SECRET_OPTIONS
from planner.diagnosis.check import Check, check_command
from planner.engine import model_runner
from planner.engine.flags import accepts_flag
from planner.engine.options import (
    has_config_key,
    has_speculative_key,
    has_speculative_method,
    knows_variable,
)
from planner.engine.refusal import RefusalKind
from planner.engine.replacements import (
    compilation_key,
    dropped_key,
    dropped_method,
    variable_instead,
)
from planner.engine.variables import unreadable
from planner.findings import Finding, Severity
from planner.memory.verdict import Answer
from planner.recommendation.layouts import layouts

_ROUNDS: Final = 4  # of trying and mending


class Fixed(Struct, frozen=True):
    """A corrected command, what it has otherwise, and the verdict on it."""

    command: Command  # without secrets
    environ: tuple[tuple[str, str], ...]
    changes: tuple[Change, ...]
    check: Check

    @property
    def mended(self) -> bool:
        """Whether it is expected to start."""
        return self.check.answer is Answer.YES


def fix_command(command: ServeCommand, rig: Rig, *, offline: bool = False) -> Fixed:
    """Correct a command. Raises `CardError` and `PlanError` as `check_command` does."""
    rewrite = Rewrite(command)
    for dest in ("api_key", "hf_token"):
        variable = SECRET_OPTIONS[f"--{dest.replace('_', '-')}"]
        rewrite.drop(dest, f"set {variable} where it runs: a command line can be read by all")
    _correct_speculation(rewrite)
    _correct_compilation(rewrite)
    for name in [name for name in rewrite.environ if name.startswith("VLLM_")]:
        if not knows_variable(name, rewrite.release):
            rewrite.drop_variable(name, variable_instead(name) or "this vLLM does not read it")
    check = _judged(rewrite, rig, offline)
    for _ in range(_ROUNDS):
        if not _mend(rewrite, check, rig):
            break
        check = _judged(rewrite, rig, offline)
    _keep_graphs(rewrite, check, rig, offline)
    check = _judged(rewrite, rig, offline)
    environ = tuple(rewrite.environ.items())
    return Fixed(rewrite.command(), environ, tuple(rewrite.changes), check)


def _judged(rewrite: Rewrite, rig: Rig, offline: bool) -> Check:
    again = read_command(rewrite.argv(), rewrite.release.name)
    return check_command(again, rig, offline=offline)


def _correct_speculation(rewrite: Rewrite) -> None:
    """Keys and methods of `--speculative-config` that the release does not have."""
    config, release = rewrite.json("speculative_config"), rewrite.release
    if config.get("method") == "eagle2":
        config["method"] = "eagle"
        rewrite.note('"method": "eagle2" -> "eagle"', str(dropped_method("eagle2")))
    method = config.get("method")
    dropped = dropped_method(method) if isinstance(method, str) else None
    if dropped is not None and not has_speculative_method(str(method), release):
        rewrite.drop("speculative_config", dropped)
        return
    for key in [key for key in config if not has_speculative_key(key, release)]:
        value = config.pop(key)
        rewrite.note(
            f'"{key}": {value!r} in --speculative-config: left out',
            dropped_key(key) or f"vLLM {release.name} has no such key",
        )
    if "tensor_parallel_size" in config:
        config["draft_tensor_parallel_size"] = config.pop("tensor_parallel_size")
        why = str(dropped_key("tensor_parallel_size"))
        rewrite.note('"tensor_parallel_size" -> "draft_tensor_parallel_size"', why)


def _correct_compilation(rewrite: Rewrite) -> None:
    config, release = rewrite.json("compilation_config"), rewrite.release
    for key in [key for key in config if not has_config_key("compilation_config", key, release)]:
        value = config.pop(key)
        why, into = compilation_key(key) or (f"vLLM {release.name} has no such key", None)
        if into is not None and has_config_key("compilation_config", into, release):
            config[into] = value
            rewrite.note(f'"{key}" -> "{into}" in --compilation-config', why)
        else:
            rewrite.note(f'"{key}" in --compilation-config: left out', why)
    if rewrite.has("compilation_config") and not config and rewrite.changes:
        rewrite.drop("compilation_config", "nothing is left of it")


def _mend(rewrite: Rewrite, check: Check, rig: Rig) -> bool:
    """One change that the verdict asks for; False if there is none, or none is needed."""
    before = len(rewrite.changes)
    for finding in check.findings:
        mend = _MENDS.get(finding.code)
        if mend is not None and finding.severity is not Severity.INFO:
            mend(rewrite, check, finding)
            if len(rewrite.changes) > before:
                return True
    if check.answer is Answer.YES or not check.remedies or check.memory is None:
        return False
    remedy = check.remedies[0]
    given = remedy.memory.config.given
    why = check.memory.starts.reason
    if remedy.memory.card.model_id != check.card.model_id:
        rewrite.note(f"{rewrite.model} -> {remedy.memory.card.model_id}", why)
        rewrite.model = remedy.memory.card.model_id
        rewrite.drop("quantization", "the checkpoint says how it is quantized")
        rewrite.drop("revision", "it is one of the other checkpoint")
        why = "so that this checkpoint starts"
    rewrite.settle(check.config, given, why)
    return len(rewrite.changes) > before


def _fewer_ranks(rewrite: Rewrite, check: Check, finding: Finding) -> None:
    """As many GPUs as there are, in a layout that suits the model."""
    found = layouts(check.card, check.rig)
    if not found:
        return
    layout = max(found, key=lambda each: (each.tensor * each.pipeline, each.tensor))
    config = replace(
        check.config,
        tensor_parallel_size=layout.tensor,
        pipeline_parallel_size=layout.pipeline,
        data_parallel_size=1,
        data_parallel_size_local=None,
    )
    rewrite.settle(check.config, config, finding.text)


def _over_nodes(rewrite: Rewrite, check: Check, finding: Finding) -> None:
    """Tell vLLM of the other machines, as its release takes it."""
    config, rig, release = check.config, check.rig, check.command.release
    here, world = len(rig.devices), config.world_size
    replicas = config.data_parallel_size > 1 and world <= here
    if accepts_flag(release, "--nnodes"):
        changed = replace(config, nnodes=rig.nodes, data_parallel_size_local=None)
    elif replicas and accepts_flag(release, "--data-parallel-size-local"):
        changed = replace(config, data_parallel_size_local=here // world)
    else:
        changed = replace(config, distributed_executor_backend="ray")
    rewrite.settle(config, changed, f"{finding.text}; --format command writes each machine's line")


def _no_longer(rewrite: Rewrite, check: Check, finding: Finding) -> None:
    config = replace(check.config, max_model_len=check.card.max_model_len)
    rewrite.settle(check.config, config, finding.text)


def _half(rewrite: Rewrite, check: Check, finding: Finding) -> None:
    if check.config.dtype == "bfloat16":
        rewrite.settle(check.config, replace(check.config, dtype="half"), finding.text)


def _larger_batch(rewrite: Rewrite, check: Check, finding: Finding) -> None:
    config = check.config
    if config.enable_chunked_prefill is False:
        changed = replace(config, enable_chunked_prefill=None)
    else:
        changed = replace(config, max_num_batched_tokens=config.max_num_seqs)
    rewrite.settle(config, changed, finding.text)


def _plain_cache(rewrite: Rewrite, check: Check, finding: Finding) -> None:
    config = replace(check.config, kv_cache_dtype="auto", block_size=None)
    rewrite.settle(check.config, config, finding.text)


def _own_quantization(rewrite: Rewrite, check: Check, finding: Finding) -> None:
    rewrite.settle(check.config, replace(check.config, quantization=None), finding.text)


def _without_experts(rewrite: Rewrite, check: Check, finding: Finding) -> None:
    config = replace(
        check.config, enable_expert_parallel=False, enable_eplb=False, eplb_config=None
    )
    rewrite.settle(check.config, config, finding.text)


def _without_draft(rewrite: Rewrite, check: Check, finding: Finding) -> None:
    rewrite.drop("speculative_config", finding.text)


def _as_target(rewrite: Rewrite, check: Check, finding: Finding) -> None:
    if rewrite.json("speculative_config").pop("draft_tensor_parallel_size", None) is not None:
        rewrite.note('"draft_tensor_parallel_size": left out', finding.text)


def _graphs_in_tokens(rewrite: Rewrite, check: Check, finding: Finding) -> None:
    assert check.memory is not None
    speculation, most = check.memory.config.speculation, check.memory.config.max_num_seqs
    assert speculation is not None
    tokens = most * speculation.query_len
    for dest in ("cudagraph_capture_sizes", "cuda_graph_sizes"):
        rewrite.drop(dest, finding.text)
    inside = rewrite.json("compilation_config")
    for key in ("cudagraph_capture_sizes", "max_cudagraph_capture_size"):
        inside.pop(key, None)
    flag = Flag("--max-cudagraph-capture-size", str(tokens), "")
    rewrite.set(flag, "max_cudagraph_capture_size", finding.text)


def _one_of_two(rewrite: Rewrite, check: Check, finding: Finding) -> None:
    for name, dest, key in (
        ("cudagraph_capture_sizes", "compilation_config", "cudagraph_capture_sizes"),
        ("max_cudagraph_capture_size", "compilation_config", "max_cudagraph_capture_size"),
        ("attention_backend", "attention_config", "backend"),
    ):
        if rewrite.has(name) and rewrite.json(dest).pop(key, None) is not None:
            rewrite.note(f'"{key}" in --{dest.replace("_", "-")}: left out', finding.text)


def _keep_graphs(rewrite: Rewrite, check: Check, rig: Rig, offline: bool) -> None:
    """CUDA graphs back, if it starts with them as well."""
    if not check.config.enforce_eager or not rewrite.has("enforce_eager"):
        return
    if any("--enforce-eager" in change.what for change in rewrite.changes):
        return  # it is what makes it start
    given = read_command(rewrite.argv(), rewrite.release.name)
    tried = replace(given, config=replace(given.config, enforce_eager=False))
    if check_command(tried, rig, offline=offline).answer is Answer.YES:
        rewrite.drop("enforce_eager", "it starts with CUDA graphs too, and is faster with them")


# What mends a finding, by its code.
def _without_unreadable(rewrite: Rewrite, check: Check, finding: Finding) -> None:
    for name, value in list(rewrite.environ.items()):
        why = unreadable(name, value, rewrite.release)
        if why is not None:
            rewrite.drop_variable(name, why)


def _usual_runner(rewrite: Rewrite, check: Check, finding: Finding) -> None:
    rewrite.drop_variable(model_runner.VARIABLE, finding.text)


_MENDS: Final[dict[str, Callable[[Rewrite, Check, Finding], None]]] = {
    "world_size": _fewer_ranks,
    RefusalKind.HEADS.value: _fewer_ranks,
    RefusalKind.DIVISIBLE.value: _fewer_ranks,
    RefusalKind.PIPELINE.value: _fewer_ranks,
    RefusalKind.NODES.value: _over_nodes,
    RefusalKind.MAX_MODEL_LEN.value: _no_longer,
    RefusalKind.DTYPE.value: _half,
    RefusalKind.BATCH.value: _larger_batch,
    RefusalKind.BACKEND.value: _plain_cache,
    RefusalKind.QUANTIZATION.value: _own_quantization,
    RefusalKind.EXPERTS.value: _without_experts,
    RefusalKind.VOCABULARY.value: _without_draft,
    RefusalKind.SPECULATION.value: _without_draft,
    "draft_ranks": _as_target,
    "graphs_in_sequences": _graphs_in_tokens,
    "conflicting_options": _one_of_two,
    "bad_variable": _without_unreadable,
    RefusalKind.MODEL_RUNNER.value: _usual_runner,
}
