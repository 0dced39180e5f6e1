"""Every answer of vLLM 0.33.0's own code that is kept here, against the plan: byte for byte.

The answers were made by building vLLM's model classes and KV cache specs for a GPU (or a stand-in
for one); benchmarks/exactness.py says how they are compared.
"""

from __future__ import annotations

from typing import Any

import pytest
from exactness import CASES, compare, read_rows

ROWS = list(read_rows(CASES))


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_the_plan_is_what_vllm_answers(row: dict[str, Any]) -> None:
    result = compare(row)
    assert result.not_modelled is None or result.refusal is not None
    if result.refusal is not None:
        assert result.refusal_ours == result.refusal
    if result.weights_scored:
        assert [ours for _, ours in result.weights] == [theirs for theirs, _ in result.weights]
    if result.kv_scored:
        ours = {name: value for name, (_, value) in result.kv.items()}
        assert ours == {name: value for name, (value, _) in result.kv.items()}


def test_there_are_many_cases_of_every_kind() -> None:
    results = [compare(row) for row in ROWS]
    assert sum(result.weights_scored for result in results) >= 570
    assert sum(result.kv_scored for result in results) >= 657
    assert sum(result.refusal is not None for result in results) >= 91
