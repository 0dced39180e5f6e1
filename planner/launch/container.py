"""A vLLM in a container: `docker run [options] IMAGE` as what starts the server.

The server listens on the loopback interface of this machine alone, gets its key through the
environment, and is removed with the container whatever happens.
"""

from __future__ import annotations

import csv
import secrets
from collections.abc import Iterator, Sequence

from msgspec import Struct

from planner.command.invocation import DOCKER_SWITCHES, IMAGE
from planner.errors import PlanError
from planner.launch.client import HOST

CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
_OURS = ("--name", "--entrypoint", "-p", "--publish", "--restart")
_CDI = "nvidia.com/gpu="
_OUR_SWITCHES = frozenset(
    {"-d", "--detach", "--rm", "-P", "--publish-all", "-t", "--tty", "-i", "--interactive", "-it",
     "-ti", "-dit", "-itd", "-id", "-td"}
)  # fmt: skip


class Container(Struct, frozen=True):
    """A container to run: the program, its options, the image, and the release that names."""

    program: str
    options: tuple[str, ...]
    image: str
    release: str | None
    shares_network: bool
    name: str

    def argv(self, port: int, variables: Sequence[str]) -> tuple[str, ...]:
        """The words up to vLLM's own arguments. `variables` are handed on, without their values."""
        network = () if self.shares_network else ("-p", f"{HOST}:{port}:{port}")
        handed = [word for name in ("VLLM_API_KEY", *variables) for word in ("-e", name)]
        return (
            self.program, "run", "--rm", "--name", self.name, *network, *handed, *self.options,
            "--entrypoint", "vllm", self.image, "serve",
        )  # fmt: skip

    @property
    def host(self) -> str:
        """What the server listens on inside."""
        return HOST if self.shares_network else "0.0.0.0"

    @property
    def gpus(self) -> str | None:
        """The GPUs that it is given, as CUDA_VISIBLE_DEVICES names them; None if that is all.

        Docker's `--gpus 2` and `--gpus device=0,1` and the names of the Container Device Interface
        (`--device nvidia.com/gpu=0`); what a variable may say besides is the server's.
        """
        named = []
        for name, value in _valued(self.options):
            if name == "--gpus":
                parts = dict(part.partition("=")[::2] for part in _quoted(value))
                if "device" in parts:
                    return parts["device"]
                count = parts.get("count", value)
                return ",".join(map(str, range(int(count)))) if count.isdecimal() else None
            if name == "--device" and value.startswith(_CDI):
                named.append(value.removeprefix(_CDI))
        return None if "all" in named or not named else ",".join(named)

    @property
    def removal(self) -> tuple[str, ...]:
        """The command that ends it."""
        return (self.program, "rm", "-f", self.name)


def read_container(words: Sequence[str], program: str) -> tuple[Container, list[str]]:
    """The container of `docker run ...` and the words after the image.

    `program` is the path of docker. Raises `PlanError` where there is no image.
    """
    if list(words[1:2]) != ["run"]:
        raise PlanError(f"{words[0]}: a launch is {words[0]} run ... IMAGE ...")
    options: list[str] = []
    at = 2
    while at < len(words) and words[at].startswith("-"):
        name, equals, _ = words[at].partition("=")
        alone = bool(equals) or name in DOCKER_SWITCHES
        option = list(words[at : at + (1 if alone else 2)])
        if name not in _OURS and name not in _OUR_SWITCHES:
            options += option
        at += len(option)
    if at >= len(words):
        raise PlanError(f"{words[0]} run: no image is named")
    image = IMAGE.fullmatch(words[at])
    container = Container(
        program,
        tuple(options),
        words[at],
        image[1] if image is not None else None,
        "host" in _networks(options),
        f"vplan-{secrets.token_hex(6)}",
    )
    return container, list(words[at + 1 :])


def _networks(options: Sequence[str]) -> Iterator[str]:
    for name, value in _valued(options):
        if name in ("--network", "--net"):
            yield value


def _valued(options: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options with their values."""
    for at, word in enumerate(options):
        name, equals, value = word.partition("=")
        if name.startswith("-"):
            yield name, value if equals else "".join(options[at + 1 : at + 2])


def _quoted(value: str) -> list[str]:
    """`capabilities=utility,"device=0,1"` in its parts: those with commas stand in quotes."""
    if '"' not in value:
        value = value.replace("device=", '"device=', 1) + '"' if "device=" in value else value
    return next(csv.reader([value]), [])
