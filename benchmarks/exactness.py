"""How exact the memory plan is: every case vLLM's own code answered, theirs against ours.

    python benchmarks/exactness.py [FILE] [--configs FOLDER] [--json] [--markdown] [--only TEXT]
                                   [--all]

FILE has one JSON object a line: `model`, `gpu`, `tp`, `pp`, `engine` and vLLM's answers (`ranks`,
`kv`, or `refusal`); without it, the cases of the test suite. FOLDER has the config.json that vLLM
was asked with in a folder for each `model`; a folder `model_configs` beside FILE's own is found by
itself. Without one, and for what it does not have, the bundled configs stand in, changed as the
test suite's case of the same id says. Printed are the cases that differ
(with --all every one), then a table by architecture and the totals. A case that is not modelled
counts as wrong.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hardware_db import find_gpu
from model_cards.build import build_card
from model_cards.card import ModelCard, Origin
from model_cards.config import Config
from model_cards.errors import CardError
from model_cards.facts import Facts
from model_cards.sources.bundled import bundled_config, bundled_pooling, find_entry
from planner.engine.defaults import resolve
from planner.engine.device import device_facts
from planner.engine.refusal import Refusal, RefusalKind, Unloadable
from planner.engine.releases import find_release
from planner.engine.rules import refusals
from planner.engine.served import as_served
from planner.engine_config import EngineConfig, EplbConfig, SpeculativeConfig
from planner.errors import PlanError
from planner.memory.kv_cache import KVCachePlan
from planner.memory.loaded import load_model

CASES = Path(__file__).parent.parent / "tests" / "data" / "oracle.jsonl"
GPUS = {
    "H100-80": "h100-sxm",
    "H200-141": "h200",
    "A100-80": "a100-sxm-80gb",
    "L40S-48": "l40s",
    "RTX4090-24": "rtx-4090",
    "RTX5090-32": "rtx-5090",
    "B200-180": "b200",
    "T4-16": "t4",
}
RELEASE = "0.33.0"
ON_HOST = ("ParallelEngramEmbedding",)  # classes whose tensors vLLM keeps in host memory
_KNOWN = frozenset(EngineConfig.__struct_fields__)


class NotModelledError(Exception):
    """vplan has no rule for this case."""


class Ours(Struct, frozen=True):
    """What vplan says of a case."""

    refusal: Refusal | None = None
    weights: tuple[int, ...] = ()  # of each stage, with what stays allocated beside them
    kv: KVCachePlan | None = None


@dataclass(slots=True)
class Result:
    """One case, compared."""

    id: str
    architecture: str
    not_modelled: str | None = None
    weights: list[tuple[int, int]] = field(default_factory=list)  # (theirs, ours) of each stage
    weights_scored: bool = False
    kv: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    kv_scored: bool = False
    refusal: str | None = None
    refusal_ours: str | None = None
    format: str = "?"  # of the weights
    parallel: tuple[str, ...] = ()  # kinds of parallelism at work

    @property
    def weights_exact(self) -> bool:
        """Whether every stage is byte for byte the same."""
        return self.weights_scored and bool(self.weights) and all(a == b for a, b in self.weights)

    @property
    def kv_exact(self) -> bool:
        """Whether blocks, tokens and concurrency are the same."""
        return self.kv_scored and bool(self.kv) and all(a == b for a, b in self.kv.values())

    @property
    def refusal_right(self) -> bool:
        """Whether vplan refuses for the same class of reason."""
        return self.refusal is not None and self.refusal == self.refusal_ours

    @property
    def worst(self) -> float:
        """Largest relative difference of the weights."""
        if not self.weights:
            return 1.0
        return max(abs(ours - theirs) / theirs for theirs, ours in self.weights)

    @property
    def right(self) -> bool:
        """Whether everything vLLM answered is the same."""
        if self.refusal is not None and not self.kv_scored and not self.weights_scored:
            return self.refusal_right
        weights = self.weights_exact or not self.weights_scored
        return weights and (self.kv_exact or not self.kv_scored) and not self.not_modelled


def card_of(
    name: str, patch: dict[str, Any], method: str | None = None, configs: Path | None = None
) -> ModelCard:
    """The card of a model whose config.json vLLM was given, with these keys changed.

    Of a checkpoint that drafts by `method`, vLLM was told nothing but the config: without its
    tensors it takes the head for one that shares the target's vocabulary matrices.
    """
    model_id = name.replace("__", "/", 1)
    if configs is not None and (configs / name / "config.json").is_file():
        return _card_in(configs / name, model_id, patch, method)
    bundled = bundled_config(model_id)
    if bundled is None:
        raise NotModelledError(f"{model_id} is not bundled")
    config, side = bundled
    values = {key: config.raw(key) for key in config} | patch
    values = {key: value for key, value in values.items() if value is not None or key not in patch}
    if side is not None:
        side = Config({key: side.raw(key) for key in side}, side.where, complete=True)
    entry = find_entry(model_id) if method is None else None
    facts = Facts(
        parameters=entry.parameters if entry is not None else None,
        side_file=side,
        draft_method=method,
        pooling=bundled_pooling(model_id),
    )
    # vLLM fills what a config leaves out with the model class's defaults.
    return build_card(
        model_id,
        Config(values, config.where, complete=True),
        Origin("bundled", "case"),
        facts,
    )


def _card_in(folder: Path, model_id: str, patch: dict[str, Any], method: str | None) -> ModelCard:
    """The card of a folder with the config.json that vLLM was asked with."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    side, entry = folder / "hf_quant_config.json", find_entry(model_id)
    facts = Facts(
        parameters=entry.parameters if entry is not None and method is None else None,
        side_file=Config(json.loads(side.read_text("utf-8")), side.name)
        if side.is_file()
        else None,
        draft_method=method,
        pooling=bundled_pooling(model_id),
    )
    _merge(config, patch)
    asked = Config(config, f"{model_id}: config.json", complete=True)
    return build_card(model_id, asked, Origin("folder", "case"), facts)


def _merge(config: dict[str, Any], patch: dict[str, Any]) -> None:
    """Change a config as the cases do: part by part, "__delete__" takes a key away."""
    for key, value in patch.items():
        if value == "__delete__":
            config.pop(key, None)
        elif isinstance(value, dict) and isinstance(config.get(key), dict):
            _merge(config[key], value)
        else:
            config[key] = value


def draft_of(
    row: dict[str, Any], given: dict[str, Any], configs: Path | None = None
) -> ModelCard | None:
    """The card of the draft that a case's `speculative_config` names."""
    model, method = given.get("model"), given["method"]
    if model is None:
        return None
    head = method if method != "draft_model" else None
    if isinstance(model, dict):
        config = Config(model, "the draft's config.json", complete=True)
        card = build_card("draft", config, Origin("bundled", "case"), Facts(draft_method=head))
    else:
        card = card_of(model, row.get("draft_patch") or {}, head, configs)
    if head is None:
        return card
    assert card.head is not None
    own = row.get("draft_own") or {}
    told = replace(
        card.head,
        own_embedding=bool(own.get("has_own_embed_tokens")),
        own_lm_head=bool(own.get("has_own_lm_head")),
    )
    return replace(card, head=told)


def plan_case(row: dict[str, Any], card: ModelCard, configs: Path | None = None) -> Ours:
    """vplan's answer to a case."""
    engine = dict(row["engine"])
    draft = None
    if engine.get("speculative_config"):
        speculative = engine["speculative_config"]
        with suppress(CardError):  # a draft need not be known for the launch to be refused
            draft = draft_of(row, speculative, configs)
        engine["speculative_config"] = SpeculativeConfig(
            speculative["method"],
            speculative["num_speculative_tokens"],
            draft.model_id if draft is not None else None,
            speculative.get("draft_tensor_parallel_size"),
        )
    if row.get("language_model_only"):
        engine["language_model_only"] = True
    if "eplb_config" in engine:
        engine["eplb_config"] = EplbConfig(**engine["eplb_config"])
    unknown = set(engine) - _KNOWN
    if unknown:
        raise NotModelledError(f"setting {', '.join(sorted(unknown))}")
    device = device_facts(find_gpu(GPUS[row["gpu"]]).gpu)
    given = EngineConfig(tensor_parallel_size=row["tp"], pipeline_parallel_size=row["pp"], **engine)
    release = find_release(RELEASE)
    card = as_served(card, given)
    config = resolve(
        card, device, given, release, draft, offline=row.get("usage", "server") != "server"
    )
    broken = refusals(card, device, config, release)
    if broken:
        return Ours(refusal=broken[0])
    if not card.exact:  # a model need not be known in detail to be refused
        raise NotModelledError(card.notes[0] if card.notes else "estimated")
    if draft is not None and not draft.exact:
        raise NotModelledError(f"the draft: {draft.notes[0] if draft.notes else 'estimated'}")
    try:
        loaded = load_model(card, config, device)
    except Unloadable as error:
        return Ours(refusal=Refusal(error.kind, str(error)))
    # vLLM's answers are of the model alone, before adapters and balancing get their room.
    weights = [
        stage.model_bytes - stage.weights.lora - stage.buffers.eplb for stage in loaded.stages
    ]
    kv_row = row.get("kv") or row.get("kv_with_4x_memory") or {}
    pools = row.get("kv_mem") or kv_row.get("available_kv_bytes") or [20 * 2**30]
    pools = (list(pools) * row["pp"])[: row["pp"]]
    if "kv" in row:
        pools = kv_row["available_kv_bytes"][: row["pp"]]
    kv = loaded.cache.kv_cache(pools, config, release)
    refusal = None
    if not kv.fits:
        refusal = Refusal(RefusalKind.KV_ROOM, f"{kv.shortfall_bytes} bytes are missing")
    return Ours(refusal, tuple(weights), kv)


def parallelism(row: dict[str, Any]) -> tuple[str, ...]:
    """Which kinds of parallelism and what else a case has beside a plain launch."""
    engine = row["engine"]
    kinds = {
        "TP": row["tp"] > 1,
        "PP": row["pp"] > 1,
        "DP": engine.get("data_parallel_size", 1) > 1,
        "EP": bool(engine.get("enable_expert_parallel")),
        "EPLB": bool(engine.get("enable_eplb")),
        "DCP": engine.get("decode_context_parallel_size", 1) > 1,
        "drafts": bool(engine.get("speculative_config")),
        "LoRA": bool(engine.get("enable_lora")),
        "KV dtype": engine.get("kv_cache_dtype", "auto") != "auto",
    }
    return tuple(kind for kind, present in kinds.items() if present)


def compare(row: dict[str, Any], configs: Path | None = None) -> Result:
    """One case, theirs against ours; `configs` as on the command line."""
    result = Result(row["id"], "?", refusal=row.get("refusal"), parallel=parallelism(row))
    result.kv_scored = "kv" in row
    ranks = row.get("ranks", [])
    result.weights_scored = bool(ranks) and all(
        rank.get("post") and not rank["post"]["failed"] for rank in ranks
    )
    try:
        card = card_of(row["model"], row.get("config_patch") or {}, configs=configs)
        result.architecture, result.format = card.architecture, card.format_kind
        ours = plan_case(row, card, configs)
    except (NotModelledError, CardError, PlanError) as error:
        result.not_modelled = str(error)
        return result
    if ours.refusal is not None:
        result.refusal_ours = ours.refusal.kind.value
    for rank, mine in zip(ranks, ours.weights, strict=False):
        theirs = rank.get("post", {}).get("total") or rank["target"]["total"]
        theirs -= sum(rank["target"].get("by_class", {}).get(name, 0) for name in ON_HOST)
        result.weights.append((theirs, mine))
    if ours.kv is not None and result.kv_scored:
        kv = row["kv"]
        result.kv = {
            "bytes_per_block": (
                kv["pool_bytes_per_block_per_rank"],
                list(ours.kv.bytes_per_block),
            ),
            "blocks_per_request": (
                sum(kv["blocks_per_max_len_request_per_group"]),
                ours.kv.blocks_per_request,
            ),
            "num_blocks": (kv["num_blocks"], ours.kv.num_blocks),
            "tokens": (kv["tokens_printed"], ours.kv.tokens),
            "concurrency": (round(kv["max_concurrency"], 6), round(ours.kv.concurrency, 6)),
            "max_model_len": (kv["max_model_len_out"], ours.kv.max_model_len),
        }
    return result


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The cases of a file."""
    for line in path.read_text("utf-8").splitlines():
        if line.strip():
            yield json.loads(line)


def with_asked_configs(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows with how the config that vLLM was asked with differs from the bundled one.

    The cases of the test suite say so of themselves; another file of the same cases may not.
    """
    known = {row["id"]: row for row in read_rows(CASES)}
    for row in rows:
        same = known.get(row["id"], {})
        differs = {key: same[key] for key in ("config_patch", "draft_patch") if same.get(key)}
        yield {**row, **differs}


def summary(results: list[Result]) -> dict[str, Any]:
    """The totals, and every case that differs."""
    weights = [r for r in results if r.weights_scored]
    kv = [r for r in results if r.kv_scored]
    refused = [r for r in results if r.refusal is not None]
    modelled = [r.worst for r in weights if r.weights]
    return {
        "cases": len(results),
        "weights_scored": len(weights),
        "weights_exact": sum(r.weights_exact for r in weights),
        "weights_worst_relative": max(modelled, default=0.0),
        "kv_scored": len(kv),
        "kv_exact": sum(r.kv_exact for r in kv),
        "refusals": len(refused),
        "refusals_right": sum(r.refusal_right for r in refused),
        "not_modelled": [r.id for r in results if r.not_modelled],
        "differences": [asdict(r) for r in results if not r.right],
    }


def print_case(result: Result) -> None:
    """One case, a line for each component."""
    name = f"{result.id} ({result.architecture})"
    if result.not_modelled:
        print(f"{name}: not modelled: {result.not_modelled}")
    if result.refusal is not None:
        print(f"{name}: refusal: theirs {result.refusal}, ours {result.refusal_ours}")
    elif result.refusal_ours is not None:
        print(f"{name}: ours refuses: {result.refusal_ours}")
    for stage, (theirs, ours) in enumerate(result.weights):
        scored = "" if result.weights_scored else " (not scored: loading was incomplete)"
        difference = ours - theirs
        print(
            f"{name}: weights, stage {stage}: {theirs} {ours} {difference:+} "
            f"{difference / theirs:+.4%}{scored}"
        )
    for key, (theirs, ours) in result.kv.items():
        if theirs != ours:
            print(f"{name}: {key}: {theirs} {ours}")


def coverage(results: list[Result]) -> Iterator[tuple[str, ...]]:
    """Rows of the coverage table: by architecture, exact of scored, and what the cases vary."""

    def score(exact: Iterable[bool]) -> str:
        marks = list(exact)
        return f"{sum(marks)}/{len(marks)}" if marks else "-"

    for architecture in sorted({r.architecture for r in results}):
        of = [r for r in results if r.architecture == architecture]
        formats = []
        for kind in sorted({r.format for r in of}):
            right = [r.right for r in of if r.format == kind]
            formats.append(f"{kind} {score(right)}")
        kinds = dict.fromkeys(kind for r in of for kind in r.parallel)
        yield (
            architecture,
            score(r.weights_exact for r in of if r.weights_scored),
            score(r.kv_exact for r in of if r.kv_scored),
            score(r.refusal_right for r in of if r.refusal is not None),
            ", ".join(formats),
            ", ".join(sorted(kinds)),
        )


HEADER = ("architecture", "weights", "KV cache", "refusals", "formats", "with")


def print_table(results: list[Result]) -> None:
    """The coverage table for a terminal."""
    for name, weights, kv, refused, formats, kinds in (HEADER, *coverage(results)):
        print(f"{name:42} {weights:>8} {kv:>8} {refused:>8}  {formats:44} {kinds}")


def print_markdown(results: list[Result]) -> None:
    """The coverage table for the README."""
    for row in (HEADER, ("---",) * len(HEADER), *coverage(results)):
        print(f"| {' | '.join(row)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, nargs="?", default=CASES)
    parser.add_argument("--configs", type=Path, metavar="FOLDER", help="what vLLM was asked with")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--only", default="", help="cases whose id or architecture contains this")
    parser.add_argument("--all", action="store_true", help="print every case")
    parser.add_argument("--markdown", action="store_true", help="only the table, as Markdown")
    arguments = parser.parse_args()
    beside = arguments.file.resolve().parent.parent / "model_configs"
    configs = arguments.configs or (beside if beside.is_dir() else None)
    rows = list(read_rows(arguments.file))
    if configs is None:
        rows = list(with_asked_configs(rows))
    results = [compare(row, configs) for row in rows]
    if arguments.only:
        wanted = arguments.only.lower()
        results = [r for r in results if wanted in f"{r.id} {r.architecture}".lower()]
    totals = summary(results)
    if arguments.json:
        print(json.dumps(totals))
        return
    if arguments.markdown:
        print_markdown(results)
        return
    for result in results:
        if arguments.all or not result.right:
            print_case(result)
    print()
    print_table(results)
    print(
        f"\n{totals['cases']} cases: weights {totals['weights_exact']}/{totals['weights_scored']} "
        f"exact, KV cache {totals['kv_exact']}/{totals['kv_scored']} exact, refusals "
        f"{totals['refusals_right']}/{totals['refusals']} right, "
        f"{len(totals['not_modelled'])} not modelled"
    )


if __name__ == "__main__":
    main()
