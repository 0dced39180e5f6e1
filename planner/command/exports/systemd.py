"""A systemd unit: the same one on every machine, whose number comes from its environment file."""

from __future__ import annotations

from typing import Final

from planner.command.exports.deployment import RAY_PORT, SECRETS, Deployment
from planner.command.exports.shell import ADDRESS

BIN: Final = "/opt/vllm/bin"
_FILE: Final = "/etc/vllm/vllm.env"
_UNIT: Final = """\
[Unit]
Description=vLLM: {model}
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
DynamicUser=yes
StateDirectory=vllm
Environment=HOME=/var/lib/vllm HF_HOME=/var/lib/vllm/huggingface
Environment=PATH={bin}:/usr/local/bin:/usr/bin:/bin
{environment}{preparation}ExecStart={command}
Restart=on-failure
RestartSec=10
KillMode=mixed
TimeoutStopSec=60
LimitNOFILE=65536
LimitMEMLOCK=infinity

[Install]
WantedBy=multi-user.target
"""


def render(deployment: Deployment) -> str:
    """The unit. It expects vLLM in /opt/vllm and secrets in a file of root's."""
    command = deployment.served()
    lines = [" ".join(map(_word, [f"{BIN}/vllm", "serve", command.model]))]
    lines += [" ".join(map(_word, flag.words)) for flag in command.flags]
    several, preparation = deployment.nodes > 1, ""
    if several and deployment.on_ray:
        preparation = f"ExecStartPre={BIN}/ray start --head --port={RAY_PORT}\n"
    elif several:
        lines.append("$VLLM_NODE")
    environment = "".join(
        f"Environment={_word(f'{name}={value}')}\n" for name, value in deployment.variables
    )
    # The file has to be there where it holds more than optional secrets.
    optional = "" if several and not deployment.on_ray else "-"
    environment += f"EnvironmentFile={optional}{_FILE}\n"
    return deployment.comment(*_usage(deployment)) + _UNIT.format(
        model=command.model.replace("%", "%%"),
        bin=BIN,
        environment=environment,
        preparation=preparation,
        command=" \\\n  ".join(lines),
    )


def _usage(deployment: Deployment) -> list[str]:
    lines = [
        f"/etc/systemd/system/{deployment.name}.service, for vLLM "
        f"{deployment.memory.release.name} in {BIN.rpartition('/')[0]}.",
        f"{_FILE}, readable by root alone, may set {' and '.join(SECRETS)}.",
    ]
    if deployment.folders:
        lines.append("The folder of the model must be readable to every user.")
    if deployment.nodes > 1 and deployment.on_ray:
        lines.append("For the head. On each other machine, before it:")
        lines.append(f"ray start --address={ADDRESS}:{RAY_PORT}")
    elif deployment.nodes > 1:
        lines.append("It sets the part of each machine as well, the first to the last:")
        for rank in range(deployment.nodes):
            lines.append(f"VLLM_NODE={' '.join(deployment.member_words(ADDRESS, rank))}")
    return lines


def _word(text: str) -> str:
    """A word of a unit file: quoted, and nothing in it expanded."""
    plain = text.replace("%", "%%").replace("$", "$$")
    if plain and not set(plain) & set(" \t\n\"'\\;"):
        return plain
    inner = plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{inner}"'
