"""Refusal: why vLLM does not start, by class and in one line."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from msgspec import Struct

from planner.errors import PlanError


class RefusalKind(Enum):
    """What a refusal is about."""

    WHEEL = "wheel"  # no kernels for this GPU
    OPTION = "option"  # the release has no such option
    ARCHITECTURE = "unsupported_architecture"
    RUNNER = "runner"
    HEADS = "heads"
    PIPELINE = "pipeline"
    CONTEXT_PARALLEL = "context_parallel"
    NODES = "nodes"  # one node has too few GPUs
    EXPERTS = "experts"  # they cannot be spread or balanced over ranks
    MAX_MODEL_LEN = "max_model_len"
    BATCH = "batch"
    QUANTIZATION = "quantization"
    BACKEND = "backend"
    DTYPE = "dtype"
    DIVISIBLE = "divisible"
    KV_LAYOUT = "kv_layout"
    SPECULATION = "speculation"
    MODEL_RUNNER = "model_runner"
    LORA = "lora"
    VOCABULARY = "vocabulary"
    KV_ROOM = "kv_room"
    STATE_BLOCKS = "state_blocks"  # fewer blocks than requests with recurrent states
    FREE_MEMORY = "free_memory"


class Unloadable(PlanError):
    """vLLM stops while it builds the model or lays out its KV cache: there is no budget."""

    kind: ClassVar[RefusalKind]


class Refusal(Struct, frozen=True):
    """One reason, as a person reads it."""

    kind: RefusalKind
    reason: str
