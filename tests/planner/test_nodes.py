"""`--nodes`: further machines are taken only where one does not hold the model."""

from __future__ import annotations

import pytest
import yaml
from program import Vplan

LARGE = "moonshotai/Kimi-K2-Instruct"


def test_a_second_machine_where_one_is_too_small(vplan_here: Vplan) -> None:
    asked = ("recommend", "--gpu", "8xh100-sxm", "--model", LARGE, "--offline")
    assert vplan_here(*asked).status == 1
    run = vplan_here(*asked, "--nodes", "4", "--format", "yaml")
    assert run.status in (0, 3)
    options = yaml.safe_load(run.out)
    assert options["nnodes"] == 2
    assert options["tensor-parallel-size"] * options["pipeline-parallel-size"] == 16


def test_no_more_than_are_needed(vplan_here: Vplan) -> None:
    run = vplan_here("recommend", "--gpu", "4090", "--model", "Qwen/Qwen3-8B", "--nodes", "4",
                     "--format", "yaml")  # fmt: skip
    assert run.status == 0
    assert "nnodes" not in yaml.safe_load(run.out)


def test_what_no_number_of_them_holds(vplan_here: Vplan) -> None:
    run = vplan_here("recommend", "--gpu", "3060", "--model", LARGE, "--nodes", "2")
    assert run.status == 1
    assert "does not fit" in run.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--gpu", "4090", "--nodes", "2"), "give --model and --gpu"),
        (("--gpu", "4090", "--model", "Qwen/Qwen3-8B", "--nodes", "0"), "must be at least 1"),
        (("--gpu", "2x8xh100-sxm", "--model", LARGE, "--nodes", "2"), "leave --nodes out"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be(options: tuple[str, ...], message: str, vplan_here: Vplan) -> None:
    run = vplan_here("recommend", *options, "--offline")
    assert (run.status, run.out) == (2, "")
    assert message in run.err
