"""A server that runs already: what it is, from what it tells, and a validation that only asks it.

Nothing of it is changed or stopped. Without its command the plan is made from what it tells: the
model, the context, the cache's settings, and in development mode all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event as Flag
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from hardware_db import NoGpuDetected, Rig, find_rig
from planner.command.parse import read_command
from planner.diagnosis.check import check_command
from planner.errors import PlanError
from planner.findings import Finding, Severity
from planner.launch.client import Client, ServerError
from planner.launch.facts import Failure, LaunchFacts
from planner.launch.fixes import logged_words
from planner.launch.installation import Installation, find_installation
from planner.launch.learning import observe
from planner.launch.metrics import CacheConfig, read_metrics, server_settings
from planner.launch.preflight import Preflight, usual_workload
from planner.launch.probe import Probe
from planner.launch.progress import Observer, ignore
from planner.launch.terms import compare
from planner.launch.usage import Watch, meter
from planner.launch.validation import Validation, ask, failed_request
from planner.workload import Workload

_URL: Final = re.compile(r"https?://[^\s/]+(?:/[\w./-]*)?")
# Settings of /server_info by the option that sets them, and the part they stand in.
_TOLD: Final = {
    "--tensor-parallel-size": ("parallel_config", "tensor_parallel_size"),
    "--pipeline-parallel-size": ("parallel_config", "pipeline_parallel_size"),
    "--data-parallel-size": ("parallel_config", "data_parallel_size"),
    "--max-num-seqs": ("scheduler_config", "max_num_seqs"),
    "--max-num-batched-tokens": ("scheduler_config", "max_num_batched_tokens"),
    "--kv-cache-memory-bytes": ("cache_config", "kv_cache_memory_bytes"),
    "--gpu-memory-utilization": ("cache_config", "gpu_memory_utilization"),
    "--num-gpu-blocks-override": ("cache_config", "num_gpu_blocks_override"),
}
_LABELS: Final = {
    "--kv-cache-memory-bytes": "kv_cache_memory_bytes",
    "--gpu-memory-utilization": "gpu_memory_utilization",
    "--num-gpu-blocks-override": "num_gpu_blocks_override",
}


def attach(
    url: str,
    key: str,
    words: Sequence[str] = (),
    gpu: str = "auto",
    *,
    workload: Workload | None = None,
    log: LaunchFacts | None = None,
) -> tuple[Preflight, Client]:
    """The plan of the server at a URL, which may be on another machine.

    `words` is its command, if known; `gpu` its hardware; `log` what its log tells. Raises
    `PlanError` where it does not answer as vLLM does, or the log is that of another server.
    """
    if not _URL.fullmatch(url) or not _has_port(url):
        raise PlanError(f"--attach {url}: a server looks like http://127.0.0.1:8000")
    client = Client(url.rstrip("/").removesuffix("/v1"), key)
    try:
        release = str(client.json("/version")["version"])
        _same(log, release, read_metrics(client).cache)
        told = list(words or (logged_words(log) if log and log.model else _words(client)))
    except (ServerError, LookupError, TypeError) as error:
        hint = "; its key is read from VLLM_API_KEY" if getattr(error, "status", 0) == 401 else ""
        raise PlanError(f"no vLLM answers at {url}: {error}{hint}") from None
    command = read_command(told, release)
    rig = _unused(_rig(gpu, release))
    check = check_command(command, rig)
    source = "its log names" if log is not None and log.model else "the server tells"
    text = f"the settings are those that {source}; its command after -- makes the plan exact"
    findings = () if words else (Finding("attached", Severity.INFO, text),)
    python = None
    with suppress(PlanError):
        python = find_installation(()).python
    is_cpu = rig.smallest.gpu.vendor == "cpu"
    installation = Installation((), release, is_cpu, python)
    preflight = Preflight(
        tuple(told),
        check,
        installation,
        tuple(told),
        (),
        urlsplit(client.url).port or 0,
        workload or usual_workload(check.memory),
        findings,
    )
    return preflight, client


def validate_attached(
    preflight: Preflight,
    client: Client,
    folder: Path,
    *,
    log: LaunchFacts | None = None,
    requests: int | None = None,
    observer: Observer = ignore,
    cancel: Flag | None = None,
) -> Validation:
    """Ask a server that runs, and compare, also with what its `log` tells.

    Raises `PlanError` where there is no plan to it.
    """
    memory = preflight.check.memory
    if memory is None:
        raise PlanError("there is no plan for this server: see its findings")
    began = datetime.now(UTC)
    answers: Probe | None = None
    failure: Failure | None = None
    facts = log or LaunchFacts(release=preflight.installation.release)
    with meter(preflight.check.rig, list) as reading, Watch(reading, observer) as watch:
        try:
            with watch.busy():
                answers = ask(preflight, client, folder, requests, observer, cancel)
        except ServerError as error:
            failure = failed_request(error)
        usage = watch.stop()
    terms = (
        compare(memory, facts, answers, preflight.check.command.synthetic)
        if answers is not None
        else ()
    )
    learned = observe(preflight.check, facts, answers)
    return Validation(
        preflight, began, folder, facts, answers, terms, None, failure, usage, learned,
        attached=True,
    )  # fmt: skip


def _has_port(url: str) -> bool:
    """Whether what stands for host and port can be one."""
    try:
        _ = urlsplit(url).port
    except ValueError:
        return False
    return True


def _same(log: LaunchFacts | None, release: str, cache: CacheConfig | None) -> None:
    """Whether a log is that of the server. Raises `PlanError` if it is not."""
    if log is None:
        return
    if log.release is not None and log.release.split("+")[0] != release.split("+")[0]:
        raise PlanError(f"the log is of another server: of vLLM {log.release}, not {release}")
    tokens = cache.tokens if cache is not None else None
    if tokens is not None and log.kv_tokens is not None and tokens != log.kv_tokens:
        raise PlanError(
            f"the log is of another start: its KV cache has {log.kv_tokens:,} tokens, the "
            f"server's {tokens:,}"
        )


def _words(client: Client) -> Iterator[str]:
    """A command that the server might have been started with."""
    listed = client.json("/v1/models")["data"][0]
    yield from ("vllm", "serve", str(listed.get("root") or listed["id"]))
    if isinstance(listed.get("max_model_len"), int):
        yield from ("--max-model-len", str(listed["max_model_len"]))
    cache = read_metrics(client).cache
    labels = cache.labels if cache is not None else {}
    settings = server_settings(client)
    if settings is None:
        given: dict[str, Any] = {option: labels.get(label) for option, label in _LABELS.items()}
    else:
        given = {option: _part(settings, part).get(name) for option, (part, name) in _TOLD.items()}
        if _part(settings, "model_config").get("enforce_eager") is True:
            yield "--enforce-eager"
    for option, value in given.items():
        if value not in (None, "None", ""):
            yield from (option, str(value))
    if labels.get("user_specified_block_size") == "True":
        yield from ("--block-size", labels["block_size"])
    if labels.get("cache_dtype", "auto") != "auto":
        yield from ("--kv-cache-dtype", labels["cache_dtype"])
    if labels.get("enable_prefix_caching") == "False":
        yield "--no-enable-prefix-caching"


def _part(settings: dict[str, Any], name: str) -> dict[str, Any]:
    part = settings.get(name)
    return part if isinstance(part, dict) else {}


def _rig(gpu: str, release: str) -> Rig:
    if gpu != "auto":
        return find_rig(gpu)
    if "cpu" in release:
        return find_rig("cpu")
    try:
        return find_rig("auto")
    except NoGpuDetected:
        return find_rig("cpu")


def _unused(rig: Rig) -> Rig:
    """As the server found it: what is taken now, it has taken."""
    devices = tuple(replace(device, free_bytes=None) for device in rig.devices)
    return replace(rig, devices=devices)
