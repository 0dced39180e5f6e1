"""Rows of speculative decoding as plans: which model, rig, release and draft stand for each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from msgspec import Struct
from speculation_rows import Row

from hardware_db import HardwareError, Rig, find_rig
from model_cards.build import build_card
from model_cards.card import ModelCard, Origin
from model_cards.config import Config
from model_cards.errors import CardError
from model_cards.facts import Facts
from model_cards.known_drafts import KnownDraft, base_name, draft_card
from model_cards.sources.bundled import entries, open_bundled
from planner import EngineConfig, PlanError, plan_memory
from planner.engine_config import SpeculativeConfig
from planner.memory.plan import MemoryPlan
from planner.quantity import Basis, Quantity
from planner.speed.acceptance import (
    ANY_TASK,
    ExpectedAcceptance,
    curve_of,
    expected_acceptance,
)
from planner.speed.speculative import SpeculativeModel

_RIGS: Final = {
    "1xH100": "h100-sxm", "H100": "h100-sxm", "1xH100 (per vllm#16937)": "h100-sxm",
    "4xH100": "4xh100-sxm", "16xH200": "16xh200", "1xB200": "b200", "8xB200": "8xb200",
    "8xB300": "8xb300", "4xGB200": "4xgb200", "16xGB300": "16xgb300", "A100": "a100-sxm4-80gb",
    "1xA100 (table caption; body text says RTX 3090)": "a100-sxm4-80gb", "3090": "rtx-3090",
    "RTX 4090": "rtx-4090", "H20 (count not stated)": "4xh20",
}  # fmt: skip
_TARGETS: Final = {
    "Llama-3.1-8B-Instruct": "meta-llama/Llama-3.1-8B-Instruct",
    "Llama-3.3-70B-Instruct": "meta-llama/Llama-3.3-70B-Instruct",
    "Llama-3-70B": "meta-llama/Llama-3.1-70B-Instruct",
    "DeepSeek-V3": "deepseek-ai/DeepSeek-V3",
    "DeepSeek-V3.2-NVFP4": "nvidia/DeepSeek-V3.2-NVFP4",
    "DeepSeek-R1-FP4": "nvidia/DeepSeek-R1-0528-NVFP4",
    "Kimi-K2.6-NVFP4": "nvidia/Kimi-K2.6-NVFP4",
    "Kimi-K3": "moonshotai/Kimi-K3",
    "Qwen2.5-Coder-7B": "Qwen/Qwen2.5-Coder-7B-Instruct",
    "Qwen3-8B": "Qwen/Qwen3-8B",
    "Qwen3.5-35B-A3B": "Qwen/Qwen3.5-35B-A3B",
    "Vicuna-7B-v1.3": "lmsys/vicuna-7b-v1.3",
    "Vicuna-33B-v1.3": "lmsys/vicuna-33b-v1.3",
}
# Drafts of rows that name none, or whose config is not bundled: of the same dimensions.
_DRAFTS: Final = {
    ("eagle", "Llama-3.1-8B-Instruct"): "yuhuili/EAGLE-LLaMA3-Instruct-8B",
    ("eagle3", "Llama-3.1-8B-Instruct"): "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",
    ("eagle3", "Llama-3.3-70B-Instruct"): "RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3",
    ("eagle3", "Qwen3-8B"): "AngelSlim/Qwen3-8B_eagle3",
    ("eagle3", "Kimi-K2.6-NVFP4"): "lightseekorg/kimi-k2.6-eagle3-mla",
    ("dspark", "Kimi-K3"): "Inferact/Kimi-K3-DSpark",
    ("eagle", "Vicuna-7B-v1.3"): "yuhuili/EAGLE-Vicuna-7B-v1.3",
    ("eagle", "Vicuna-33B-v1.3"): "yuhuili/EAGLE-Vicuna-33B-v1.3",
    ("draft_model", "Vicuna-7B-v1.3"): "double7/vicuna-68m",
    ("draft_model", "Vicuna-33B-v1.3"): "double7/vicuna-68m",
    ("medusa", "Vicuna-7B-v1.3"): "FasterDecoding/medusa-vicuna-7b-v1.3",
    ("medusa", "Vicuna-33B-v1.3"): "FasterDecoding/medusa-vicuna-33b-v1.3",
    ("draft_model", "Llama-3-70B"): "meta-llama/Llama-3.2-1B-Instruct",
    ("draft_model", "Qwen2.5-Coder-7B"): "Qwen/Qwen2.5-Coder-0.5B-Instruct",
    ("pard", "Llama-3.3-70B-Instruct"): "meta-llama/Llama-3.2-1B-Instruct",
    ("pard", "Llama-3.1-8B-Instruct"): "meta-llama/Llama-3.2-1B-Instruct",
    ("pard", "Qwen3-8B"): "amd/PARD-Qwen3-0.6B",
}
# Engines -> the release whose rules come closest; what names no release is of 2025 or later.
_RELEASES: Final = (
    ("vLLM V0", "0.8.5"), ("vLLM V1", "0.9.1"), ("vLLM 0.16", "0.16.0"),
    ("SGLang", "0.33.0"),  # its scheduler works while the GPU does, as that of newer releases
    ("Spec-Bench", "0.9.1"),
)  # fmt: skip
_OLD_SOURCES: Final = ("arXiv:2503.01840",)  # a vLLM of spring 2025
# Models that are not bundled, by their dimensions.
_LLAMA: Final = {"architectures": ["LlamaForCausalLM"], "model_type": "llama",
                 "vocab_size": 32000, "max_position_embeddings": 2048,
                 "torch_dtype": "float16"}  # fmt: skip
_BUILT: Final = {
    "lmsys/vicuna-33b-v1.3": {"hidden_size": 6656, "intermediate_size": 17920,
                              "num_hidden_layers": 60, "num_attention_heads": 52},
    "lmsys/vicuna-7b-v1.3": {"hidden_size": 4096, "intermediate_size": 11008,
                             "num_hidden_layers": 32, "num_attention_heads": 32},
    "double7/vicuna-68m": {"hidden_size": 768, "intermediate_size": 3072,
                           "num_hidden_layers": 2, "num_attention_heads": 12},
}  # fmt: skip
_NEWEST: Final = "0.33.0"
_CONTEXT: Final = 512  # of benchmarks that name none
_PARALLEL_METHODS: Final = {"peagle": "eagle3", "pard": "draft_model"}
_LONGEST: Final = 12  # drafted tokens, where a row took the best number


class Predicted(Struct, frozen=True):
    """The gain of a row, or why there is none."""

    gain: Quantity | None
    problem: str | None = None


def predicted_gain(row: Row, rows: Sequence[Row]) -> Predicted:
    """The speed-up of a row by its plan; drafting what is best where it does not say how much."""
    if row.batch is None:
        return Predicted(None, "the batch is not stated")
    if row.method is None:
        return Predicted(None, f"vLLM has no {row.named}")
    try:
        hardware, tokens = row.hardware or "", row.tokens or 4
        plan = _plan(row.target, hardware, row.method, row.draft, tokens, _release(row))
        model = SpeculativeModel.of(plan)
        expected = _acceptance(row, rows)
        context = 66_000 if row.text.startswith("65536") else _CONTEXT
        tokens = row.tokens or model.best_tokens(
            row.batch, context, expected.likely, range(1, _LONGEST + 1)
        )
        return Predicted(model.gain(row.batch, context, tokens, expected))
    except (PlanError, CardError, HardwareError) as error:
        return Predicted(None, str(error))


@cache
def _plan(
    target: str, hardware: str, method: str, named: str | None, tokens: int, release: str
) -> MemoryPlan:
    rig = _rig(hardware)
    card = _target(target)
    own = _PARALLEL_METHODS.get(method, method)
    # A stand-in of the same dimensions where the draft's own config is not bundled.
    name = _DRAFTS.get((method, target)) or named
    draft = _draft(KnownDraft(own, name), card) if name else None
    parallel = True if method in _PARALLEL_METHODS else None
    speculative = SpeculativeConfig(own, tokens, name, parallel_drafting=parallel)
    config = EngineConfig(
        tensor_parallel_size=rig.gpu_count,
        max_model_len=min(card.max_model_len, 4096),
        gpu_memory_utilization=0.95,
        speculative_config=speculative,
    )
    return plan_memory(card, rig, config, draft=draft, vllm=release)


def _rig(hardware: str) -> Rig:
    """The rig of a row: "8xB200", "RTX 4090", "2xRTX 5090 TP2", with remarks in parentheses."""
    if hardware in _RIGS:
        return find_rig(_RIGS[hardware])
    plain = re.sub(r"\(.*?\)|\bTP\d+\b", "", hardware).strip()
    return find_rig(plain.replace(" ", "-").lower())


@cache
def _target(target: str) -> ModelCard:
    """The card of a row's target: by id, else the bundled model of that name in whatever format."""
    if target in _TARGETS:
        return _card(_TARGETS[target])
    wanted = base_name(target)
    same = (e.model_id for e in entries() if e.kind == "target" and base_name(e.model_id) == wanted)
    return _card(target if "/" in target else next(same, target))


@cache
def _card(model_id: str) -> ModelCard:
    bundled = open_bundled(model_id)
    if bundled is not None:
        return bundled
    if model_id not in _BUILT:
        raise PlanError(f"{model_id} is not bundled")
    config = Config({**_LLAMA, **_BUILT[model_id]}, f"{model_id}: its dimensions")
    return build_card(model_id, config, Origin("built", "its dimensions"), Facts())


def _draft(draft: KnownDraft, target: ModelCard) -> ModelCard | None:
    return _card(draft.model) if draft.model in _BUILT else draft_card(draft, target)


def _acceptance(row: Row, rows: Sequence[Row]) -> ExpectedAcceptance:
    """Rates behind the length that a row states, else those of its draft on such text."""
    assert row.method is not None
    length = row.length
    if length is None and row.rate is not None and row.tokens is not None:
        length = 1 + row.rate * row.tokens
    if length is not None and row.tokens is not None:
        rates = curve_of(row.method).from_length(length, row.tokens)
        return ExpectedAcceptance(rates, rates, rates, Basis.CALIBRATED, "as stated")
    return expected_acceptance(
        row.method,
        row.task or ANY_TASK,
        temperature=row.temperature,
        parameters=_parameters(row.target),
        draft=row.draft or _named_elsewhere(row, rows),
        target=row.target,
    )


def _named_elsewhere(row: Row, rows: Sequence[Row]) -> str | None:
    """The draft that other rows of the same source name for this target and method."""
    paper = row.source.split(" ")[0]
    same = (r for r in rows if r.target == row.target and r.method == row.method and r.draft)
    return next((r.draft for r in same if r.source.split(" ")[0] == paper), None)


def _parameters(target: str) -> int:
    return _target(target).parameters


def _release(row: Row) -> str:
    if row.source.startswith(_OLD_SOURCES) and row.engine == "vLLM":
        return "0.9.1"
    return next((name for start, name in _RELEASES if row.engine.startswith(start)), _NEWEST)
