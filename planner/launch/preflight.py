"""Before a launch: which vLLM, does the command start by the plan, and what exactly is run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hardware_db import HardwareError, find_rig
from planner.command.arguments import read_arguments
from planner.command.invocation import read_invocation, split_text
from planner.command.lint_variables import lint_variables
from planner.command.parse import read_command
from planner.command.secrets import STARS, is_secret, redacted
from planner.diagnosis.check import Check, check_command
from planner.engine.variables import is_typed_variable
from planner.errors import PlanError
from planner.findings import Finding, Severity
from planner.launch.client import HOST
from planner.launch.download import Download, about_download
from planner.launch.installation import Installation, find_installation
from planner.launch.ports import free_port, is_free
from planner.memory.plan import MemoryPlan
from planner.memory.verdict import Answer
from planner.workload import Workload, use_case_workload

# Where it listens and who may ask is ours to say. A key of the command stays out of sight.
_OURS: Final = ("--host", "--port", "--uds", "--ssl-keyfile", "--ssl-certfile", "--ssl-ca-certs")
_API_KEY: Final = "--api-key"
_HF_TOKEN: Final = "--hf-token"
_SHORTEST: Final = 6  # characters of an option before an abbreviation is taken for it
_USUAL_CONCURRENCY: Final = 8


class Preflight(Struct, frozen=True):
    """A launch that is ready to go, or the findings that forbid it.

    `words` are the command as it was asked for, `argv` what is run.
    """

    words: tuple[str, ...]
    check: Check
    installation: Installation
    argv: tuple[str, ...]
    environ: tuple[tuple[str, str], ...]  # added to ours
    port: int
    workload: Workload
    findings: tuple[Finding, ...] = ()
    download: Download | None = None
    after: tuple[str, ...] = ()  # what ends what the command may leave elsewhere

    def __repr__(self) -> str:  # `environ` may hold tokens and keys
        return f"Preflight(words={self.words!r}, port={self.port!r})"

    @property
    def forbidden(self) -> bool:
        """Whether the plan says that it does not start."""
        return self.check.answer is Answer.NO or any(
            finding.severity is Severity.ERROR for finding in self.findings
        )

    def shown(self) -> str:
        """The command for a shell, without secrets."""
        assigned = [
            f"{name}={STARS if is_secret(name) else shlex.quote(value)}"
            for name, value in self.environ
        ]
        return redacted(" ".join([*assigned, shlex.join(self.argv)]))


def prepare(
    words: Sequence[str],
    gpu: str = "auto",
    *,
    launcher: Sequence[str] = (),
    workload: Workload | None = None,
) -> Preflight:
    """Examine a command and say what will be run.

    `gpu` is "auto", "cpu", or the name of what may not be detected here (Intel's); `launcher`
    the words that stand in front of vLLM (see `find_installation`); `workload` what the server is
    asked, else what is usual. Raises
    `PlanError` where there is nothing to run, `CardError` for an unknown model, `HardwareError`
    where no GPU is found.
    """
    if len(words) == 1:
        words = split_text(words[0])
    _refuse_elsewhere(gpu)
    installation = find_installation(words, launcher)
    command = read_command(words, installation.release)
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("VLLM_") or is_typed_variable(name)
    }
    environ = inherited | dict(command.environ)
    command = replace(command, environ=tuple(environ.items()))
    invocation = read_invocation(words)
    container = installation.container
    visible = container.gpus if container is not None else None
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):  # the latter is AMD's
        visible = invocation.variables.get(name, visible)
    rig = find_rig("cpu" if installation.is_cpu_build else gpu, visible=visible)
    check = check_command(command, rig)
    settings = read_arguments(invocation.arguments, command.release).settings
    asked = settings.get("port")
    port = asked if isinstance(asked, int) and asked > 0 else free_port()
    given = dict(invocation.environ)
    arguments = _without_ours(invocation.arguments, command.model, given)
    if installation.takes_model_as_option:
        arguments = _model_as_option(arguments, command.model)
    head, host = installation.argv, HOST
    if container is not None:
        head, host = container.argv(port, list(given)), container.host
    download = about_download(
        check.card, command.revision, settings.get("load_format") == "dummy", given
    )
    return Preflight(
        tuple(words),
        check,
        installation,
        (*head, *arguments, "--host", host, "--port", str(port)),
        tuple(given.items()),
        port,
        workload or usual_workload(check.memory),
        (
            *_about_port(port),
            *lint_variables(inherited, command.release),
            *(download.findings if download is not None else ()),
        ),
        download,
        container.removal if container is not None else (),
    )


def gpu_of_launch(planned: str) -> str:
    """What `prepare` takes for hardware that is planned for: what this machine tells, if it does.

    AMD's driver may not tell it in a container, Intel's never does: there its name is believed.
    """
    try:
        vendor = find_rig(planned).smallest.gpu.vendor
    except HardwareError:
        return "auto"
    if vendor == "amd":
        return "auto" if _is_here(vendor) else planned
    return {"cpu": "cpu", "nvidia": "auto"}.get(vendor, planned)


def _is_here(vendor: str) -> bool:
    try:
        return find_rig("auto").smallest.gpu.vendor == vendor
    except HardwareError:
        return False


def _refuse_elsewhere(gpu: str) -> None:
    """A launch is on this machine: what can be asked for its hardware is."""
    if gpu in ("auto", "cpu") or find_rig(gpu).smallest.gpu.vendor not in ("nvidia", "cpu"):
        return
    raise PlanError(
        f"--gpu {gpu}: a launch is on this machine, which tells what it has: auto or cpu"
    )


def _about_port(port: int) -> Iterator[Finding]:
    if not is_free(port):
        fix = f"--port {free_port()}, or leave it out"
        yield Finding("port", Severity.ERROR, f"port {port} is in use", fix)


def usual_workload(memory: MemoryPlan | None) -> Workload:
    """A chat's lengths, with as many at once as tell something and the cache holds."""
    usual = use_case_workload("chat")
    if memory is None:
        return usual
    held = memory.expected_requests_at(min(usual.total_tokens, memory.kv_cache.max_model_len))
    at_once = int(max(1, min(_USUAL_CONCURRENCY, held, memory.config.max_num_seqs)))
    return replace(usual, concurrency=at_once)


def _without_ours(words: Sequence[str], model: str, environ: dict[str, str]) -> list[str]:
    """Arguments without those that are set here; a Hub token moves to the environment."""
    kept: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        name, equals, value = word.partition("=")
        option = _option(name)
        at += 1
        if option is None:
            kept.append(word)
            continue
        if not equals and at < len(words):
            value = words[at]
            at += 1
        while option == _API_KEY and at < len(words) and words[at][:1] not in ("-", ""):
            if words[at] == model:
                break
            at += 1
        if option == _HF_TOKEN:
            environ["HF_TOKEN"] = value
    return kept


def _option(name: str) -> str | None:
    """The option that is ours and that a word names, perhaps abbreviated."""
    name = name.replace("_", "-")
    for option in (*_OURS, _API_KEY, _HF_TOKEN):
        if name == option or (len(name) >= _SHORTEST and option.startswith(name)):
            return option
    return None


def _model_as_option(arguments: Sequence[str], model: str) -> list[str]:
    """`MODEL --option ...` as `--model MODEL --option ...`."""
    if any(word.partition("=")[0] in ("--model", "--model-tag") for word in arguments):
        return list(arguments)
    places = [at for at, word in enumerate(arguments) if word == model]
    if not places:
        return ["--model", model, *arguments]
    first, *_ = [at for at in places if at == 0 or arguments[at - 1][:1] != "-"] or places
    return ["--model", model, *arguments[:first], *arguments[first + 1 :]]


def server_environment(
    added: Sequence[tuple[str, str]], api_key: str, ours: Mapping[str, str]
) -> dict[str, str]:
    """The environment of the server: ours, what the command adds, and its key."""
    return {**ours, **dict(added), "VLLM_API_KEY": api_key}
