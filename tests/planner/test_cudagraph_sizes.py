"""Batch sizes for which CUDA graphs are captured, counted by hand from vLLM's rule.

Up to 0.11.0: 1, 2, 4, then 8, 16, ... 512. From 0.11.1 on: 1, 2, 4, then every 8 up to 248, then
every 16 from 256 on. Capped by 512 (1024 on compute capability 10.x from 0.28.0 on), by twice
max_num_seqs (from 0.10.0 on) and always by max_num_batched_tokens.
"""

from __future__ import annotations

import pytest

from hardware_db import find_rig
from model_cards.sources.bundled import open_bundled
from planner import EngineConfig
from planner.engine.defaults import resolve
from planner.engine.device import device_facts
from planner.engine.releases import find_release, known_releases


def sizes(
    rig: str,
    release: str,
    max_num_seqs: int | None = None,
    max_num_batched_tokens: int | None = None,
    enforce_eager: bool = False,
) -> tuple[int, ...]:
    card = open_bundled("Qwen/Qwen3-8B")
    assert card is not None
    config = EngineConfig(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        enforce_eager=enforce_eager,
    )
    device = device_facts(find_rig(rig).smallest.gpu)
    return resolve(card, device, config, find_release(release)).cudagraph_sizes


@pytest.mark.parametrize(
    ("rig", "release", "count", "largest"),
    [("4090", "0.8.5", 67, 512),  # 3 + 512/8
     ("4090", "0.9.2", 67, 512),
     ("4090", "0.10.0", 67, 512),  # the cap 2 x 256 is 512 too
     ("4090", "0.11.0", 67, 512),
     ("4090", "0.11.1", 51, 512),  # 3 + 31 (8..248) + 17 (256..512)
     ("4090", "0.33.0", 51, 512),
     ("h100-sxm", "0.33.0", 51, 512),
     ("b200", "0.27.1", 51, 512),
     ("b200", "0.28.0", 83, 1024),  # 3 + 31 + 49 (256..1024)
     ("b200", "0.33.0", 83, 1024),
     ("5090", "0.33.0", 51, 512)],  # compute capability 12.0
)  # fmt: skip
def test_default_sizes(rig: str, release: str, count: int, largest: int) -> None:
    found = sizes(rig, release)
    assert (len(found), found[-1]) == (count, largest)
    assert found[:4] == (1, 2, 4, 8)


def test_few_sequences_need_few_graphs() -> None:
    assert sizes("4090", "0.33.0", max_num_seqs=16) == (1, 2, 4, 8, 16, 24, 32)
    assert sizes("4090", "0.10.0", max_num_seqs=16) == (1, 2, 4, 8, 16, 24, 32)
    assert len(sizes("4090", "0.9.2", max_num_seqs=16)) == 67  # no such cap yet
    assert sizes("4090", "0.33.0", max_num_seqs=1) == (1, 2)


def test_the_batch_size_itself_is_captured_from_0_20_2_on() -> None:
    up_to_96 = (1, 2, 4, *range(8, 97, 8))
    assert sizes("4090", "0.20.0", 64, 100) == up_to_96
    assert sizes("4090", "0.20.2", 64, 100) == (*up_to_96, 100)


def test_the_number_of_sequences_is_captured_from_0_31_0_on() -> None:
    up_to_200 = {1, 2, 4, *range(8, 201, 8)}
    assert set(sizes("4090", "0.30.0", 100)) == up_to_200
    assert set(sizes("4090", "0.31.0", 100)) == up_to_200 | {100}


@pytest.mark.parametrize("release", known_releases())
def test_no_graph_is_larger_than_a_batch_can_be(release: str) -> None:
    found = sizes("4090", release, max_num_seqs=50, max_num_batched_tokens=50)
    assert found
    assert max(found) <= 50
    assert list(found) == sorted(set(found))


@pytest.mark.parametrize("release", ["0.8.5", "0.20.0", "0.33.0"])
def test_no_graphs_without_cuda_or_when_eager(release: str) -> None:
    assert sizes("4090", release, enforce_eager=True) == ()
    assert sizes("cpu:64GiB", release) == ()
