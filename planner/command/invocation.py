"""How vLLM is started: the words of a shell command, and where in them its arguments begin.

Understood are `vllm serve`, the older `python -m vllm.entrypoints.openai.api_server`, launchers in
front of them (env, sudo, uv run, ...), and `docker run` of an image of vLLM's.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from planner.errors import PlanError

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_MODULES: Final = frozenset(
    {
        "vllm.entrypoints.openai.api_server",
        "vllm.entrypoints.api_server",
        "vllm.entrypoints.cli.main",
    }
)
_CONTAINERS: Final = frozenset({"docker", "podman", "nerdctl"})
# Options of `docker run` that stand alone; all others take a value.
DOCKER_SWITCHES: Final = frozenset(
    {"-d", "--detach", "-i", "--interactive", "-t", "--tty", "-it", "-ti", "-dit", "-itd", "-id",
     "-td", "--rm", "--init", "--privileged", "--read-only", "-P", "--publish-all",
     "--no-healthcheck", "--oom-kill-disable", "--disable-content-trust", "--sig-proxy"}
)  # fmt: skip
IMAGE: Final = re.compile(r"(?:.*/)?vllm[\w.-]*(?::v?(\d+(?:\.\d+)+)?[\w.-]*)?(?:@.*)?$")


class Invocation(Struct, frozen=True):
    """A start of vLLM: its environment, its arguments, its image and the release that names."""

    arguments: tuple[str, ...]
    environ: tuple[tuple[str, str], ...] = ()
    release: str | None = None
    image: str | None = None
    random_benchmark: bool = False  # `vllm bench serve` with random tokens stands beside it

    @property
    def variables(self) -> dict[str, str]:
        """The environment as a mapping."""
        return dict(self.environ)


def split_text(text: str) -> list[str]:
    """A pasted command as words: continued lines joined, comments and prompts left out.

    Raises `PlanError` where quotes are not closed.
    """
    joined = re.sub(r"[ \t]*[\\^`][ \t]*\r?\n", " ", text)
    joined = re.sub(r"(?<!\S)[012](?=[<>])", "", joined)  # of "2>&1"
    lines = [re.sub(r"^\s*(?:[$#>]|PS[^>]*>)\s+(?=\S)", "", line) for line in joined.splitlines()]
    try:
        lexer = shlex.shlex("\n;\n".join(lines), posix=True, punctuation_chars=";&|<>")
        lexer.whitespace_split = True
        lexer.commenters = "#"
        return list(lexer)
    except ValueError as error:
        raise PlanError(f"the command cannot be read: {error}") from None


def read_invocation(words: Sequence[str]) -> Invocation:
    """The start of vLLM among the words of a shell line; `PlanError` if there is none."""
    environ: dict[str, str] = {}
    commands = _commands(words)
    random = any(map(_is_random_benchmark, commands))
    for command in commands:
        position = _skip_launchers(command, environ)
        rest = command[position:]
        if not rest:
            continue
        if rest[0] in _CONTAINERS:
            found = _in_container(rest, environ)
            if found is not None:
                return replace(found, random_benchmark=random)
        arguments = _arguments(rest)
        if arguments is not None:
            return Invocation(tuple(arguments), tuple(environ.items()), random_benchmark=random)
    raise PlanError("no vLLM command found; it looks like: vllm serve MODEL --option value ...")


def _is_random_benchmark(command: list[str]) -> bool:
    """Whether vLLM's own benchmark sends random tokens, as it does unless it is told otherwise."""
    program = command[0].rpartition("/")[2]
    if program != "vllm" or command[1:2] != ["bench"]:
        return False
    given = [word for word in command if word.startswith("--dataset-name")]
    after = command[command.index(given[0]) + 1 :][:1] if given else []
    named = given[0].partition("=")[2] or "".join(after) if given else "random"
    return named == "random"


def _commands(words: Sequence[str]) -> list[list[str]]:
    """The commands of a line, each without what it is redirected to."""
    commands: list[list[str]] = [[]]
    skip = False
    for word in words:
        if skip:
            skip = False
        elif set(word) <= set("<>&") and set(word) != {"&"}:
            skip = True
        elif set(word) <= set(";&|"):
            commands.append([])
        else:
            commands[-1].append(word)
    return [command for command in commands if command]


def _skip_launchers(command: list[str], environ: dict[str, str]) -> int:
    """Where the program itself stands; assignments on the way go to `environ`."""
    at = 0
    while at < len(command):
        word = command[at]
        assigned = _ASSIGNMENT.fullmatch(word)
        if assigned is not None:
            environ[assigned[1]] = assigned[2]
        elif word == "timeout" and at + 1 < len(command):
            at += 1
        elif word not in ("env", "export", "sudo", "nohup", "time", "exec", "set", "uv", "run",
                          "uvx", "poetry", "pixi", "numactl", "-E", "stdbuf", "-oL"):  # fmt: skip
            return at
        at += 1
    return at


def _arguments(command: list[str]) -> list[str] | None:
    """Arguments of `vllm serve` in whatever way it is started; None if it is something else."""
    program = command[0].rpartition("/")[2]
    if program == "vllm" and command[1:2] == ["serve"]:
        return command[2:]
    if re.fullmatch(r"python(?:3(?:\.\d+)?)?", program):
        for at, word in enumerate(command[1:], start=1):
            if word == "-m" and at + 1 < len(command) and command[at + 1] in _MODULES:
                rest = command[at + 2 :]
                return rest[1:] if rest[:1] == ["serve"] else rest
            if not word.startswith("-"):
                break
    return None


def _in_container(command: list[str], environ: dict[str, str]) -> Invocation | None:
    """`docker run [options] IMAGE [arguments]`: the image's entry point is the server."""
    if command[1:2] != ["run"]:
        return None
    at = 2
    inside = dict(environ)
    while at < len(command) and command[at].startswith("-"):
        name, equals, value = command[at].partition("=")
        if not equals and name not in DOCKER_SWITCHES:
            at += 1
            value = command[at] if at < len(command) else ""
        if name in ("-e", "--env"):
            variable, assigns, content = value.partition("=")
            if assigns:  # without, it is handed on as it is
                inside[variable] = content
        at += 1
    if at >= len(command):
        return None
    image = IMAGE.fullmatch(command[at])
    rest = command[at + 1 :]
    served = _arguments(rest) if rest else None
    if image is None and served is None:
        return None
    return Invocation(
        tuple(served if served is not None else rest),
        tuple(inside.items()),
        image[1] if image is not None else None,
        command[at],
    )
