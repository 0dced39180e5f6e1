"""A command with some of its options changed, and all its other words as they are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from planner.command.arguments import read_arguments
from planner.command.invocation import read_invocation
from planner.engine.options import Takes, abbreviated, known_option
from planner.engine.releases import Release

_REMARK = re.compile(r"\s*\([^)]*\)$")


def amended(words: Sequence[str], change: str, release: Release) -> list[str]:
    """A command after a change in words such as "--max-model-len 2048 --enforce-eager (slower)",
    "OTHER/MODEL with --max-num-seqs 4".

    Options that it names replace those of the command, in whatever spelling they stand there.
    """
    head, arguments = split_command(words)
    changes = shlex.split(_REMARK.sub("", change))
    if changes and not changes[0].startswith("-"):
        model = read_arguments(arguments, release).model
        arguments = [changes[0] if word == model else word for word in arguments]
        changes = changes[2:] if changes[1:2] == ["with"] else changes[1:]
    for name in (word for word in changes if word.startswith("--")):
        arguments = without_option(arguments, name, release)
    return [*head, *arguments, *changes]


def without_option(arguments: Sequence[str], name: str, release: Release) -> list[str]:
    """Arguments without every option that sets what `name` sets, and without their values."""
    dest = _dest(name, release)
    kept: list[str] = []
    at = 0
    while at < len(arguments):
        word = arguments[at]
        at += 1
        written, equals, _ = word.partition("=")
        is_it = word.startswith("-") and (
            written == name or (dest is not None and _dest(written, release) == dest)
        )
        if not is_it:
            kept.append(word)
            continue
        if not equals and _takes_value(written, release):
            while at < len(arguments) and not _is_option(arguments[at]):
                at += 1
                if not _takes_several(written, release):
                    break
    return kept


def split_command(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands in front of vLLM's arguments, and those; for the words of one command."""
    arguments = list(read_invocation(words).arguments)
    return list(words[: len(words) - len(arguments)]), arguments


def _dest(name: str, release: Release) -> str | None:
    if name.startswith("--"):
        name = "--" + name[2:].replace("_", "-")
    option = known_option(name)
    if option is None and name.startswith("--"):
        meant = abbreviated(name, release)
        option = known_option(meant[0]) if len(meant) == 1 else None
    return option.dest if option is not None else None


def _takes_value(name: str, release: Release) -> bool:
    """An option that is not known is taken to have one."""
    option = known_option(name.replace("_", "-"))
    return option is None or option.takes is not Takes.SWITCH


def _takes_several(name: str, release: Release) -> bool:
    option = known_option(name.replace("_", "-"))
    return option is not None and option.takes is Takes.SEVERAL


def _is_option(word: str) -> bool:
    return word.startswith("-") and not word[1:2].isdigit()
