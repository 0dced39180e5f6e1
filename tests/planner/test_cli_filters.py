"""`vplan models` and `vplan gpus`: filters and order, against the values that JSON shows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from program import Vplan


def rows(vplan: Vplan, *arguments: str) -> list[dict[str, Any]]:
    said = vplan(*arguments, "--json")
    assert (said.status, said.err) == (0, "")
    found: list[dict[str, Any]] = json.loads(said.out)[arguments[0]]
    return found


def test_models_by_size_and_format(vplan_here: Vplan) -> None:
    found = rows(vplan_here, "models", "--format", "fp8", "--min-params", "7B",
                 "--max-params", "32.8B", "--sort", "parameters")  # fmt: skip
    sizes = [model["parameters"] for model in found]
    assert len(found) > 10
    assert sizes == sorted(sizes, reverse=True)
    assert min(sizes) >= 7e9
    assert max(sizes) <= 32.8e9
    assert {model["weight_format"] for model in found} == {"fp8"}


def test_models_by_what_they_are(vplan_here: Vplan) -> None:
    phi = rows(vplan_here, "models", "--architecture", "phi3", "--license", "MIT")
    assert {model["architecture"] for model in phi} >= {"Phi3ForCausalLM"}
    assert {model["license"] for model in phi} == {"mit"}
    uses = {
        "embed": "BAAI/bge-m3", "classify": "BAAI/bge-reranker-v2-m3",
        "transcribe": "openai/whisper-small", "multimodal": "google/gemma-3-4b-it",
        "generate": "Qwen/Qwen3-8B", "draft": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",
    }  # fmt: skip
    for use, model_id in uses.items():
        ids = {model["id"] for model in rows(vplan_here, "models", "--use", use)}
        assert model_id in ids
        others = {other for name, other in uses.items() if name != use}
        assert not ids & others or (use, ids & others) == ("generate", {"google/gemma-3-4b-it"})


def test_filters_go_with_a_part_of_the_name(vplan_here: Vplan) -> None:
    found = rows(vplan_here, "models", "qwen3-8b", "--format", "awq")
    assert [model["id"] for model in found] == ["Qwen/Qwen3-8B-AWQ"]
    assert rows(vplan_here, "models", "qwen3-8b", "--format", "no-such") == []


def test_gpus_by_vendor_memory_and_capability(vplan_here: Vplan) -> None:
    found = rows(vplan_here, "gpus", "--vendor", "NVIDIA", "--min-memory", "24GiB", "--max-memory",
                 "48GiB", "--capability", "sm_89", "--sort", "bandwidth")  # fmt: skip
    slugs = [gpu["slug"] for gpu in found]
    assert {"rtx-4090", "l40s", "rtx-5090"} <= set(slugs)  # 23.6 GiB usable are a 24 GiB card
    assert not {"rtx-3090", "h100-sxm", "rtx-4080"} & set(slugs)
    assert slugs.index("rtx-5090") < slugs.index("rtx-4090") < slugs.index("l40s")
    amd = rows(vplan_here, "gpus", "mi3", "--vendor", "amd", "--sort", "memory")
    assert amd[0]["slug"].startswith("mi355x")
    assert rows(vplan_here, "gpus", "4090", "--vendor", "amd") == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("models", "--use", "poetry"), ["poetry", "embed"]),
     (("models", "--sort", "beauty"), ["beauty", "context"]),
     (("models", "--min-params", "big"), ["big", "8B"]),
     (("gpus", "--vendor", "acme"), ["acme", "nvidia"]),
     (("gpus", "--sort", "x\x1b"), ["bandwidth"]),
     (("gpus", "--min-memory", "24"), ["24", "22GiB"]),
     (("gpus", "--capability", "fast"), ["fast", "8.9"])],
)  # fmt: skip
def test_wrong_filters(vplan_here: Vplan, arguments: tuple[str, ...], words: list[str]) -> None:
    said = vplan_here(*arguments)
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
    assert said.err[:-1].isprintable()
    assert [word for word in words if word not in said.err] == []
