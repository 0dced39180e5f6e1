"""YAML that others wrote, read without the tricks that a small file can hold."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from planner.errors import PlanError

if TYPE_CHECKING:
    from yaml import SafeLoader

_LARGEST: Final = 50_000  # bytes
_DEEPEST: Final = 50


def read_yaml(path: Path, what: str) -> Any:
    """The content of a YAML file; `PlanError` that says it is not `what` for anything else.

    Aliases are refused (a line of them can stand for more than memory holds), and what is nested
    deeper, or is longer, than any setting.
    """
    import yaml

    try:
        with path.open("rb") as stream:
            content = stream.read(_LARGEST + 1)
    except OSError as error:
        raise PlanError(f"Cannot read {path}: {error.strerror or error}") from None
    if len(content) > _LARGEST:
        raise PlanError(f"{path} is too large for {what}")
    try:
        return yaml.load(content.decode("utf-8"), _loader())
    except (yaml.YAMLError, ValueError, RecursionError):  # ValueError: of encodings, of dates
        raise PlanError(f"{path} is not {what}: no YAML that can be read") from None


@cache
def _loader() -> type[SafeLoader]:
    import yaml

    class Loader(yaml.SafeLoader):
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("an alias")
            self.depth += 1
            if self.depth > _DEEPEST:
                raise yaml.YAMLError("nested too deep")
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    return Loader
