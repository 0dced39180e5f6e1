"""Colours, dark and light."""

from __future__ import annotations

from typing import Final

from textual.theme import Theme

DARK: Final = Theme(
    name="vplan-dark",
    primary="#7aa2f7",
    secondary="#bb9af7",
    accent="#7dcfff",
    warning="#e0af68",
    error="#f7768e",
    success="#9ece6a",
    foreground="#d5daf0",
    background="#16171f",
    surface="#1c1e29",
    panel="#262939",
    dark=True,
)
LIGHT: Final = Theme(
    name="vplan-light",
    primary="#2457c5",
    secondary="#7a3fb5",
    accent="#0b7285",
    warning="#a15c00",
    error="#b4233c",
    success="#3b7a1e",
    foreground="#22242f",
    background="#f6f6f9",
    surface="#ffffff",
    panel="#e6e8f0",
    dark=False,
)
