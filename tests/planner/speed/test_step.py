"""A step's time: by hand, and the same for numbers and arrays."""

from __future__ import annotations

import time
from itertools import product

import numpy as np
import pytest
from launches import plan

from planner.speed.step import StepModel

MODELS = [
    ("Qwen/Qwen3-8B", "4090", 1), ("openai/gpt-oss-20b", "h100-sxm", 1),
    ("google/gemma-3-27b-it", "2xh100-sxm", 2),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "4xh100-sxm", 4),
    ("deepseek-ai/DeepSeek-R1", "8xh200-sxm", 8),
]  # fmt: skip


@pytest.mark.parametrize(("model", "rig", "ranks"), MODELS)
def test_arrays_say_what_numbers_say(model: str, rig: str, ranks: int) -> None:
    step = StepModel.of(plan(model, rig, tensor_parallel_size=ranks, max_model_len=32768))
    batches, contexts, queries = (1, 3, 16, 200), (1, 500, 4096, 30000), (1, 4)
    grid = step.seconds(
        np.array(batches)[:, None, None], np.array(contexts)[:, None], np.array(queries)
    )
    assert grid.total.shape == (4, 4, 2)
    for (i, batch), (j, context), (k, query) in product(
        enumerate(batches), enumerate(contexts), enumerate(queries)
    ):
        one = step.seconds(batch, context, query)
        assert grid.total[i, j, k] == pytest.approx(one.total)
        assert isinstance(one.total, float)
        assert one.total > one.ceiling > 0


def test_ten_thousand_points_take_less_than_50_ms() -> None:
    step = StepModel.of(plan("openai/gpt-oss-20b", "h100-sxm"))
    batches, contexts = np.arange(1, 101)[:, None, None], np.linspace(1, 1e5, 20)[:, None]
    took = []
    for _ in range(5):
        began = time.process_time()
        total = step.seconds(batches, contexts, np.arange(1, 6)).total
        took.append(time.process_time() - began)
    assert total.size == 10_000
    assert min(took) < 0.05
