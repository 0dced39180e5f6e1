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
    expert: bool = False  # whole experts spread over tensor x data ranks, not sliced

    @property
    def gpus(self) -> int:
        """GPUs in use."""
        return self.tensor * self.pipeline * self.data

    def __str__(self) -> str:
        parts = (("TP", self.tensor), ("PP", self.pipeline), ("DP", self.data))
        names = [f"{name}{size}" for name, size in parts if size > 1]
        return " ".join([*names, *(["EP"] if self.expert else [])]) or "one GPU"


def layouts(card: ModelCard, rig: Rig) -> list[Layout]:
    """Layouts of one replica: tensor parallelism inside a node, pipeline across.

    Tensor sizes divide the attention heads; a single node also gets pipelines of its own, for
    head counts that its number of GPUs does not divide.
    """
    per_node, nodes = len(rig.devices), rig.nodes
    sizes = _tensor_sizes(card, per_node)
    found = [Layout(size, nodes) for size in sizes]
    if nodes == 1 and max(sizes) < per_node:
        largest = max(size for size in sizes if per_node % size == 0)
        found.append(Layout(largest, per_node // largest))
    return [layout for layout in found if layout.pipeline <= card.num_layers]


def replicated(card: ModelCard, rig: Rig, concurrency: int) -> list[Layout]:
    """Layouts of several replicas, each inside a node, where there are requests for all of them.

    They take every GPU. The experts of a model that has some are spread over all replicas: vLLM
    has one set of experts a launch, whatever the layout.
    """
    per_node = len(rig.devices)
    found = []
    for size in _tensor_sizes(card, per_node):
        data, rest = divmod(per_node, size)
        data *= rig.nodes
        if 1 < data <= concurrency and not rest:
            found.append(Layout(size, 1, data, card.is_moe))
    return found


def _tensor_sizes(card: ModelCard, per_node: int) -> list[int]:
    heads = {attention.num_heads for attention in card.attention_layers} or {1}
    return [
        size
        for size in range(1, per_node + 1)
        if (size & (size - 1) == 0 or size == per_node) and all(h % size == 0 for h in heads)
    ]
