"""A compose file: one service, or on several machines one for the first and one for the others."""

from __future__ import annotations

from typing import Any, Final

from planner.command.exports.deployment import SECRETS, Deployment
from planner.command.exports.docker import CACHE, ray_script, replica_script
from planner.command.exports.shell import ADDRESS
from planner.command.exports.yaml_text import to_yaml
from planner.engine.device import Platform

_DEVICES: Final[dict[Platform, dict[str, Any]]] = {
    Platform.CUDA: {},
    Platform.ROCM: {"devices": ["/dev/kfd", "/dev/dri"], "group_add": ["video"],
                    "cap_add": ["SYS_PTRACE"], "security_opt": ["seccomp=unconfined"]},
    Platform.XPU: {"devices": ["/dev/dri"]},
    Platform.CPU: {"cap_add": ["SYS_NICE"], "security_opt": ["seccomp=unconfined"]},
}  # fmt: skip


def render(deployment: Deployment) -> str:
    """For `docker compose up`; it answers on this machine alone until its port says otherwise."""
    if deployment.nodes == 1:
        service = _service(deployment, None)
        return deployment.comment() + to_yaml({"services": {"vllm": service}})
    usage = [
        f"On the first machine: {ADDRESS}=ITS_ADDRESS docker compose --profile first up",
        f"On each other: {ADDRESS}=ITS_ADDRESS NODE_RANK=1 docker compose --profile other up",
    ]
    if not deployment.on_ray:
        usage[1] += ", with 1, 2, ..." if deployment.nodes > 2 else ""
    services = {name: _service(deployment, name) for name in ("first", "other")}
    return deployment.comment(*usage) + to_yaml({"services": services})


def _service(deployment: Deployment, profile: str | None) -> dict[str, Any]:
    command = deployment.contained()
    entrypoint, words = ["vllm", "serve"], [escaped(word) for word in command.arguments]
    scripted: dict[str, str] = {}  # variables that a script asks for
    if profile is not None and deployment.on_ray:
        script = ray_script(command.argv, int(profile == "other"), f"${ADDRESS}")
        entrypoint, words = ["bash", "-c"], [escaped(script)]
        scripted = {ADDRESS: f"${{{ADDRESS}:?}}"}
    elif profile == "other" and deployment.counts_in_shell:
        script = replica_script(deployment, command.argv, f"${ADDRESS}", "NODE_RANK")
        entrypoint, words = ["bash", "-c"], [escaped(script)]
        scripted = {ADDRESS: f"${{{ADDRESS}:?}}", "NODE_RANK": "${NODE_RANK:?}"}
    elif profile is not None:
        address = f"${{{ADDRESS}:?}}"
        words += deployment.member_words(address, 0 if profile == "first" else "${NODE_RANK:-1}")
    service: dict[str, Any] = {"image": deployment.image}
    if profile is not None:
        service["profiles"] = [profile]
    service |= {"entrypoint": entrypoint, "command": words}
    if profile is None:
        service["ports"] = [f"127.0.0.1:{deployment.port}:{deployment.port}"]
    else:
        service["network_mode"] = "host"
    # A variable without a value is handed through, if it is set.
    service["environment"] = dict.fromkeys(SECRETS) | {
        name: escaped(value) for name, value in deployment.variables
    }
    service["environment"] |= scripted
    service["volumes"] = [
        f"${{HOME}}/.cache/huggingface:{CACHE}",
        *map(_bound, deployment.folders),
    ]
    service["ipc"] = "host"
    service["restart"] = "unless-stopped"
    if profile != "other":
        service["healthcheck"] = _healthcheck(deployment)
    service |= _DEVICES[deployment.memory.device.platform]
    if deployment.memory.device.platform is Platform.CUDA:
        count = "all" if deployment.all_gpus else deployment.gpus_per_node
        device = {"driver": "nvidia", "count": count, "capabilities": ["gpu"]}
        service["deploy"] = {"resources": {"reservations": {"devices": [device]}}}
    return service


def _bound(folder: str) -> dict[str, Any]:
    where = escaped(folder)
    return {"type": "bind", "source": where, "target": where, "read_only": True}


def _healthcheck(deployment: Deployment) -> dict[str, Any]:
    url = f"http://127.0.0.1:{deployment.port}/health"
    asks = f"import urllib.request; urllib.request.urlopen('{url}', timeout=5)"
    return {
        "test": ["CMD", "python3", "-c", asks],
        "interval": "15s",
        "timeout": "10s",
        "retries": 3,
        "start_period": f"{deployment.startup_seconds}s",
    }


def escaped(text: str) -> str:
    """A word in which compose finds no variable."""
    return text.replace("$", "$$")
