"""The file of `vllm serve --config FILE`."""

from __future__ import annotations

from planner.command.exports.deployment import Deployment
from planner.command.exports.shell import ADDRESS, node_text
from planner.command.exports.yaml_text import to_yaml


def render(deployment: Deployment) -> str:
    """Options by name. JSON stays a string: releases before 0.12 take no nested keys."""
    command = deployment.served()
    content: dict[str, object] = {"model": command.model}
    for flag in command.flags:
        name = flag.name.lstrip("-")
        if flag.value is None:
            content[name] = True
        elif flag.more:
            content[name] = [_plain(value) for value in (flag.value, *flag.more)]
        else:
            content[name] = _plain(flag.value)
    return deployment.comment(*_usage(deployment)) + to_yaml(content)


def _usage(deployment: Deployment) -> list[str]:
    assigned = "".join(f"{name}={value} " for name, value in deployment.variables)
    start = f"{assigned}vllm serve --config FILE"
    if deployment.nodes == 1:
        return [start]
    if deployment.on_ray:
        return [f"{start}, on the head of a Ray cluster of {deployment.nodes} machines"]
    return [
        f"{ADDRESS} is the address of the first machine. On the first, and on each other:",
        f"{start} {node_text(deployment, 0)}",
        f"{start} {node_text(deployment, 1)} (and so on)",
    ]


def _plain(value: str) -> object:
    """Numbers as numbers, where they are written alike."""
    for kind in (int, float):
        try:
            number = kind(value)
        except ValueError:
            continue
        if str(number) == value:
            return number
    return value
