"""Fit the constants of the step-time model to published measurements.

    python tools/fit_speed.py MEASUREMENTS.jsonl

Writes planner/speed/data/constants.json: each constant with its value, band, the rows it matters
for and its source; and the bands of predictions. Least squares on the logarithm of measured over
predicted time, with large errors weighing less, and each constant held to where it starts by a
spring: how far the sources that it starts from leave it open. That keeps constants which a few rows
show from explaining what those rows have in common otherwise.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from speed_plans import Measured, first_token, measured_rows, tpot  # noqa: E402
from speed_rows import read_rows  # noqa: E402

from planner.speed.bands import load_class  # noqa: E402
from planner.speed.constants import Constants, nested  # noqa: E402

OUTPUT: Final = ROOT / "planner" / "speed" / "data" / "constants.json"
Values = dict[str, float]
Floats = NDArray[np.float64]


class Start(Struct, frozen=True):
    """Where a constant starts, by how much (in logarithm) it may be off, and what says so.

    `leeway` None: no row shows it; it stays.
    """

    value: float
    leeway: float | None
    source: str


_GEMM: Final = "GEMM tables of ai-dynamo/aiconfigurator@095f58a: .77-.88 (16 bit), .70-.86 (fp8)"
_PLATEAU: Final = "GEMM plateaus of ai-dynamo/aiconfigurator@095f58a, as a share of the dense peak"
_MARLIN: Final = "no table; fits to batch 1 gave .65-.75"
_GRAPHS: Final = "10 to 14 kernels a layer inside CUDA graphs; fits to batch 1 gave 39-55 us"
_REDUCE: Final = "all-reduce tables of ai-dynamo/aiconfigurator@095f58a: 4-9 us, 5-26 us over PCIe"
STARTS: Final[dict[str, Start]] = {
    "weight_efficiency.16bit": Start(0.88, 0.02, _GEMM),
    "weight_efficiency.fp8": Start(0.75, 0.04, _GEMM),
    "weight_efficiency.w8a8": Start(0.75, None, "as fp8"),
    "weight_efficiency.int8": Start(0.75, 0.04, _MARLIN),
    "weight_efficiency.int4": Start(0.69, 0.033, _MARLIN),
    "weight_efficiency.nvfp4": Start(0.80, 0.05, "fits to batch 1 gave .70-.84"),
    "weight_efficiency.mxfp4": Start(0.80, 0.05, "fits to batch 1 gave .70-.84"),
    "expert_factor": Start(0.81, 0.067, "experts read at .25-.7 of bandwidth at batch 1"),
    "compute_efficiency.16bit": Start(0.70, 0.04, _PLATEAU),
    "compute_efficiency.fp8": Start(0.55, 0.04, _PLATEAU),
    "compute_efficiency.int8": Start(0.55, None, "as fp8"),
    "compute_efficiency.fp4": Start(0.35, 0.04, _PLATEAU),
    "expert_compute_factor": Start(0.80, 0.067, "grouped matrices are smaller"),
    "kv_efficiency": Start(0.65, 0.067, "decode tables, 64 MB and more: .46-.82"),
    "narrow_kv_factor": Start(0.85, 0.033, "fp8 halves the bytes and gives 1.25 to 1.85 times"),
    "attention_compute_efficiency": Start(0.50, 0.1, "flash attention, forward"),
    "layer_seconds": Start(45e-6, 0.067, _GRAPHS),
    "expert_layer_seconds": Start(20e-6, 0.17, "routing, sorting, two more kernels"),
    "latent_layer_seconds": Start(5e-6, 0.23, "projections of latent vectors"),
    "recurrent_layer_seconds": Start(10e-6, 0.23, "convolution and state update"),
    "eager_layer_seconds": Start(150e-6, None, "10 to 14 launches of about 12 us each"),
    "step_seconds": Start(1e-4, 0.33, "V1 with asynchronous scheduling"),
    "synchronous_step_seconds": Start(1.2e-3, 0.23, "scheduling and input between two steps"),
    "legacy_step_seconds": Start(2.3e-3, 0.1, "vLLM 0.6: host time of a step"),
    "request_seconds": Start(8e-6, 0.33, "sampling and output of each request"),
    "legacy_request_seconds": Start(80e-6, 0.17, "vLLM 0.6: the same, in Python"),
    "fused_factor": Start(0.70, 0.067, "from 0.20.0 on all-reduce, norm and quantization fuse"),
    "all_reduce_seconds.nvlink": Start(7e-6, 0.13, _REDUCE),
    "all_reduce_seconds.pcie": Start(22e-6, 0.13, f"{_REDUCE}; waiting for the slower rank"),
    "all_reduce_growth_per_doubling": Start(0.15, 0.1, _REDUCE),
    "link_efficiency.nvlink": Start(0.35, 0.1, "bus bandwidth of large all-reduces"),
    "link_efficiency.pcie": Start(0.60, 0.13, "bus bandwidth of large all-reduces"),
    "network_gbs": Start(20.0, None, "assumed: 200 Gbit/s for each GPU of a machine"),
    "network_seconds": Start(60e-6, None, "assumed: RDMA between nodes"),
    "replica_sync_seconds": Start(
        150e-6, None, "assumed: an all-reduce of a few numbers on the hosts before each step"
    ),
    "host_link_efficiency": Start(0.80, None, "pinned copies reach 80 % of the link's rate"),
    "expert_draw_exponent": Start(0.80, 0.05, "power-law routing: .5-.8 of uniform draws"),
    "bunching": Start(0.20, 0.15, "answers of like length end together; none known"),
    "rocm_factor": Start(1.0, None, "MI250 with vLLM of 2024, R9700: the median of their rows"),
    "first_token_seconds": Start(15e-3, 0.17, "request, tokenizer, first answer over HTTP"),
}
_SOFT: Final = 0.15  # errors (in logarithm) beyond which they weigh less
_FIRST_TOKENS: Final = 0.3  # weight of a time to first token beside one between tokens
_QUEUED: Final = 0.1  # the same under load, where it is mostly a queue
_FEW: Final = 8  # requests at once, up to which a time to first token is hardly a queue
_SPREAD: Final = 0.1  # errors of rows, for the weight of springs
_STEP: Final = 0.02  # of a logarithm, for derivatives
_MATTERS: Final = 0.02  # share of a row's time that a constant must decide to count the row
_NINE_IN_TEN: Final = 1.645


def start_values() -> Values:
    return {name: start.value for name, start in STARTS.items()}


def fit(rows: Sequence[Measured], rounds: int = 8) -> Values:
    """The constants that fit rows best; cards that stand apart show only their own."""
    values = _fit([row for row in rows if not row.apart], rounds)
    apart = [row.tpot / tpot(row, nested(values)) for row in rows if row.apart]
    return values if not apart else {**values, "rocm_factor": float(np.median(apart))}


def _fit(rows: Sequence[Measured], rounds: int) -> Values:
    current = start_values()
    if not rows:
        return current
    names = [name for name, start in STARTS.items() if start.leeway is not None]
    logs = np.log([current[name] for name in names])
    damping = 1e-3
    residuals, weights = _residuals(rows, nested(current))
    cost = _cost(residuals, weights, _springs(names, logs))
    for _ in range(rounds):
        jacobian = _jacobian(rows, current, names, residuals)
        springs = _springs(names, logs)
        stiffness = np.array([1 / (STARTS[name].leeway or 1.0) for name in names])
        pull = _soft(residuals) * weights
        left = (jacobian * pull[:, None]).T @ jacobian / _SPREAD**2 + np.diag(stiffness**2)
        right = -(jacobian.T @ (pull * residuals)) / _SPREAD**2 - stiffness * springs
        step = np.linalg.solve(left + damping * np.diag(np.diag(left)), right)
        tried = dict(current, **dict(zip(names, np.exp(logs + step).tolist(), strict=True)))
        found, weights = _residuals(rows, nested(tried))
        better = _cost(found, weights, _springs(names, logs + step))
        if better >= cost:
            damping *= 10
            continue
        gained = cost - better
        current, residuals, cost, logs = tried, found, better, logs + step
        damping /= 3
        if gained < 1e-4 * cost:
            break
    return current


def _residuals(rows: Sequence[Measured], constants: Constants) -> tuple[Floats, Floats]:
    """Logarithms of predicted over measured times, and their weights."""
    errors, weights = [], []
    for row in rows:
        errors.append(np.log(tpot(row, constants) / row.tpot))
        weights.append(1.0)
        if row.ttft is not None and not row.counts_prefill:
            found = first_token(row, constants)
            errors.append(np.log(found / row.ttft) if found else 0.0)
            weights.append(_FIRST_TOKENS if row.users <= _FEW else _QUEUED)
    return np.array(errors), np.array(weights)


def _soft(residuals: Floats) -> Floats:
    return 1 / np.sqrt(1 + (residuals / _SOFT) ** 2)


def _cost(residuals: Floats, weights: Floats, springs: Floats) -> float:
    soft = 2 * _SOFT**2 * (np.sqrt(1 + (residuals / _SOFT) ** 2) - 1)
    return float((weights * soft).sum() / _SPREAD**2 + (springs**2).sum())


def _springs(names: Sequence[str], logs: Floats) -> Floats:
    return np.array(
        [
            (log - np.log(STARTS[name].value)) / (STARTS[name].leeway or 1.0)
            for name, log in zip(names, logs, strict=True)
        ]
    )


def _jacobian(rows: Sequence[Measured], values: Values, names: Sequence[str], at: Floats) -> Floats:
    columns = []
    for name in names:
        moved = dict(values, **{name: values[name] * float(np.exp(_STEP))})
        columns.append((_residuals(rows, nested(moved))[0] - at) / _STEP)
    return np.array(columns).T


def described(rows: Sequence[Measured], values: Values) -> dict[str, Any]:
    """Every constant with its band, the rows that show it and where it starts."""
    names = [name for name, start in STARTS.items() if start.leeway is not None]
    rows = [row for row in rows if not row.apart]
    residuals, weights = _residuals(rows, nested(values))
    jacobian = _jacobian(rows, values, names, residuals)
    pull = _soft(residuals) * weights
    shown = np.abs(jacobian) > _MATTERS
    between = weights == 1  # times between tokens; where none shows a constant, first tokens do
    leeways = np.array([STARTS[name].leeway for name in names], dtype=float)
    information = (jacobian * pull[:, None]).T @ jacobian / _SPREAD**2 + np.diag(leeways**-2.0)
    deviations = np.sqrt(np.diag(np.linalg.inv(information)))
    table: dict[str, Any] = {}
    for name, start in STARTS.items():
        entry: dict[str, Any] = {"value": _rounded(values[name]), "start": start.value}
        if name in names:
            column = names.index(name)
            entry["band"] = round(float(_NINE_IN_TEN * deviations[column]), 3)
            entry["rows"] = int(shown[between, column].sum() or shown[:, column].sum())
        else:
            entry["band"], entry["rows"] = 0.5, 0
        table[name] = {**entry, "source": start.source}
    return table


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def left_out(rows: Sequence[Measured]) -> list[float]:
    """Times between tokens, each predicted with constants fitted without the row's source."""
    found: dict[str, Constants] = {}
    for source in dict.fromkeys(row.source for row in rows):
        found[source] = nested(fit([row for row in rows if row.source != source]))
    return [tpot(row, found[row.source]) for row in rows]


def bands(ratios: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """The band of each group: where measured over predicted lies in nine of ten rows."""
    table: dict[str, Any] = {}
    for group, held in sorted(ratios.items()):
        low, high = shortest(held, 0.9)
        low, high = min(low, 1 - NARROWEST), max(high, 1 + NARROWEST)
        table[group] = {"low": round(low, 3), "high": round(high, 3), "rows": len(held)}
    for group, (low, high) in ASSUMED_BANDS.items():
        table[group] = {"low": low, "high": high, "rows": 0}
    return table


def shortest(values: Sequence[float], share: float) -> tuple[float, float]:
    """The shortest interval, as a ratio of its ends, that holds this share of the values."""
    held = sorted(values)
    inside = min(len(held), int(np.ceil(share * len(held))))
    starts = range(len(held) - inside + 1)
    first = min(starts, key=lambda place: held[place + inside - 1] / held[place])
    return held[first], held[first + inside - 1]


def ratios_by_group(
    rows: Sequence[Measured], predicted: Sequence[float], constants: Constants
) -> dict[str, list[float]]:
    """Measured over predicted times, in the groups that bands are told apart by."""
    ratios: dict[str, list[float]] = {}
    for row, time in zip(rows, predicted, strict=True):
        group = "rocm" if row.apart else f"{row.kind} {load_class(row.users)}"
        ratios.setdefault(group, []).append(row.tpot / time)
        if row.ttft is None or row.apart:
            continue
        found = first_token(row, constants)
        if found is not None:
            group = "first token few" if row.users <= _FEW else "first token loaded"
            ratios.setdefault(group, []).append(row.ttft / found)
    return ratios


NARROWEST: Final = 0.08  # a band's least share to each side
# Of what no row shows.
ASSUMED_BANDS: Final = {
    "unlisted device": (0.5, 2.0),
    "eager": (0.6, 2.0),
    "offloaded": (0.6, 2.0),
    "shared experts": (0.6, 1.8),
}
_LISTED: Final = [[7, 5], [8, 0], [8, 6], [8, 9], [9, 0], [10, 0], [10, 3], [12, 0]]
_NOTE: Final = (
    "Constants of the step-time model (planner/speed/step.py), written by tools/fit_speed.py. "
    "`start` is where a constant came from before the fit, `band` the share to each side that "
    "should hold its true value nine times of ten, `rows` the measurements that depend on it. "
    "`bands` are measured over predicted time in nine of ten rows, constants fitted without their "
    "source."
)


def as_lines(table: Mapping[str, Any]) -> str:
    """JSON with one entry a line."""
    blocks = []
    for key, value in table.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            blocks.append(f"  {json.dumps(key)}: {{\n{inner}\n  }}")
        else:
            blocks.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    found = measured_rows(read_rows(arguments.file))
    scored = [row for row in found if isinstance(row, Measured)]
    sound = [row for row in scored if row.doubtful is None]
    values = fit(sound)
    ratios = ratios_by_group(sound, left_out(sound), nested(values))
    table = {
        "note": _NOTE,
        "source": "; ".join(sorted({row.source for row in scored})),
        "constants": described(sound, values),
        "bands": bands(ratios),
        "listed_capabilities": _LISTED,
    }
    OUTPUT.write_text(as_lines(table), "utf-8")


if __name__ == "__main__":
    main()
