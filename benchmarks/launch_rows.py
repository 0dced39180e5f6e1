"""Real launches of vLLM: rows of published start-up logs as settings that vplan can plan.

One JSON object a line. What a row leaves out was not seen; what its source says of it beyond the
row is in launch_facts.json, and vLLM's default is taken for the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from planner import EngineConfig
from planner.engine.images import variables_set_by
from planner.engine.releases import release_key
from planner.engine_config import SpeculativeConfig
from planner.quantity import Quantity

GIB: Final = 2**30
FACTS: Final = Path(__file__).parent / "launch_facts.json"

# GPU kinds of the rows -> rigs; the total is the GPU table's, as a user would plan.
_RIGS: Final = {
    "H100 80GB": "h100-sxm",
    "H100 NVL": "h100-nvl",
    "H200": "h200-sxm",
    "B200": "b200",
    "B300": "b300",
    "H20": "h20",
    "RTX PRO 6000 Blackwell": "rtx-pro-6000-blackwell",
    "RTX 3090": "rtx-3090",
    "RTX 4090": "rtx-4090",
    "RTX 5090": "rtx-5090",
    "RTX 5080": "rtx-5080",
    "RTX 5070 Ti": "rtx-5070-ti",
    "RTX 3060": "rtx-3060-12gb",
    "RTX 2080 Ti": "rtx-2080-ti",
    "RTX A6000": "rtx-a6000",
    "GB10 (DGX Spark)": "gb10",
    "Jetson AGX Thor": "jetson-agx-thor",
    "MI300X": "mi300x",
    "T4": "t4",
    "L4": "l4",
    "L40S": "l40s",
    "A10G": "a10g",
    "A100 40GB": "a100-sxm4-40gb",
    "V100 32GB": "v100-sxm2-32gb",
    "Intel Arc": "arc-pro-b70",
    "8 GB class": "rtx-3060-ti",
}
_ONLINE: Final = {"fp8 (online)": "fp8"}
# Releases that a row without one may come from, if it does not say V0.
_PLAUSIBLE: Final = ("0.19.1", "0.22.1", "0.25.1", "0.28.0", "0.33.0")
# Issues are numbered in time: from which number on which releases were current.
_BY_ISSUE: Final = ((26000, ("0.11.0", "0.11.1", "0.12.0")), (31000, _PLAUSIBLE))
_V0_RELEASE: Final = "0.9.1"  # counts as V0 did; V1 began to with it
_V0_CHUNKS_FROM: Final = 32768  # the V0 engine runs prompts whole up to this length
# Reports up to this one are older than the snapshot of the V0 engine: all that is outside of torch
# counted, as it did with the V1 engine of 0.8.5.
_BEFORE_SNAPSHOT: Final = 11000
_WITHOUT_SNAPSHOT: Final = "0.8.5"


class Launch(Struct, frozen=True):
    """One launch: what was asked of vLLM, and what it printed. Sizes in GiB, None: not seen."""

    case_id: str
    source: str
    source_group: str
    tier: str
    consistent: bool
    fork: bool
    releases: tuple[str, ...]  # one if the row states it
    dated: bool  # whether the source tells when it was, where it names no release
    rig: str | None  # None: the card is not known
    gpu_kind: str
    model: str
    settings: EngineConfig
    offline: bool
    environ: tuple[tuple[str, str], ...]  # variables that the server was started with
    batch_seen: bool  # whether `max_num_seqs` was seen, or said to be the default
    beside: tuple[EngineConfig, ...]  # other settings that it may have had
    problem: str | None  # why it cannot be planned as it was run
    weights: float | None
    activation: float | None
    non_torch: float | None
    graphs: float | None  # "Estimated CUDA graph memory"
    kv_cache: float | None
    tokens: float | None
    concurrency: float | None
    longest: float | None  # "estimated maximum model length"
    started: bool
    outcome: str

    @property
    def stated(self) -> bool:
        """Whether the row says which release it was."""
        return len(self.releases) == 1

    @property
    def headline(self) -> bool:
        """Whether the score counts it: complete, in itself consistent, vLLM as published."""
        return self.tier == "A" and self.consistent and not self.fork


def read_launches(path: Path) -> Iterator[Launch]:
    """The launches of a file."""
    lines = [line for line in path.read_text("utf-8").splitlines() if line.strip()]
    told: dict[str, dict[str, Any]] = json.loads(FACTS.read_text("utf-8"))["launches"]
    rows = map(json.loads, lines)
    launches = [launch_of({**row, **told.get(row["case_id"], {})}) for row in rows]
    stated: dict[str, set[str]] = {}
    for launch in launches:
        if launch.stated and not launch.fork:
            stated.setdefault(launch.source_group, set()).add(launch.releases[0])
    for launch in launches:
        known = stated.get(launch.source_group)
        if not launch.stated and known and not launch.dated:  # as the rest of its source
            yield replace(launch, releases=tuple(sorted(known, key=release_key)))
        else:
            yield launch


def launch_of(row: dict[str, Any]) -> Launch:
    """One row; fields as in the file."""
    flags = row.get("other_flags") or ""
    old = row.get("engine") == "V0"
    speculative, problem = _speculative(row.get("speculative"))
    if "sleep mode" in flags:
        problem = problem or "sleep mode keeps weights and cache in pools of their own"
    if row.get("quantization") == "bitsandbytes":
        problem = problem or "weights quantized by bitsandbytes while they load"
    rig = _RIGS.get(row.get("gpu_kind") or "")
    if rig is None:
        problem = problem or f"GPU {row.get('gpu')}"
    length = row.get("max_model_len")
    seqs, tokens = row.get("max_num_seqs"), row.get("max_num_batched_tokens")
    if old:  # chunked prefill was off, and what a batch holds followed from the length
        seqs = seqs or 256
        tokens = tokens or (max(2048, length) if length and length <= _V0_CHUNKS_FROM else 2048)
    settings = EngineConfig(
        tensor_parallel_size=row.get("tp") or 1,
        pipeline_parallel_size=row.get("pp") or 1,
        data_parallel_size=row.get("dp") or 1,
        decode_context_parallel_size=row.get("dcp") or 1,
        enable_expert_parallel="expert parallel" in flags,
        dtype=row.get("dtype") or "auto",
        quantization=_ONLINE.get(row.get("quantization") or ""),
        max_model_len=length,
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        gpu_memory_utilization=row.get("gpu_memory_utilization"),
        kv_cache_memory_bytes=_pinned(flags),
        kv_cache_dtype=(row.get("kv_cache_dtype") or "auto").split(" ")[0],
        block_size=_number(r"block-size (\d+)", flags),
        enforce_eager=bool(row.get("enforce_eager")),
        language_model_only=row.get("language_model_only", "text-only" in flags),
        mm_encoder_tp_mode=row.get("mm_encoder_tp_mode", "weights"),
        speculative_config=speculative,
        enable_lora="enable_lora" in flags,
    )
    small = row["outcome"] == "kv_too_small"
    return Launch(
        case_id=row["case_id"],
        source=row["source"],
        source_group=row.get("source_group") or row["source"],
        tier=row["tier"],
        consistent=row.get("consistent") is not False,
        fork=bool(row.get("engine_fork")),
        releases=tuple(row.get("releases", ()))
        or _releases(row.get("vllm_version"), row["source"], old=old),
        dated="releases" in row,
        rig=rig and _many(rig, row),
        gpu_kind=row.get("gpu_kind") or "?",
        model=row["model"],
        settings=settings,
        offline="Unsloth" in flags,
        environ=_environ(row, old=old),
        batch_seen=seqs is not None
        or "defaults otherwise" in flags
        or row.get("all_options_seen", False),
        beside=tuple(replace(settings, **other) for other in row.get("beside", ())),
        problem=problem,
        weights=row.get("weights_gib"),
        activation=row.get("activation_peak_gib"),
        non_torch=row.get("non_torch_gib"),
        graphs=row.get("cudagraph_estimate_gib"),
        kv_cache=row.get("kv_cache_gib") or (row.get("error_available_gib") if small else None),
        tokens=row.get("kv_tokens"),
        concurrency=row.get("max_concurrency"),
        longest=row.get("error_est_max_len"),
        # A pool that was sized well may still be too small for the states of a hybrid model.
        started=row["outcome"] == "ok",
        outcome=row["outcome"],
    )


def _environ(row: dict[str, Any], *, old: bool) -> tuple[tuple[str, str], ...]:
    """What its image sets. The V0 engine never left sampling to FlashInfer unasked."""
    found = variables_set_by(row["image"]) if "image" in row else {}
    if old:
        found["VLLM_USE_FLASHINFER_SAMPLER"] = "0"
    return tuple(found.items())


def _releases(text: str | None, source: str, *, old: bool) -> tuple[str, ...]:
    issue = re.fullmatch(r"vllm-project/vllm#(\d+)", source)
    if old:
        early = issue is not None and int(issue[1]) < _BEFORE_SNAPSHOT
        return (_WITHOUT_SNAPSHOT if early else _V0_RELEASE,)
    found = re.match(r"(\d+\.\d+(?:\.\d+)?)", text or "")
    if found is None:
        by_date = [releases for first, releases in _BY_ISSUE if issue and int(issue[1]) >= first]
        return by_date[-1] if by_date else _PLAUSIBLE
    return (found[1],)


def _many(rig: str, row: dict[str, Any]) -> str:
    world = (row.get("tp") or 1) * (row.get("pp") or 1) * (row.get("dp") or 1)
    count = max(row.get("n_gpus") or 1, world)
    many = rig if count == 1 else f"{count}x{rig}"
    return f"{many}+nvlink" if row.get("nvlink") else many


def _speculative(given: dict[str, Any] | None) -> tuple[SpeculativeConfig | None, str | None]:
    """Heads in the checkpoint can be planned; other drafts are named too loosely."""
    if not given:
        return None, None
    count = given.get("num_speculative_tokens")
    if given.get("method") != "mtp" or count is None or given.get("model"):
        return None, f"draft: {given.get('method')}"
    return SpeculativeConfig("mtp", count), None


def _pinned(flags: str) -> int | None:
    exact = _number(r"kv-cache-memory-bytes (\d{7,})", flags)
    if exact is not None:
        return exact
    rounded = _number(r"kv-cache-memory-bytes (?:about )?(\d+) GiB", flags)
    return None if rounded is None else rounded * GIB


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None


def over_releases(answers: list[Quantity], beside: list[Quantity]) -> Quantity:
    """One answer for a launch of unknown settings: the middle one of the usual, all their bands."""
    ordered = sorted(answers, key=lambda each: each.value)
    middle = ordered[(len(ordered) - 1) // 2]
    return Quantity(
        middle.value,
        min(each.low for each in (*answers, *beside)),
        max(each.high for each in (*answers, *beside)),
        max(each.basis for each in answers),
        middle.source,
    )
