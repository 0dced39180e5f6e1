"""The keys that a screen, or the app, has at the moment."""

from __future__ import annotations

from typing import Any

from textual.actions import parse
from textual.app import App
from textual.binding import Binding
from textual.screen import Screen


def usable(node: Screen[Any] | App[Any]) -> list[Binding]:
    """Those that are told of and do something now, in their order, one for each action."""
    found: dict[str, Binding] = {}
    for binding in Binding.make_bindings(node.BINDINGS):
        _, name, parameters = parse(binding.action)
        if binding.show and node.check_action(name, parameters):
            found.setdefault(binding.action, binding)
    return list(found.values())


def called(binding: Binding, where: str) -> str:
    """Its action as it is called from anywhere; it belongs to the "screen" or the "app"."""
    name = binding.action.partition("(")[0]
    return binding.action if "." in name else f"{where}.{binding.action}"
