"""All keys, on one page."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from planner.tui.show import DIM, columns

_KEYS: Final = (
    ("Knobs", None),
    ("↑ ↓  tab", "go to another knob"),
    ("← →  - +", "turn it one step"),
    ("enter", "write a value, or open a list; a digit begins to write"),
    ("g  m", "pick the GPU, the model"),
    ("u  U", "undo, redo (also ctrl+z, ctrl+y)"),
    ("Plan", None),
    ("f", "apply the first change that makes it start"),
    ("d", "use the drafts that pay most for sure (tab Speculation)"),
    ("c  e  ctrl+e", "copy the command, show it in the next format, save it"),
    ("v  w", "the next tab; why: findings, and every term with its source"),
    ("pgup pgdn", "scroll"),
    ("r", "recommend: every model worth running on this hardware"),
    ("x", "validate: run it on this machine for a moment, and see whether the plan was right"),
    ("p", "paste a vllm serve command; a paste anywhere opens it too, and logs and files"),
    ("Files", None),
    ("ctrl+s", "save the plan as YAML"),
    ("ctrl+o", "open a plan, or a log of vLLM as a diagnosis"),
    ("Anywhere", None),
    ("t", "light or dark"),
    ("ctrl+p", "command palette"),
    ("escape", "close, or stop what is being opened"),
    ("?  q", "this page, quit"),
)
_NOTE: Final = (
    "Bands [low-high] should hold nine of ten cases. exact: the same bytes as vLLM's own classes; "
    "calibrated: fitted to real launches; estimated: no data of this kind; measured: read from "
    "this machine."
)


class HelpScreen(ModalScreen[None]):
    """Closed by any of the usual keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q,question_mark,enter", "dismiss(None)", "close")
    ]

    def compose(self) -> ComposeResult:
        """A table of keys."""
        lines = []
        for keys, what in _KEYS:
            if what is None:
                lines.append((("", ""), (keys, "bold $text-primary")))
            else:
                lines.append(((keys, "bold"), (what, "")))
        with VerticalScroll(classes="dialog", id="help") as dialog:
            dialog.border_title = "Keys"
            dialog.border_subtitle = "escape closes"
            yield Static(columns(lines))
            yield Static(Content.assemble(("\n" + _NOTE, DIM)))
