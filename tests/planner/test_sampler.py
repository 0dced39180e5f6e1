"""Which sampler a launch gets, and what it takes; the rules are those of vLLM's sources.

`TopKTopPSampler.__init__` (v1/sample/ops/topk_topp_sampler.py): up to 0.11.0 FlashInfer's where it
can be imported and the variable is not 0; from 0.11.1 on where the variable is 1; from 0.21.0 on
unless it is 0. Official images hold FlashInfer, wheels up to 0.11.0 do not require it. Images other
than the official ones were seen without: LMCache/LMCache#1384.
"""

from __future__ import annotations

from typing import Final

import pytest

from hardware_db import find_rig
from model_cards import open_card
from planner import plan_memory
from planner.command.parse import read_command
from planner.engine.device import device_facts
from planner.engine.images import variables_set_by
from planner.engine.releases import find_release
from planner.engine.sampler import Sampler, sampler
from planner.memory.plan import MemoryPlan

GIB: Final = 2**30
ASKED, REFUSED = {"VLLM_USE_FLASHINFER_SAMPLER": "1"}, {"VLLM_USE_FLASHINFER_SAMPLER": "0"}
IMAGE: Final = {"VLLM_USAGE_SOURCE": "production-docker-image"}
MISTRAL: Final = "mistralai/Mistral-Small-3.1-24B-Instruct-2503"  # 3.2 has the same layers


@pytest.mark.parametrize(
    ("release", "environ", "gpu", "expected"),
    [
        ("0.9.1", {}, "h100-sxm", Sampler.EITHER),
        ("0.11.0", {}, "h100-sxm", Sampler.EITHER),
        ("0.11.0", IMAGE, "h100-sxm", Sampler.FLASHINFER),
        ("0.11.0", IMAGE | REFUSED, "h100-sxm", Sampler.PYTORCH),
        ("0.11.0", ASKED, "h100-sxm", Sampler.FLASHINFER),
        ("0.11.1", {}, "h100-sxm", Sampler.PYTORCH),
        ("0.11.1", IMAGE, "h100-sxm", Sampler.PYTORCH),
        ("0.20.2", {}, "h100-sxm", Sampler.PYTORCH),
        ("0.20.2", ASKED, "h100-sxm", Sampler.FLASHINFER),
        ("0.21.0", {}, "h100-sxm", Sampler.FLASHINFER),
        ("0.33.0", REFUSED, "h100-sxm", Sampler.PYTORCH),
        ("0.33.0", {}, "t4", Sampler.FLASHINFER),
        ("0.33.0", {}, "mi300x", Sampler.PYTORCH),
        ("0.11.0", IMAGE, "v100-sxm2-32gb", Sampler.PYTORCH),  # compute capability 7.0
    ],
)
def test_which_sampler(release: str, environ: dict[str, str], gpu: str, expected: Sampler) -> None:
    device = device_facts(find_rig(gpu).smallest.gpu)
    assert sampler(device, find_release(release), environ) is expected


@pytest.mark.parametrize(
    ("image", "official"),
    [
        ("vllm/vllm-openai:v0.11.0", True),
        ("vllm/vllm-openai", True),
        ("docker.io/vllm/vllm-openai@sha256:0", True),
        ("registry.example:5000/vllm/vllm-openai:latest", True),
        ("lmcache/vllm-openai:v0.3.3", False),
        ("vllm-openai:mine", False),
        ("", False),
    ],
)
def test_official_images(image: str, official: bool) -> None:
    assert bool(variables_set_by(image)) is official


_ARGUMENTS: Final = (
    f"{MISTRAL} --max-model-len 16000 --gpu-memory-utilization 0.95 --block-size 128"
)
_SERVER: Final = f"vllm serve {_ARGUMENTS}"
_CONTAINER: Final = f"docker run vllm/vllm-openai:v0.11.0 --model {_ARGUMENTS}"


def _plan(command: str) -> MemoryPlan:
    read = read_command([command], "0.11.0")
    card, rig = open_card(read.model, offline=True), find_rig("h100-sxm")
    return plan_memory(card, rig, read.config, vllm=read.release, environ=read.server_environ)


def test_a_published_launch_in_the_official_image() -> None:
    """28.20 GiB printed (docs/empirical-vllm-memory-results.md of llm-d-planner@e50305a)."""
    rank = _plan(_CONTAINER).tightest
    assert rank.kv_cache.value / GIB == pytest.approx(28.20, rel=0.01)
    assert rank.kv_cache.low <= 28.20 * GIB <= rank.kv_cache.high


def test_what_sorting_takes() -> None:
    """24 bytes for each of 1,024 requests and 131,072 words.

    Their int64 indices (8), and sorted in fp32, as probabilities, scattered back, and what the sort
    itself needs (4 each), of which FlashInfer needs none.
    """
    off = _CONTAINER.replace("run", "run -e VLLM_USE_FLASHINFER_SAMPLER=0")
    more = _plan(off).tightest.activation.value - _plan(_CONTAINER).tightest.activation.value
    assert more == pytest.approx(24 * 1024 * 131072, rel=0.02)


def test_a_launch_that_may_have_flashinfer_or_not() -> None:
    """Planned without it; the cache of one with it is inside the band."""
    bare, container = _plan(_SERVER).tightest.kv_cache, _plan(_CONTAINER).tightest.kv_cache
    asked = _plan(f"VLLM_USE_FLASHINFER_SAMPLER=1 {_SERVER}").tightest.kv_cache
    refused = _plan(f"VLLM_USE_FLASHINFER_SAMPLER=0 {_SERVER}").tightest.kv_cache
    assert asked == container
    assert bare.value == refused.value
    assert bare.low <= refused.value < container.value <= bare.high
    assert refused.high < container.value
