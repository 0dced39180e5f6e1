"""The shorthand of long module lists: nothing gets lost or added."""

from __future__ import annotations

import random

import pytest

from model_cards.sources.folding import fold, unfold


def test_modules_of_every_layer_become_one() -> None:
    paths = [f"model.layers.{i}.mlp.gate" for i in range(48)]
    assert fold(paths) == ["model.layers.{0-47}.mlp.gate"]
    assert unfold(["model.layers.{0-47}.mlp.gate"]) == paths


def test_experts_inside_layers() -> None:
    paths = [f"layers.{i}.experts.{j}.up" for i in (3, 4, 5) for j in range(8)]
    assert fold(paths) == ["layers.{3-5}.experts.{0-7}.up"]
    assert sorted(unfold(fold(paths))) == sorted(paths)


def test_gaps_stay_gaps() -> None:
    paths = [f"layers.{i}.q" for i in (0, 1, 2, 5, 7, 8)]
    assert fold(paths) == ["layers.5.q", "layers.{0-2}.q", "layers.{7-8}.q"]
    assert sorted(unfold(fold(paths))) == sorted(paths)


@pytest.mark.parametrize(
    "paths",
    [
        [],
        ["lm_head"],
        ["lm_head", "lm_head"],
        ["layers.3", "3.layers", "layers3.q", "a.b"],  # no number between dots
        ["layers.01.q", "layers.1.q", "layers.00.q", "layers.0.q"],
        ["re:.*mlp.gate$", "re:.*layers\\.(1|2)\\..*", "*.vision*", "a{2,3}.b"],
        ["a.1.2.3.4.b", "a.1.2.3.5.b", "a.2.2.3.4.b"],
        [f"a.{i}.b" for i in (10**12, 10**12 + 1)],
        ["a.1.b", "a.1.c", "a.2.b", "a.3.c"],
    ],
)
def test_round_trips(paths: list[str]) -> None:
    assert sorted(unfold(fold(paths))) == sorted(set(paths))


@pytest.mark.parametrize("seed", range(20))
def test_any_list_comes_back(seed: int) -> None:
    rng = random.Random(seed)
    words = ("model", "layers", "experts", "mlp", "q_proj", "0", "1", "2", "3", "11", "12", "007")
    paths = [".".join(rng.choices(words, k=rng.randint(1, 7))) for _ in range(rng.randint(1, 200))]
    assert sorted(unfold(fold(paths))) == sorted(set(paths))


def test_the_order_of_a_list_does_not_matter() -> None:
    paths = [f"layers.{i}.experts.{j}.up" for i in range(5) for j in range(5)]
    shuffled = random.Random(1).sample(paths, len(paths))
    assert fold(shuffled) == fold(paths) == ["layers.{0-4}.experts.{0-4}.up"]
