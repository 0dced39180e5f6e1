"""YAML as people write it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def to_yaml(*documents: Mapping[str, Any]) -> str:
    """Documents in the order of their keys, nothing folded."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Long text that holds lines keeps them."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, indentless=False)

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    dumped = [
        yaml.dump(document, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=10**6)
        for document in documents
    ]
    return "---\n".join(dumped)
