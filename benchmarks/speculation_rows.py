"""Published measurements of speculative decoding: rows as values.

One JSON object a line (tests/data/acceptance.jsonl). What a row leaves out was not stated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

# Methods by the names of sources -> vplan's: the method of vLLM, with how it drafts.
_METHODS: Final = {
    "EAGLE": "eagle", "EAGLE(k=3)": "eagle", "EAGLE-2": "eagle",
    "EAGLE2": "eagle", "EAGLE-3": "eagle3", "EAGLE-3.1": "eagle3",
    "P-EAGLE": "peagle", "DFlash": "dflash", "DFlash2": "dflash", "DSpark": "dspark",
    "MTP": "mtp", "PARD": "pard", "PARD-2": "pard", "ngram": "ngram", "PLD": "ngram",
    "suffix": "suffix", "draft_model": "draft_model", "SpS": "draft_model", "Medusa": "medusa",
}  # fmt: skip
# Words of a task's name -> kind of text, the first that matches.
_TASKS: Final = (
    (None, {"mean", "mix", "random", "easy"}),
    ("code", {"humaneval", "livecodebench", "mbpp", "coding", "code"}),
    ("math", {"gsm", "math", "aime"}),
    ("reasoning", {"gpqa", "stem", "reasoning"}),
    ("rag", {"financeqa", "rag", "qa"}),
    ("summarization", {"cnn", "summarization"}),
    ("edit", {"edit"}),
    ("chat", {"mt", "mtbench", "alpaca", "arena", "roleplay", "writing", "humanities", "sharegpt",
              "multilingual", "traffic", "realistic", "prompts", "average", "translation", "all"}),
)  # fmt: skip
# Requests at a time where a load is told in words.
_LOADS: Final = {"QPS=1": 2, "high QPS": 128}


class Row(Struct, frozen=True):
    """One measurement. `method` and `task` as vplan names them, None for what it has not."""

    target: str
    draft: str | None
    method: str | None
    named: str  # the method as the source calls it
    task: str | None
    text: str  # the task as the source calls it
    temperature: float
    tokens: int | None  # drafted in a step
    chain: bool  # as vLLM drafts; else a tree, or not stated
    length: float | None  # acceptance length, bonus token included
    rate: float | None  # accepted over drafted tokens
    per_position: tuple[float, ...]
    speedup: float | None
    batch: int | None
    hardware: str | None
    engine: str
    source: str

    @property
    def series(self) -> tuple[Any, ...]:
        """What rows that differ only in the number of drafted tokens have in common."""
        return (
            self.target, self.draft, self.named, self.text, self.temperature, self.batch,
            self.engine, self.source,
        )  # fmt: skip


def read_rows(path: Path) -> list[Row]:
    """The rows of a file. Raises `ValueError` for a line that is none."""
    lines = path.read_text("utf-8").splitlines()
    return [_row(json.loads(line)) for line in lines if line.strip()]


def series_of(rows: Iterable[Row]) -> list[dict[int, Row]]:
    """Chains measured at several numbers of drafted tokens, each by that number."""
    found: dict[tuple[Any, ...], dict[int, Row]] = {}
    for row in rows:
        if row.chain and row.length is not None and row.tokens is not None:
            found.setdefault(row.series, {})[row.tokens] = row
    return [series for series in found.values() if len(series) > 1]


def _row(given: dict[str, Any]) -> Row:
    named, text = given["method"], given["task"]
    return Row(
        target=given["target"],
        draft=given.get("draft"),
        method=_METHODS.get(named),
        named=named,
        task=_task(text),
        text=text,
        temperature=float(given.get("temperature") or 0),
        tokens=given.get("k"),
        chain=given.get("drafting") == "chain",
        length=given.get("acceptance_len"),
        rate=given.get("acceptance_rate"),
        per_position=tuple(given.get("per_position") or ()),
        speedup=given.get("speedup"),
        batch=given.get("batch") or _LOADS.get(given.get("metric", "")),
        hardware=given.get("hardware"),
        engine=given.get("engine") or "",
        source=given["source"],
    )


def _task(text: str) -> str | None:
    words = set(re.findall("[a-z]+", text.lower()))
    return next((task for task, own in _TASKS if own & words), None)
