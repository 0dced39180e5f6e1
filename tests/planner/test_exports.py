"""Every format, given to what will read it: schemas, clients and parsers of others.

Then the launch that is read back must be the one that was planned.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
from exported import (
    LAUNCHES,
    WITHOUT_RAY_SERVE,
    documents,
    expanded,
    interpolated,
    launch,
    pods,
)
from launches import bundled, plan
from msgspec.structs import replace

from hardware_db import find_rig
from model_cards.card import Origin
from planner import EngineConfig, MemoryPlan, PlanError, plan_memory
from planner.command.exports import FORMATS, export
from planner.command.exports.systemd import BIN
from planner.command.parse import ServeCommand, read_command
from planner.command.render import Command, Flag, render_command
from planner.engine.options import known_option

SCHEMAS = json.loads((Path(__file__).parent.parent / "data" / "crds.json").read_text())
COMPOSE = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
KUBERNETES = kubernetes_validate.latest_version()
# What the client says once it has taken every option and finds no engine; a device needs its OS.
_ENGINE_ASKED = ("Cannot connect to the Docker daemon", "unknown server OS")


def config_of(memory: MemoryPlan) -> EngineConfig:
    """The settings that the command of a plan states."""
    return read_command(render_command(memory).argv, memory.release.name).config


def assert_same(read: ServeCommand, memory: MemoryPlan) -> None:
    assert read.findings == ()
    assert read.config == config_of(memory)
    assert read.model == render_command(memory).model


def read(words: list[str], memory: MemoryPlan) -> ServeCommand:
    """A command read back, without what only says which machine it is."""
    kept, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word in ("--master-addr", "--node-rank"):
            skip = True
        elif word != "--headless":
            kept.append(word)
    return read_command(kept, memory.release.name)


def run_by_bash(script: str, environ: dict[str, str]) -> list[str]:
    """The words with which a script starts vLLM."""
    started = f"vllm() {{ printf '%s\\0' vllm \"$@\"; }}; {script.removeprefix('exec ')}"
    run = subprocess.run(
        ["bash", "-c", started], capture_output=True, text=True, env=environ, check=True
    )
    return run.stdout.split("\0")[:-1]


@pytest.mark.parametrize("name", LAUNCHES)
def test_the_shell_gets_the_command(name: str) -> None:
    memory = launch(name)
    text = export(memory, "command")
    commands = [part for part in text.replace("\\\n", "").splitlines() if "vllm serve" in part]
    machines = 1 if "Ray" in name else memory.rig.nodes
    assert len(commands) == machines
    for rank, command in enumerate(commands):
        words = shlex.split(command)
        assert_same(read(words, memory), memory)
        assert ("--headless" in words) == (rank > 0)
        if memory.config.given.nnodes > 1:
            assert words[words.index("--node-rank") + 1] == str(rank)
        elif machines > 1 and rank:
            first = rank * (memory.config.given.data_parallel_size_local or 0)
            assert words[words.index("--data-parallel-start-rank") + 1] == str(first)


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_config_file_is_the_command(name: str, tmp_path: Path) -> None:
    memory = launch(name)
    file = tmp_path / "vllm.yaml"
    file.write_text(export(memory, "yaml"))
    words = ["vllm", "serve", "--config", str(file)]
    assert_same(read_command(words, memory.release.name), memory)


@pytest.mark.parametrize("name", LAUNCHES)
def test_docker_knows_every_option(name: str) -> None:
    memory = launch(name)
    commands = [
        command for command in export(memory, "docker").replace("\\\n", "").splitlines()
        if command.startswith("docker run")
    ]  # fmt: skip
    assert len(commands) == memory.rig.nodes
    for command in commands:
        words = shlex.split(command.replace("$HOME", "/root"))
        if shutil.which("docker"):  # the client reads its options before it asks for an engine
            dead = {"DOCKER_HOST": "unix:///nowhere/docker.sock", "PATH": "/usr/local/bin:/usr/bin"}
            run = subprocess.run(words, capture_output=True, text=True, env=dead, check=False)
            assert any(text in run.stderr for text in _ENGINE_ASKED), run.stderr
        if "bash" not in words:
            at = words.index("--entrypoint")
            assert words[at + 1] == "vllm"
            assert_same(read(["vllm", *words[at + 3 :]], memory), memory)


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_compose_file_obeys_the_specification(name: str) -> None:
    memory = launch(name)
    (content,) = documents(export(memory, "compose"))
    jsonschema.validate(content, json.loads(COMPOSE.read_text()))
    several = memory.rig.nodes > 1
    services = content["services"]
    assert set(services) == ({"first", "other"} if several else {"vllm"})
    environ = {"HEAD_ADDRESS": "10.0.0.1", "HOME": "/root"}
    for each, service in services.items():
        words = [interpolated(w, environ) for w in service["entrypoint"] + service["command"]]
        if words[0] == "bash" and "on Ray" not in name:
            assert each == "other"
            number = {key: interpolated(value or "", {**environ, "NODE_RANK": "3"})
                      for key, value in service["environment"].items()}  # fmt: skip
            words = run_by_bash(words[2], number)
            assert words[-3:] == ["--data-parallel-start-rank", "6", "--headless"]
        elif words[0] == "bash":
            assert words[2].startswith("until ray start" if each == "other" else "ray start --head")
            continue
        assert_same(read(words, memory), memory)
        assert ("--headless" in words) == (each == "other")


@pytest.mark.parametrize("name", LAUNCHES)
def test_kubernetes_accepts_the_manifests(name: str) -> None:
    memory = launch(name)
    content = documents(export(memory, "kubernetes"))
    kinds = {document["kind"] for document in content}
    several = len(memory.rig.devices) < memory.config.given.world_size * (
        memory.config.given.data_parallel_size
    )
    assert kinds == (
        {"LeaderWorkerSet", "Service"} if several
        else {"PersistentVolumeClaim", "Deployment", "Service"}
    )  # fmt: skip
    for document in content:
        _assert_valid(document)
    environ = {"LWS_LEADER_ADDRESS": "vllm-0.vllm", "LWS_WORKER_INDEX": "1"}
    served = [pod["spec"]["containers"][0] for document in content for pod in pods(document)]
    gpus = 0
    for number, container in enumerate(served):
        limits = container["resources"].get("limits", {})
        gpus += sum(int(count) for count in limits.values()) * (
            memory.rig.nodes - 1 if number else 1
        )
        words = [expanded(w, environ) for w in container["command"] + container["args"]]
        if words[0] == "bash" and "on Ray" not in name:  # the second of four machines of two
            words = run_by_bash(words[2], environ)
            assert words[-3:] == ["--data-parallel-start-rank", "2", "--headless"]
        if words[0] == "vllm":
            assert_same(read(words, memory), memory)
            assert ("--headless" in words) == (number > 0)
    asked = memory.config.given.world_size * memory.config.given.data_parallel_size
    assert gpus == (0 if name == "a CPU" else asked)


@pytest.mark.parametrize("name", [name for name in LAUNCHES if name not in WITHOUT_RAY_SERVE])
def test_ray_gets_the_settings_as_keywords(name: str) -> None:
    memory = launch(name)
    (content,) = documents(export(memory, "ray"))
    if content.get("kind") == "RayService":
        _assert_valid(content)
        (content,) = documents(content["spec"]["serveConfigV2"])
    (application,) = content["applications"]
    arguments = application["args"]
    replicas = memory.config.given.data_parallel_size
    builder = "build_dp_openai_app" if replicas > 1 else "build_openai_app"
    assert application["import_path"] == f"ray.serve.llm:{builder}"
    model = arguments["llm_config"] if replicas > 1 else arguments["llm_configs"][0]
    assert model["model_loading_config"]["model_source"] == memory.card.model_id
    given = {
        known_option(flag.name).dest: flag  # type: ignore[union-attr]
        for flag in render_command(memory).flags
    }
    rays = {"nnodes", "distributed_executor_backend", "data_parallel_size_local"}
    assert set(model["engine_kwargs"]) == set(given) - rays
    for keyword, value in model["engine_kwargs"].items():
        written = given[keyword].value
        if isinstance(value, bool):
            assert written is None
        else:
            assert str(value) == written or value == json.loads(written or "")


def _assert_valid(document: dict[str, Any]) -> None:
    known = SCHEMAS.get(document["kind"])
    if known is None:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
        return
    assert document["apiVersion"] == known["apiVersion"]
    jsonschema.validate(document, known["schema"])
    assert pods(document)
    for pod in pods(document):
        metadata = {"name": "pod", **pod.get("metadata", {})}
        whole = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}
        kubernetes_validate.validate(whole, KUBERNETES, strict=True)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd")
@pytest.mark.parametrize("name", LAUNCHES)
def test_systemd_verifies_the_unit(name: str, tmp_path: Path) -> None:
    unit = tmp_path / "vllm.service"
    text = export(launch(name), "systemd")
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in ("vllm", "ray"):
        (programs / program).symlink_to("/bin/true")
    unit.write_text(text.replace(BIN, str(programs)))
    run = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    complaints = [line for line in run.stderr.splitlines() if "vllm.service" in line]
    assert (run.returncode, complaints) == (0, [])


@pytest.mark.parametrize("name", LAUNCHES)
def test_the_unit_starts_the_command(name: str) -> None:
    """systemd takes words apart as a shell does, but for its own $ and %."""
    memory = launch(name)
    joined = export(memory, "systemd").replace("\\\n", "")
    (line,) = [each for each in joined.splitlines() if each.startswith("ExecStart=")]
    words = [word.replace("$$", "$").replace("%%", "%") for word in shlex.split(line)]
    program, *rest = words[0].removeprefix("ExecStart="), *words[1:]
    assert program == f"{BIN}/vllm"
    assert (rest[-1] == "$VLLM_NODE") == (memory.rig.nodes > 1 and "Ray" not in name)
    given = rest[:-1] if rest[-1] == "$VLLM_NODE" else rest
    assert_same(read_command(["vllm", *given], memory.release.name), memory)


def test_names_and_folders_that_shells_and_files_would_take_apart(tmp_path: Path) -> None:
    """A folder with a space, a quote, a dollar and a percent sign."""
    folder = tmp_path / "my $(HOME) ${x} model's 100%"
    folder.mkdir()
    card = bundled("Qwen/Qwen3-0.6B")
    card = replace(card, model_id=str(folder), origin=Origin("folder", str(folder)))
    memory = plan_memory(card, find_rig("4090"), EngineConfig(max_model_len=4096))
    assert shlex.split(export(memory, "command").replace("\\\n", ""))[2] == str(folder)
    (compose,) = documents(export(memory, "compose"))
    service = compose["services"]["vllm"]
    assert interpolated(service["command"][0], {}) == str(folder)
    assert interpolated(service["volumes"][1]["source"], {}) == str(folder)
    deployment = documents(export(memory, "kubernetes"))[1]
    assert expanded(pods(deployment)[0]["spec"]["containers"][0]["args"][0], {}) == str(folder)
    assert f"serve '{folder}" not in export(memory, "docker")
    assert str(folder).replace("%", "%%").replace("$", "$$") in export(memory, "systemd")


def test_no_secret_is_written() -> None:
    memory = plan("Qwen/Qwen3-8B", "4090", max_model_len=8192)
    command = render_command(memory)
    command = Command(
        command.model,
        (*command.flags, Flag("--api-key", "sk-secret", "", ("sk-other",)),
         Flag("--hf-token", "hf_secret", "")),
    )  # fmt: skip
    environ = (
        ("HF_TOKEN", "hf_secret"),
        ("VLLM_API_KEY", "sk-secret"),
        ("VLLM_LOGGING_LEVEL", "D"),
    )
    for format in FORMATS:
        text = export(memory, format, command=command, environ=environ)
        assert "secret" not in text.replace("secretKeyRef", "").replace("create secret", "")
        assert "sk-other" not in text
        assert format == "yaml" or "VLLM_LOGGING_LEVEL" in text


def test_where_the_server_listens() -> None:
    """A port that was given is published; a container has no address of the machine."""
    memory = plan("Qwen/Qwen3-8B", "4090", max_model_len=8192)
    given = (Flag("--port", "9000", ""), Flag("--host", "127.0.0.1", ""))
    command = Command(memory.card.model_id, (*render_command(memory).flags, *given))
    texts = {format: export(memory, format, command=command) for format in FORMATS}
    assert "--publish 127.0.0.1:9000:9000" in texts["docker"]
    assert "- 127.0.0.1:9000:9000" in texts["compose"]
    assert "containerPort: 9000" in texts["kubernetes"]
    for format in ("docker", "compose", "kubernetes", "ray"):
        assert "--host" not in texts[format]
    assert "--host 127.0.0.1" in texts["systemd"]


def test_what_cannot_be_written() -> None:
    with pytest.raises(PlanError, match="unknown format 'helm': one of command, yaml"):
        export(launch("one GPU"), "helm")
    with pytest.raises(PlanError, match="schedules GPUs"):
        export(launch("a CPU"), "ray")
    old = plan("Qwen/Qwen3-8B", "mi300x", "0.10.2", max_model_len=8192)
    with pytest.raises(PlanError, match=r"no official image of vLLM 0.10.2 for ROCm is known"):
        export(old, "docker")
    assert "vllm serve" in export(old, "systemd")
