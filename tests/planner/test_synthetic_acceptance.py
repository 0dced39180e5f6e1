"""Drafts that are accepted at a set rate: what vLLM takes of it, and whether it came out so."""

from __future__ import annotations

import json

import pytest

from hardware_db import find_rig
from planner.command.parse import ServeCommand, read_command
from planner.diagnosis.check import check_command
from planner.findings import Severity
from planner.launch.facts import LaunchFacts
from planner.launch.metrics import Speculation
from planner.launch.probe import Probe
from planner.launch.terms import Term, compare


def command(**given: object) -> ServeCommand:
    config = {"method": "ngram", "num_speculative_tokens": 3} | given
    words = ["vllm", "serve", "Qwen/Qwen3-0.6B", "--max-model-len", "4096"]
    return read_command([*words, "--speculative-config", json.dumps(config)], "0.33.0")


def synthetic(**given: object) -> ServeCommand:
    return command(rejection_sample_method="synthetic", **given)


def test_rates_as_they_are_given() -> None:
    assert synthetic(synthetic_acceptance_rates=[0.8, 0.5, 0]).synthetic == (0.8, 0.5, 0.0)
    assert command().synthetic is None
    assert command(rejection_sample_method="block").synthetic is None


@pytest.mark.parametrize(
    ("length", "rates"),
    [(1, (0, 0, 0)), (1.6, (0.6, 0, 0)), (2, (1, 0, 0)), (3.25, (1, 1, 0.25)), (4, (1, 1, 1))],
)
def test_rates_of_a_length(length: float, rates: tuple[float, ...]) -> None:
    """`_acceptance_length_to_rates` of vLLM: their sum is the tokens that are accepted."""
    assert synthetic(synthetic_acceptance_length=length).synthetic == pytest.approx(rates)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"synthetic_acceptance_rates": [0.8, 0.5, 0.2], "synthetic_acceptance_length": 2},
        {"synthetic_acceptance_rates": [0.8, 0.5]},
        {"synthetic_acceptance_rates": [0.5, 0.8, 0.2]},
        {"synthetic_acceptance_rates": [1.5, 0.8, 0.2]},
        {"synthetic_acceptance_rates": 0.5},
        {"synthetic_acceptance_length": 0.5},
        {"synthetic_acceptance_length": 4.5},
        {"synthetic_acceptance_length": "long"},
    ],
)
def test_what_vllm_refuses(given: dict[str, object]) -> None:
    """By `_resolve_synthetic_acceptance_rates`."""
    found = [each for each in synthetic(**given).findings if each.severity is Severity.ERROR]
    assert [each.code for each in found] == ["bad_value"]


def test_cpus_do_not_do_it() -> None:
    """ "Synthetic acceptance not supported with CPU sampling"."""
    asked = synthetic(synthetic_acceptance_length=2)
    on_cpu = check_command(asked, find_rig("cpu"), offline=True)
    assert any("set rate on CPUs" in each.text for each in on_cpu.findings)
    on_gpu = check_command(asked, find_rig("4090"), offline=True)
    assert not any("set rate on CPUs" in each.text for each in on_gpu.findings)


def came_out(accepted: int, rates: list[float]) -> Term:
    """Of 1,000 drafts."""
    asked = synthetic(synthetic_acceptance_rates=rates)
    memory = check_command(asked, find_rig("4090"), offline=True).memory
    assert memory is not None
    probe = Probe("m", None, None, (), speculation=Speculation(1000, 3000, accepted))
    (term,) = (
        each
        for each in compare(memory, LaunchFacts(), probe, asked.synthetic)
        if each.name == "acceptance length"
    )
    return term


def test_what_is_accepted_is_compared_with_the_rates() -> None:
    """0, 1, 2, 3 tokens with chances 0.2, 0.3, 0.3, 0.2: mean 1.5, variance 1.05."""
    term = came_out(1500, [0.8, 0.5, 0.2])
    assert term.plan.value == pytest.approx(2.5)
    assert term.plan.high - term.plan.value == pytest.approx(4 * (1.05 / 1000) ** 0.5)
    assert term.inside
    assert came_out(1600, [0.8, 0.5, 0.2]).inside
    assert not came_out(1640, [0.8, 0.5, 0.2]).inside
    assert not came_out(0, [0.8, 0.5, 0.2]).inside
    assert came_out(3000, [1, 1, 1]).inside
    assert not came_out(2980, [1, 1, 1]).inside
