"""Drafts accepted at a set rate, as vLLM's own config and sampler have it."""

from __future__ import annotations

from typing import Any

import pytest

from planner.command.synthetic import synthetic_rates
from planner.errors import PlanError

pytestmark = pytest.mark.vllm

RATES = [None, [], [0.8, 0.5, 0.2], [1.0, 1.0, 1.0], [0, 0, 0], [0.8, 0.5], [0.2, 0.5, 0.8],
         [1.5, 0.5, 0.2], [0.5, 0.2, -0.1]]  # fmt: skip
LENGTHS = [None, 1, 1.5, 2, 2.75, 4, 0.9, 4.1]


@pytest.mark.parametrize("rates", RATES, ids=str)
@pytest.mark.parametrize("length", LENGTHS)
def test_rates(rates: Any, length: Any) -> None:
    from vllm.config import SpeculativeConfig

    given = {
        "num_speculative_tokens": 3,
        "synthetic_acceptance_rates": rates,
        "synthetic_acceptance_length": length,
    }
    try:
        theirs = SpeculativeConfig._resolve_synthetic_acceptance_rates(3, rates, length)
    except ValueError:
        with pytest.raises(PlanError):
            synthetic_rates(given)
    else:
        assert synthetic_rates(given) == pytest.approx(theirs)


def test_cpus_do_not_do_it() -> None:
    from vllm.utils import cpu_triton_utils

    with pytest.raises(AssertionError, match="Synthetic acceptance not supported"):
        cpu_triton_utils._rejection_greedy_sample_kernel_impl(*[None] * 7, SYNTHETIC_MODE=True)
