"""What compiling takes in the profile run of a first launch, when the compile cache is cold.

Before it puts kernels together, Inductor times them on tensors of random numbers in the shapes of
theirs (`benchmark_combo_kernel`, which vLLM sets in config/compilation.py). The lookup of
embeddings is one of the kernels of the first compiled graph, so the table is there a second time
while it is timed. Multimodal models look up outside of the graph.
"""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.card import ModelCard
from planner.engine.defaults import ResolvedConfig
from planner.engine.device import DeviceFacts, Platform
from planner.engine.releases import Release
from planner.memory.constants import GIB, constant
from planner.quantity import Quantity

_VOCABULARY_PADDING = 64  # of VocabParallelEmbedding


def compile_pass(
    card: ModelCard, config: ResolvedConfig, device: DeviceFacts, release: Release
) -> Quantity:
    """Bytes at the peak of compiling the first pipeline stage, 0 where nothing is timed."""
    given = config.given
    if (
        given.enforce_eager
        or device.platform is Platform.CPU
        or not release.fact("compile_times_kernels")
    ):
        return Quantity.exact(0)
    table = 0
    if not card.towers or given.language_model_only:
        rows = -(-card.vocab_size // _VOCABULARY_PADDING) * _VOCABULARY_PADDING
        local = -(-rows // given.tensor_parallel_size)
        table = local * card.hidden_size * config.dtype_bytes
    beside = constant("compile_beside_gib", release).times(GIB)
    return replace(
        beside + Quantity.exact(table),
        source="first launch: compiling, on a copy of the embeddings",
    )
