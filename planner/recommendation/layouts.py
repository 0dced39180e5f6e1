"""Parallel layouts worth trying for a model on a rig."""

from __future__ import annotations

from typing import NamedTuple

from hardware_db import Rig
from model_cards import ModelCard


class Layout(NamedTuple):
    """Sizes of the parallel groups; `data` are replicas that answer different requests."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1

    def __str__(self) -> str:
        parts = (("TP", self.tensor), ("PP", self.pipeline), ("DP", self.data))
        return " ".join(f"{name}{size}" for name, size in parts if size > 1) or "one GPU"


def layouts(card: ModelCard, rig: Rig) -> list[Layout]:
    """Layouts of one replica: tensor parallelism inside a node, pipeline across.

    Tensor sizes divide the attention heads; a single node also gets pipelines of its own, for
    head counts that its number of GPUs does not divide.
    """
    per_node, nodes = len(rig.devices), rig.nodes
    heads = {attention.num_heads for attention in card.attention_layers} or {1}
    tensor_sizes = [
        size
        for size in range(1, per_node + 1)
        if (size & (size - 1) == 0 or size == per_node) and all(h % size == 0 for h in heads)
    ]
    found = [Layout(size, nodes) for size in tensor_sizes]
    if nodes == 1 and max(tensor_sizes) < per_node:
        largest = max(size for size in tensor_sizes if per_node % size == 0)
        found.append(Layout(largest, per_node // largest))
    return [layout for layout in found if layout.pipeline <= card.num_layers]


def replicated(card: ModelCard, rig: Rig, concurrency: int) -> list[Layout]:
    """Layouts of several replicas in one machine, where there are requests for each of them.

    Dense models only: experts would be shared among the replicas, with an exchange in every layer.
    """
    if rig.nodes > 1 or card.is_moe:
        return []
    found = []
    for layout in layouts(card, rig):
        data, rest = divmod(len(rig.devices), layout.tensor * layout.pipeline)
        if data > 1 and not rest and concurrency >= data:
            found.append(layout._replace(data=data))
    return found
