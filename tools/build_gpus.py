"""Write hardware_db/data/gpus.json from the collected GPU facts.

    python tools/build_gpus.py COLLECTED.jsonl

Only facts are kept, one GPU a line. Left out: nulls, spellings that the name parser covers anyway,
figures known to be wrong elsewhere, what vLLM supports on a card (that depends on the release), and
totals seen on Windows (it hides the driver's reserve), unless nothing else is known.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from hardware_db.names import parse_name, run_together, spellings

OUT = Path(__file__).parent.parent / "hardware_db" / "data" / "gpus.json"
Row = dict[str, Any]


def main(path: str) -> None:
    collected = [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]
    lines = [
        json.dumps(compact(row), ensure_ascii=False, separators=(",", ":")) for row in collected
    ]
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")
    print(f"{OUT}: {len(lines)} GPUs, {OUT.stat().st_size / 1024:.0f} KiB")


def compact(row: Row) -> Row:
    nvlink, pcie = row["nvlink"], row["pcie"]
    return without_nulls(
        {
            "slug": row["slug"],
            "name": row["name"],
            "vendor": row["vendor"],
            "category": row["category"],
            "architecture": row["architecture"],
            "cc": row["compute_capability"],
            "gfx": row["gfx"],
            "reported": row["reported_names"],
            "aliases": needed_aliases(row),
            "pci": row["pci_device_ids"],
            "memory": memory(row["memory"]),
            "gbs": number(row["bandwidth_gbs"]),
            "gbs_check": row["bandwidth_check"].partition(":")[0],
            "tflops": row["dense_tflops"]
            and {
                **{dtype: number(rate) for dtype, rate in row["dense_tflops"].items()},
                "basis": row["dense_tflops_basis"],
            },
            "sms": row["sm_count"],
            "boost_mhz": number(row["boost_mhz"]),
            "l2_mib": number(row["l2_mb"]),
            "tdp_w": row["tdp_w"],
            "nvlink": nvlink
            and [nvlink["gen"], number(nvlink["gbs_bidirectional"]), nvlink["how"]],
            "pcie": pcie and [pcie["gen"], pcie["lanes"]],
            "prices": [price(p) for p in row["price"]],
            "note": note(row),
            "confidence": row["confidence"],
            "sources": sources(row),
        }
    )


def memory(facts: Row) -> Row:
    nvml = facts["nvml_total_mib"]
    rule = facts["nvml_prediction_rule"] if nvml is None else None
    nvml = nvml or facts["nvml_total_mib_predicted"]
    # torch never sees more than NVML: an observation above it was made with ECC switched off,
    # which the row's NVML total does not describe.
    torch = [seen["mib"] for seen in facts["torch_total_linux"]]
    torch = sorted(mib for mib in torch if nvml is None or mib <= nvml)
    windows = [seen["mib"] for seen in facts["torch_total_wddm_or_wsl2"]]
    return without_nulls(
        {
            "type": facts["type"],
            "gb": number(facts["nominal_gb"]),
            "nvml_mib": nvml,
            "nvml_rule": rule,
            "torch_mib": torch,
            "windows_mib": max(windows) if windows and not torch and nvml is None else None,
            "unified": facts["unified"] or None,
            "devices_per_board": boards if (boards := facts["devices_per_board"]) > 1 else None,
        }
    )


def price(seen: Row) -> Row:
    per, kind = "hour", seen.get("tier")
    if "usd_per_hour_range" in seen:
        low, high = seen["usd_per_hour_range"]
    elif "usd_per_hour" in seen:
        low = high = seen["usd_per_hour"]
    else:
        per, kind = "card", "street" if "usd_street" in seen else "launch"
        low = high = seen[f"usd_{kind}"]
    return without_nulls(
        {
            "usd": [number(low), number(high)],
            "per": per,
            "kind": kind,
            "date": seen["date"],
            "source": public(seen["source"]),
        }
    )


def note(row: Row) -> str | None:
    parts = [row["note"], row["effective_bandwidth_note"], ecc(row["memory"])]
    if row["slug"].startswith("gh200"):  # the note is older than the figure
        parts[0] = re.sub(
            r"bandwidth not seen in a source",
            "Bandwidth is the vendor's figure, not cross-checked",
            row["note"],
            flags=re.IGNORECASE,
        )
    return public("; ".join(part for part in parts if part)) or None


def ecc(facts: Row) -> str | None:
    seen = facts["ecc"]
    if isinstance(seen, str):
        return "ECC " + seen
    if not seen:
        return None
    parts = []
    for key, value in seen.items():  # "on_nvml_mib": 23040; "off": "49140 MiB NVML, ..."
        state, _, which = key.partition("_")
        tool, _, unit = which.partition("_")
        if state in ("on", "off"):
            tool = tool.upper() if tool == "nvml" else tool
            unit = {"mib": " MiB", "gib": " GiB", "": ""}[unit]
            parts.append(f"{state}: {value}{unit} {tool}".rstrip())
    return "ECC " + ", ".join(parts)


def sources(row: Row) -> list[str]:
    facts = row["memory"]
    seen = [*row["sources"], *(f"memory: {source}" for source in facts["nvml_source"])]
    seen += [f"memory: {total['source']}" for total in facts["torch_total_linux"]]
    if row["slug"] == "rx-9070-xt":
        seen += [f"memory: {total['source']}" for total in facts["torch_total_wddm_or_wsl2"]]
    return list(dict.fromkeys(public(source) for source in seen))


def public(text: str) -> str:
    """Without the numbers that only kept unattributed files apart."""
    return re.sub(r"unattributed public file U\d+", "public log without a known repository", text)


def needed_aliases(row: Row) -> list[str]:
    """The aliases that the name parser does not derive from the row's other names."""
    size = row["memory"]["nominal_gb"]
    covered: set[object] = set()
    for name in (row["slug"], row["name"]):  # several rows may share a reported name
        covered |= answers_to(name, size)
    aliases = {*row["aliases"]} - {*map(str.casefold, row["reported_names"])}
    needed = []
    # Those with the most words first: "3080ti laptop" makes "3080tilaptop" superfluous.
    for alias in sorted(sorted(aliases, reverse=True), key=lambda a: -a.count(" ")):
        name = parse_name(alias)
        if name.key not in covered and (name.loose, name.size_gb) not in covered:
            needed.append(alias)
            covered |= answers_to(alias, size)
    return sorted(needed)


def answers_to(name: str, size: float) -> set[object]:
    """The keys that ``name`` makes known, and its words with the memory sizes they may carry."""
    found: set[object] = set()
    for spelling in spellings(name):
        found |= {spelling.key, run_together(spelling.key)}
        found |= {(spelling.loose, spelling.size_gb), (spelling.loose, size)}
    return found


def number(value: float | None) -> float | None:
    return int(value) if value is not None and value == int(value) else value


def without_nulls(row: Row) -> Row:
    return {key: value for key, value in row.items() if value not in (None, [], {}, "")}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
