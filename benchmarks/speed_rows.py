"""Measured speeds: rows of published benchmarks as launches and workloads that vplan can plan.

One JSON object a line. What a row leaves out was not stated; vLLM's default is taken for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from planner import EngineConfig, Workload
from planner.engine.releases import release_key

# Cards whose stack is unlike all others: scored, but as a group of their own.
APART: Final = frozenset({"mi250", "radeon-ai-pro-r9700"})
MOST_STREAMS: Final = 256
_SCORED_MODES: Final = frozenset({"online", "static-batch e2e"})
_OLDEST: Final = "0.8.5"  # whose rules stand in for those of older engines
_UNDATED: Final = "0.12.0"
_DATES: Final = (("2025-04", "0.8.5"), ("2025-09", "0.10.2"), ("2025-12", "0.12.0"),
                 ("2026-01", "0.14.0"), ("2026-05", "0.22.1"), ("2026-06", "0.24.0"),
                 ("2026-08", "0.28.0"))  # fmt: skip
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun",
                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")  # fmt: skip
_PROMPT, _ANSWER = 1024, 1024  # where a row does not say


class SpeedRow(Struct, frozen=True):
    """One measured point. Times in seconds; None: not stated."""

    row_id: str
    source: str
    engine: str
    engine_version: str
    model: str  # the repository that has the shape
    quant: str
    gpu: str  # slug
    rig: str
    release: str
    legacy: bool  # an engine of up to 0.6, with a fixed cost of each step
    settings: EngineConfig
    workload: Workload
    users: float  # requests at a time; estimates need not be whole
    counts_prefill: bool  # the time for a token has the request's own prefill in it
    static: bool  # a batch whose prompts are all processed first
    tpot: float | None
    ttft: float | None
    scored: bool
    speculates: bool

    @property
    def apart(self) -> bool:
        """Whether its card is scored in a group of its own."""
        return self.gpu in APART


def read_rows(path: Path) -> Iterator[SpeedRow]:
    """The rows of a file."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    newest: dict[str, str] = {}
    for row in rows:
        source, stated = str(row.get("source")), release_of(str(row.get("engine_version") or ""))
        if stated is not None:
            newest[source] = max(stated, newest.get(source, stated), key=release_key)
    for number, row in enumerate(rows, start=1):
        nightly = "nightly" in str(row.get("engine_version"))
        yield row_of(row, number, newest.get(str(row.get("source"))) if nightly else None)


def row_of(row: dict[str, Any], number: int = 0, release: str | None = None) -> SpeedRow:
    """A row of the file as what vplan can plan.

    `release` is that of a nightly build: the newest that its source names.
    """
    prompt, answer = _lengths(row)
    concurrency = row.get("concurrency")
    tpot = row.get("tpot_ms") or (
        1000 / row["out_tok_s_user"] if row.get("out_tok_s_user") else None
    )
    speculates = bool(row.get("spec"))
    version = str(row.get("engine_version") or "")
    mode = row.get("mode", "online")
    return SpeedRow(
        row_id=str(row.get("id", number)),
        source=str(row.get("source", "")),
        engine=row.get("engine", ""),
        engine_version=version,
        model=str(row.get("repo_id") or ""),
        quant=str(row.get("quant") or ""),
        gpu=str(row.get("gpu_slug") or ""),
        rig=_rig(row),
        release=release_of(version) or release or release_of(str(row.get("source"))) or _UNDATED,
        legacy=is_legacy(version),
        settings=_settings(row, prompt + answer),
        workload=Workload(prompt, answer, max(1, round(concurrency or 1))),
        users=float(concurrency or 1),
        counts_prefill=mode == "static-batch e2e" or "incl. prefill" in str(row.get("notes")),
        static=mode == "static-batch e2e",
        tpot=tpot / 1000 if tpot else None,
        ttft=row["ttft_ms"] / 1000 if row.get("ttft_ms") else None,
        scored=row.get("engine") == "vLLM"
        and not speculates
        and mode in _SCORED_MODES
        and tpot is not None
        and concurrency is not None
        and concurrency <= MOST_STREAMS,
        speculates=speculates,
    )


def _lengths(row: dict[str, Any]) -> tuple[int, int]:
    """Mean tokens of prompt and answer; nominal ones where the notes do not say what of them."""
    answer = float(row.get("osl") or _ANSWER)
    prompt = row.get("isl") or (row["ctx_mean"] - answer / 2 if row.get("ctx_mean") else _PROMPT)
    share = re.search(r"mean about (0?\.\d+)x", str(row.get("notes")))
    scale = float(share[1]) if share is not None else 1.0
    return max(1, round(scale * float(prompt))), max(1, round(scale * answer))


def release_of(text: str) -> str | None:
    """The release whose rules hold, as far as a text tells one or a date."""
    if is_legacy(text):
        return _OLDEST
    match = re.search(r"(?<![\w.])0\.\d+(?:\.\d+)*(x?)", text)
    if match is not None:  # "0.2x" is one of 0.20 to 0.29
        return max(match[0].replace("x", "0"), _OLDEST, key=release_key)
    date = re.search(r"(20\d\d)-(\d\d)-\d\d", text)
    named = re.search(rf"({'|'.join(_MONTHS)})\w*[ -](20\d\d)", text)
    if date is not None:
        month = f"{date[1]}-{date[2]}"
    elif named is not None:
        month = f"{named[2]}-{1 + _MONTHS.index(named[1]):02}"
    else:
        return None
    return max((name for since, name in _DATES if since <= month), default=_OLDEST, key=release_key)


def is_legacy(version: str) -> bool:
    """Whether it is an engine of up to 0.6: named so, or of 2024."""
    match = re.match(r"v?0\.(\d+)", version)
    return int(match[1]) <= 6 if match is not None else version.startswith("2024")


def _rig(row: dict[str, Any]) -> str:
    count = int(row.get("n_gpus") or 1)
    slug = str(row.get("gpu_slug") or "")
    return slug if count == 1 else f"{count}x{slug}"


def _settings(row: dict[str, Any], length: int) -> EngineConfig:
    kv_dtype = row.get("kv_dtype") or "auto"
    ranks = int(row.get("tp") or 1)
    return EngineConfig(
        tensor_parallel_size=ranks,
        pipeline_parallel_size=int(row.get("pp") or 1),
        data_parallel_size=int(row.get("dp") or 1),
        enable_expert_parallel=(row.get("ep") or 1) > 1,
        max_model_len=length + 64,
        kv_cache_dtype="bfloat16" if kv_dtype == "bf16" else kv_dtype,
        dtype="float16" if row.get("quant") in ("fp16", "f16") else "auto",
        enforce_eager=row.get("cuda_graphs") is False,
    )
