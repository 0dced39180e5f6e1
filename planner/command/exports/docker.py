"""`docker run`: one command, or one for each machine."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from planner.command.exports.deployment import RAY_PORT, SECRETS, Deployment
from planner.command.exports.shell import ADDRESS, node_text
from planner.engine.device import Platform

CACHE: Final = "/root/.cache/huggingface"
# What a container needs to reach the device, from vLLM's installation pages.
_DEVICES: Final = {
    Platform.CUDA: [],
    Platform.ROCM: ["--device /dev/kfd", "--device /dev/dri", "--group-add video",
                    "--cap-add SYS_PTRACE", "--security-opt seccomp=unconfined"],
    Platform.XPU: ["--device /dev/dri", "--volume /dev/dri/by-path:/dev/dri/by-path"],
    Platform.CPU: ["--cap-add SYS_NICE", "--security-opt seccomp=unconfined"],
}  # fmt: skip


def render(deployment: Deployment) -> str:
    """The command; it answers on this machine alone until its port is published more widely."""
    if deployment.nodes == 1:
        return deployment.comment() + _run(deployment, None)
    parts = [deployment.comment(f"{ADDRESS} is the address of the first machine, on every one.")]
    for rank in range(deployment.nodes):
        parts.append(f"\n# machine {rank}\n{_run(deployment, rank)}")
    return "".join(parts)


def _run(deployment: Deployment, rank: int | None) -> str:
    lines = [f"docker run --rm --name {deployment.name}", *_options(deployment, rank)]
    command = deployment.contained()
    if rank is not None and deployment.on_ray:
        script = ray_script(command.argv, rank, f"${ADDRESS}")
        lines += ["--entrypoint bash", deployment.image, f"-c {shlex.quote(script)}"]
    else:
        lines += ["--entrypoint vllm", deployment.image]
        lines.append(shlex.join(["serve", command.model]))
        lines += [shlex.join(flag.words) for flag in command.flags]
        if rank is not None:
            lines.append(node_text(deployment, rank))
    return " \\\n  ".join(lines) + "\n"


def _options(deployment: Deployment, rank: int | None) -> Iterator[str]:
    platform = deployment.memory.device.platform
    if platform is Platform.CUDA:
        share = "all" if deployment.all_gpus else str(deployment.gpus_per_node)
        yield f"--gpus {share}"
    yield from _DEVICES[platform]
    yield "--ipc host"
    if rank is None:
        yield f"--publish 127.0.0.1:{deployment.port}:{deployment.port}"
    else:
        yield "--network host"
    yield f'--volume "$HOME/.cache/huggingface:{CACHE}"'
    for folder in deployment.folders:
        yield shlex.join(["--volume", f"{folder}:{folder}:ro"])
    for secret in SECRETS:
        yield f"--env {secret}"
    if rank is not None and deployment.on_ray:
        yield f"--env {ADDRESS}"
    for name, value in deployment.variables:
        yield shlex.join(["--env", f"{name}={value}"])


def ray_script(argv: list[str], rank: int, address: str) -> str:
    """What a container runs to be the head of a Ray cluster, or a part of it."""
    if rank:
        join = f'ray start --address="{address}:{RAY_PORT}" --block'
        return f"until {join}; do sleep 5; done"
    return f"ray start --head --port={RAY_PORT} && exec {shlex.join(argv)}"


def replica_script(deployment: Deployment, argv: list[str], address: str, rank: str) -> str:
    """What a container runs to be one of the other machines, by the variable of its number."""
    words = deployment.member_words(f'"{address}"', rank)
    return f"exec {shlex.join(argv)} {' '.join(words)}"
