"""Fit the constants of what vLLM measures at start-up to published launches.

    python tools/fit_constants.py LAUNCHES.jsonl

Writes planner/memory/data/constants.json. Each constant is the median of the values that its
launches imply: plans are linear in every constant while the same pass is the peak, so a launch
implies the value at which its plan would be what it printed. A range of releases without launches
keeps its prior, or takes over the value of the range before.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from msgspec import Struct

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from launch_plans import NotPlanned, answer_of, plans_of  # noqa: E402
from launch_rows import Launch, read_launches  # noqa: E402

from planner.engine.releases import find_release, release_key  # noqa: E402
from planner.memory.constants import Table, with_constants  # noqa: E402

OUTPUT: Final = ROOT / "planner" / "memory" / "data" / "constants.json"
ENOUGH: Final = 15  # launches from which on a constant counts as calibrated
_STEP: Final = 0.01
_DOMINATES: Final = 0.3  # of a figure, for a launch to tell something about a constant
_NARROWEST: Final = 0.01
_FAR: Final = 3.0  # a launch that implies more than so many times the value shows something else


class Range(Struct, frozen=True):
    """A constant from one release on: the figure that shows it, and what is taken without any.

    `value` None: that of the range before. `band` is the share to each side without launches.
    """

    since: str
    value: float | None
    band: float
    source: str
    figure: str | None = None  # None: not fitted
    known: int = 0  # launches behind `value` that the file does not have


class Implied(Struct, frozen=True):
    """The value of a constant that one launch implies."""

    launch: Launch
    name: str
    since: str
    value: float
    parts: tuple[float, ...] = ()  # of CUDA graphs: one, graphs, graphs x layers


_LOGITS = "logits in 16 bits; in fp32, masked, as probabilities, divided by noise"
_UNSORTED = (
    "logits in 16 bits; in fp32, masked, as probabilities (top_k_top_p_sampling_from_logits of "
    "FlashInfer)"
)
_COPIES = (
    "residual before and after attention; with what attention hands on, three as wide as the "
    "hidden size on one GPU: 2.07 and 2.99 GiB of Llama-3.1-8B at 20,000 and 29,000 tokens"
)
_BESIDE = "workspaces of matrix products: CodeLlama-7b prints 0.77 GiB at 8,192 tokens on an H100"
_TIMED = (
    "peak of a first launch beyond the embedding table: 0.05 and 0.1 GiB with Llama-3.1-8B in "
    "stages on H100s, 0.08 to 0.37 with Qwen3-4B and 1 to 64 LoRA slots on a 24 GB card"
)
_LOADED = "kernels and handles loaded after the snapshot"
_NCCL = "beside the workspace of fused all-reduces: NCCL's, vLLM's own, kernels"
_NO_SWITCH = "0.2 GiB printed on 4 L40S, 0.7 on 4 RTX PRO 6000, 0.9 left over on 4 A100 over NVLink"
_GRAPHS = "'Estimated CUDA graph memory': a pool, a part per graph, a part per graph and layer"
RANGES: Final[dict[str, tuple[Range, ...]]] = {
    "sampler_bytes_per_logit": (
        Range("0.8.5", 38.0, 0.05, "16-bit logits, fp32 copies and int64 indices", "activation"),
        Range("0.17.0", 14.0, 0.1, _LOGITS, "activation"),
        Range("0.20.0", None, 0.15, _LOGITS, "activation"),
    ),
    "sampler_bytes_per_logit_flashinfer": (Range("0.8.5", 14.0, 0.1, _UNSORTED),),
    "sampler_bytes_per_logit_v2": (
        Range("0.8.5", 2.0, 0.5, "16-bit logits only: Model Runner V2 profiles a greedy sampler"),
        Range("0.33.0", 14.0, 0.3, f"{_LOGITS}: it profiles all sampling parameters"),
    ),
    "layer_hidden_copies": (Range("0.8.5", 2.0, 0.1, _COPIES),),
    "text_pass_gib": (
        Range("0.8.5", 0.001, 1.0, "nothing else where layers are not compiled"),
        Range("0.10.0", 0.047, 1.0, _BESIDE, known=1),
    ),
    "moe_workspaces": (Range("0.8.5", 1.0, 0.2, "workspace_shapes of the kernels", "activation"),),
    "encoder_widths": (Range("0.8.5", 2.0, 0.6, "inputs and outputs of the MLP of a patch"),),
    "non_torch_gib": (
        Range("0.8.5", 0.08, 0.8, _LOADED, "non_torch"),
        Range("0.10.2", 0.13, 0.5, _LOADED, "non_torch"),
        Range("0.18.0", 0.25, 0.5, _LOADED, "non_torch"),
        Range("0.20.0", None, 1.0, _LOADED),
    ),
    "non_torch_pp_gib": (
        Range("0.8.5", 0.07, 0.8, "pipeline stages load fewer kernels", "non_torch"),
    ),
    "non_torch_tp_nvlink_gib": (
        Range("0.8.5", 0.54, 0.6, _NCCL, "non_torch"),
        Range("0.12.0", 1.38, 0.6, f"{_NCCL}; printed on two H200", known=1),
        Range("0.17.0", 1.6, 0.5, _NCCL, "non_torch"),
        Range("0.20.0", None, 0.6, _NCCL),
    ),
    "non_torch_tp_nvlink_more_gib": (
        Range("0.8.5", 0.54, 0.8, _NCCL, "non_torch"),
        Range("0.12.0", 1.38, 0.6, f"{_NCCL}; printed on two H200", known=1),
        Range("0.17.0", 2.1, 0.5, _NCCL, "non_torch"),
        Range("0.20.0", None, 0.6, _NCCL),
    ),
    "non_torch_tp_pcie_gib": (Range("0.8.5", 0.6, 0.7, _NO_SWITCH, known=3),),
    "cudagraph_base_gib": (Range("0.8.5", 0.1, 0.35, _GRAPHS),),
    "cudagraph_per_size_gib": (Range("0.8.5", 0.0063, 0.35, _GRAPHS),),
    "cudagraph_per_size_and_layer_gib": (Range("0.8.5", 0.00027, 0.35, _GRAPHS),),
    "mxfp4_warm_up_gib": (
        Range("0.8.5", 3.0, 0.5, "gpt-oss-20b on H100: fails at 0.95, starts at 0.90", known=3),
    ),
    "context_gib": (
        Range(
            "0.8.5", 0.45, 0.5, "CUDA context and library handles, outside the utilization", known=4
        ),
    ),
    "context_tp_gib": (
        Range(
            "0.8.5", 0.35, 0.4, "NCCL buffers per rank: 342 to 392 MiB (aiconfigurator)", known=2
        ),
    ),
    "compile_beside_gib": (Range("0.8.5", 0.1, 1.0, _TIMED, known=6),),
    "recurrent_prefill_bytes": (
        Range(
            "0.8.5",
            148.4,
            1.0,
            "a token and feature of the hidden size on a rank, not profiled: 2.9 GiB above the "
            "budget at 8,192 tokens and 2,560 features, Qwen3.6-27B on two RTX 5090 "
            "(noonghunna/club-3090@4a29ab5, models/qwen3.6-27b)",
            known=1,
        ),
    ),
    "wsl_gib": (
        Range(
            "0.8.5",
            1.31,
            0.25,
            "taken by Windows before vLLM profiles (noonghunna/club-3090 docs/HARDWARE.md@4a29ab5)",
            known=1,
        ),
    ),
    "unified_system_share": (
        Range(
            "0.8.5",
            0.1,
            0.7,
            "the operating system's: of a GB10's 121.7 GiB 101 to 110 were free at start, and "
            "more than 113 in two launches that asked for it",
            known=5,
        ),
    ),
    "cpu_process_gib": (
        Range(
            "0.8.5",
            0.9,
            0.4,
            "resident memory of a vLLM 0.32.0 CPU worker beside its model",
            known=10,
        ),
    ),
}
_GRAPH_CONSTANTS: Final = tuple(name for name in RANGES if name.startswith("cudagraph"))
GRAPHS: Final = "cudagraph"


def priors() -> Table:
    """The table without any launch."""
    return table_of([])


def implied(launches: Iterable[Launch]) -> list[Implied]:
    """What every launch says about every constant; those that cannot be planned say nothing."""
    found: list[Implied] = []
    base = priors()
    for launch in launches:
        if (
            not (launch.stated or launch.dated)
            or launch.fork
            or not launch.consistent
            or launch.tier == "C"
        ):
            continue
        try:
            found += _implied_by(launch, base)
        except NotPlanned:
            continue
    return found


def _implied_by(launch: Launch, base: Table) -> list[Implied]:
    found = []
    for name, ranges in RANGES.items():
        taken, *others = {_range_of(ranges, release) for release in launch.releases}
        if others:
            continue  # it does not say which value it shows
        figure = taken.figure
        if figure is None or getattr(launch, figure) is None:
            continue
        if figure == "non_torch" and find_release(launch.releases[0]).fact(
            "context_inside_utilization"
        ):
            continue  # it shows the context with it
        value = _value(base, name, taken.since)
        plain = _figure(launch, figure, base)
        step = _figure(launch, figure, _changed(base, name, taken.since, value * (1 + _STEP)))
        slope = (step - plain) / (value * _STEP)
        if slope * value < _DOMINATES * plain:
            continue
        missing = getattr(launch, figure) - plain
        found.append(Implied(launch, name, taken.since, value + missing / slope))
    if launch.graphs:
        with with_constants(base):
            plan = plans_of(launch)[0]
        sizes = len(plan.config.cudagraph_sizes)
        layers = plan.card.num_layers // plan.config.given.pipeline_parallel_size
        if sizes:
            parts = (1.0, float(sizes), float(sizes * layers))
            found.append(Implied(launch, GRAPHS, "0.8.5", launch.graphs, parts))
    return found


def _figure(launch: Launch, figure: str, table: Table) -> float:
    with with_constants(table):
        answer = answer_of(plans_of(launch)[0])
    return float(getattr(answer, figure).value)


def _range_of(ranges: Sequence[Range], release: str) -> Range:
    key = release_key(release)
    return [each for each in ranges if release_key(each.since) <= key or each is ranges[0]][-1]


def _value(table: Table, name: str, since: str) -> float:
    return float(next(row["value"] for row in table[name] if row["since"] == since))


def _changed(table: Table, name: str, since: str, value: float) -> Table:
    rows = [{**row, "value": value} if row["since"] == since else row for row in table[name]]
    return {**table, name: rows}


def table_of(known: Sequence[Implied]) -> dict[str, list[dict[str, Any]]]:
    """The constants that these launches imply."""
    table: dict[str, list[dict[str, Any]]] = {}
    for name, ranges in RANGES.items():
        rows: list[dict[str, Any]] = []
        for each in ranges:
            prior = each.value if each.value is not None else rows[-1]["value"]
            mine = [one for one in known if (one.name, one.since) == (name, each.since)]
            rows.append(_row(each, prior, mine))
        table[name] = rows
    graphs = [one for one in known if one.name == GRAPHS]
    if len(graphs) >= ENOUGH:
        _fit_graphs(table, graphs)
    return table


def _row(given: Range, prior: float, mine: Sequence[Implied]) -> dict[str, Any]:
    if not mine:
        return _entry(given, prior, given.band, [])
    middle = median(one.value for one in mine)
    near = [one for one in mine if 1 / _FAR < one.value / middle < _FAR]
    value = median(one.value for one in near)
    return _entry(given, value, _band(given, [one.value / value - 1 for one in near]), near)


def _band(given: Range, errors: Sequence[float]) -> float:
    """The share that holds nine of ten launches; nearer to the prior's the fewer there are."""
    ordered = sorted(abs(error) for error in errors)
    seen = max(_NARROWEST, ordered[int(0.9 * (len(ordered) - 1))])
    if len(ordered) >= ENOUGH:
        return seen
    return max(seen, (len(ordered) * seen + ENOUGH * given.band) / (len(ordered) + ENOUGH))


def _entry(given: Range, value: float, band: float, rows: Sequence[Implied]) -> dict[str, Any]:
    launches = {one.launch.case_id: one.launch for one in rows}.values()
    releases = sorted({each.releases[0] for each in launches}, key=release_key)
    return {
        "since": given.since,
        "value": float(f"{value:.4g}"),
        "band": round(band, 3),
        "n": len(launches) or given.known,
        "basis": "calibrated" if len(launches) >= ENOUGH else "estimated",
        "releases": releases,
        "gpus": sorted({re.sub(r"^\d+x", "", each.rig or "") for each in launches}),
        "source": given.source,
    }


def _fit_graphs(table: dict[str, list[dict[str, Any]]], graphs: Sequence[Implied]) -> None:
    """Least squares of the three parts; launches that miss by a third or more are left out."""
    import numpy as np

    left = np.array([one.parts for one in graphs])
    right = np.array([one.value for one in graphs])
    kept = np.ones(len(right), dtype=bool)
    for _ in range(4):
        weight = 1 / right[kept]
        found = np.linalg.lstsq(left[kept] * weight[:, None], right[kept] * weight, rcond=None)[0]
        found = np.maximum(found, 1e-6)
        kept = np.abs(left @ found / right - 1) < 1 / 3
    errors = [float(error) for error in right / (left @ found) - 1]
    for name, value in zip(_GRAPH_CONSTANTS, found, strict=True):
        given = RANGES[name][0]
        table[name] = [_entry(given, float(value), _band(given, errors), graphs)]


NOTE: Final = (
    "Constants of the terms that vLLM measures at start-up, written by tools/fit_constants.py. "
    "`since` is the first release a value holds for; `band` the share to each side that should "
    "hold nine launches of ten; `n`, `releases` and `gpus` the published launches behind it."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    table = table_of(implied(read_launches(arguments.file)))
    lines = []
    for name, rows in table.items():
        entries = ",\n".join(f"      {json.dumps(row)}" for row in rows)
        lines.append(f'    "{name}": [\n{entries}\n    ]')
    body = ",\n".join(lines)
    OUTPUT.write_text(
        f'{{\n  "note": {json.dumps(NOTE)},\n  "constants": {{\n{body}\n  }}\n}}\n', "utf-8"
    )


if __name__ == "__main__":
    main()
