"""Commands for a POSIX shell: one, or one for each machine."""

from __future__ import annotations

import shlex

from planner.command.exports.deployment import RAY_PORT, Deployment

ADDRESS = "HEAD_ADDRESS"  # the variable that holds the address of the first machine


def render(deployment: Deployment) -> str:
    """The command; where there are several machines, the lines of each."""
    if deployment.nodes == 1:
        return _command(deployment) + "\n"
    parts = [deployment.comment(f"{ADDRESS} is the address of the first machine, on every one.")]
    for rank in range(deployment.nodes):
        lines = _on_ray(deployment, rank) if deployment.on_ray else _native(deployment, rank)
        parts.append(f"\n# machine {rank}\n{lines}\n")
    return "".join(parts)


def _command(deployment: Deployment) -> str:
    variables = "".join(f"{name}={shlex.quote(value)} " for name, value in deployment.variables)
    return variables + deployment.shown().shell()


def _native(deployment: Deployment, rank: int) -> str:
    return f"{_command(deployment)} \\\n  {node_text(deployment, rank)}"


def _on_ray(deployment: Deployment, rank: int) -> str:
    if rank:
        return f'ray start --address="${ADDRESS}:{RAY_PORT}"'
    return f"ray start --head --port={RAY_PORT}\n{_command(deployment)}"


def node_text(deployment: Deployment, rank: int | str) -> str:
    """What a machine adds to the command, for a shell in which `HEAD_ADDRESS` is set."""
    words = deployment.member_words(f"${ADDRESS}", rank)
    return " ".join(f'"{word}"' if word.startswith("$") else word for word in words)
