"""The YAML file of `vllm serve --config`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from planner.command.values import as_json
from planner.engine.flags import accepts_flag
from planner.engine.releases import Release
from planner.errors import PlanError
from planner.files import named_path

# Before, a switch set to false in the file was passed over.
_FALSE_COUNTS: Final = "0.28.0"


def read_words(name: str, release: Release) -> Iterator[str]:
    """The options of a file as words of a command line, as that release's vLLM makes them.

    Raises `PlanError` for a file that cannot be read or holds no options.
    """
    for key, value in _load(name).items():
        option = f"--{key}"
        if isinstance(value, bool):
            negation = f"--no-{key}".replace("_", "-")
            if value:
                yield option
            elif release.at_least(_FALSE_COUNTS) and accepts_flag(release, negation):
                yield negation
        elif key in ("model", "model_tag"):
            yield str(value)
        elif isinstance(value, list):
            if value:
                yield option
                yield from (str(each) for each in value)
        else:
            yield option
            yield as_json(value) if isinstance(value, dict) else str(value)


def _load(name: str) -> Mapping[str, Any]:
    from planner.yaml_file import read_yaml  # only here needed

    content = read_yaml(named_path(name), "a file of options")
    if not isinstance(content, dict):
        raise PlanError(f"{name} holds no options")
    return {str(key): value for key, value in content.items()}
