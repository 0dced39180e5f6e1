"""What would change a failed launch, in words: only what has an effect under its options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.launch.facts import Failure, FailureKind, LaunchFacts, Milestone

_MIB: Final = 2**20
_SPARE: Final = 2**30 // 50  # bytes: a block that vLLM holds back, and what it rounds off
_BYTES: Final = "--kv-cache-memory-bytes"
_BLOCKS: Final = "--num-gpu-blocks-override"
_SPLIT: Final = "--tensor-parallel-size splits weights and cache over more GPUs"
_BATCH: Final = "--max-num-seqs and --max-num-batched-tokens take less when smaller"
_CHANGES: Final = {
    FailureKind.OPTION: ("vplan check names the options of each release",),
    FailureKind.PORT: ("--port takes another one",),
    FailureKind.MODEL: ("accept the licence on the Hub and set HF_TOKEN, or correct the name",),
    FailureKind.TOKENIZER: ("--tokenizer names another one",),
    FailureKind.ARCHITECTURE: ("a newer vLLM, or --model-impl transformers",),
    FailureKind.BATCH: ("--max-num-batched-tokens at least --max-num-seqs and, without chunked "
                        "prefill, --max-model-len",),
    FailureKind.BACKEND: ("leave --block-size and --attention-backend out",),
    FailureKind.DTYPE: ("--dtype half",),
    FailureKind.WHEEL: ("install the vLLM that is built for this GPU and its driver",),
    FailureKind.DIVISIBLE: ("--tensor-parallel-size: a divisor of the attention heads",),
    FailureKind.NODES: ("smaller --tensor-parallel-size or --pipeline-parallel-size",),
    FailureKind.QUANTIZATION: ("another checkpoint of the model: vplan recommend --model names "
                               "those that run",),
    FailureKind.DEVICE: ("see that nvidia-smi lists the GPU and that its driver is new enough",),
    FailureKind.COMMUNICATION: ("NCCL_DEBUG=INFO tells more; --disable-custom-all-reduce, "
                                "NCCL_P2P_DISABLE=1",),
    FailureKind.DISK: ("HF_HOME names another place for the weights",),
    FailureKind.HOST_MEMORY: ("in a container --ipc=host or a larger --shm-size",),
    FailureKind.CONFIG: ("vplan check says what is wrong with a command",),
    FailureKind.KILLED: ("more memory for the host or the container; fewer processes",),
}  # fmt: skip


def changes(failure: Failure, facts: LaunchFacts) -> tuple[str, ...]:
    """Changes for a failure, the likeliest first. `facts` tell the options and how far it got."""
    match failure.kind:
        case FailureKind.KV_ROOM:
            return tuple(_for_the_cache(failure, facts))
        case FailureKind.FREE_MEMORY:
            return (*_lower_share(failure), "end the other programs that hold memory of it")
        case FailureKind.OUT_OF_MEMORY:
            return tuple(_for_the_gpu(failure, facts))
        case FailureKind.MAX_MODEL_LEN if failure.longest_len:
            return (f"--max-model-len {failure.longest_len}",)
        case _:
            return _CHANGES.get(failure.kind, ())


def _for_the_cache(failure: Failure, facts: LaunchFacts) -> Iterator[str]:
    """More room for it, or less to put in. A size that is given is all that counts."""
    options = facts.options
    nothing = not failure.longest_len and not failure.available
    if failure.longest_len:
        yield f"--max-model-len {failure.longest_len}, which vLLM says fits"
    if _BLOCKS in options:
        yield f"a larger {_BLOCKS}, or none: it sets the size of the cache"
    elif _BYTES in options:
        size = -(-(failure.needed + _SPARE) // _MIB) * _MIB if failure.needed else None
        larger = f"a larger {_BYTES}" if size is None else f"{_BYTES} {size}"
        yield f"{larger}, or none: the size that is given is all that the cache gets"
    else:
        yield "a higher --gpu-memory-utilization, where nothing else takes the memory"
        if nothing:  # then what is beside the cache is too much
            yield _BATCH
            yield from _eager(facts)
    if not failure.longest_len and not nothing:
        yield "--max-model-len takes less when smaller"
    if not nothing:
        yield from _half_cache(facts)
    if not failure.longest_len:
        yield _SPLIT


def _for_the_gpu(failure: Failure, facts: LaunchFacts) -> Iterator[str]:
    """Less on a GPU that ran out, by what it was doing; the cache fills its part in any case."""
    reached = Milestone.READY if failure.when_serving else facts.reached
    if reached is not None and reached <= Milestone.LOADING:
        yield _SPLIT
        yield "another checkpoint of the model, quantized, or --cpu-offload-gb"
        return
    profiled = reached is None or reached >= Milestone.PROFILED
    if profiled and _BYTES in facts.options:
        yield f"a smaller {_BYTES} leaves more beside the cache"
    elif profiled and _BLOCKS in facts.options:
        yield f"a smaller {_BLOCKS} leaves more beside the cache"
    elif profiled:
        yield "a lower --gpu-memory-utilization leaves more outside the budget"
    yield _BATCH
    if not failure.when_serving:
        yield from _eager(facts)
    yield _SPLIT


def _half_cache(facts: LaunchFacts) -> Iterator[str]:
    options = facts.options
    at = options.index("--kv-cache-dtype") + 1 if "--kv-cache-dtype" in options else 0
    if not at or options[at : at + 1] in (("auto",), ("bfloat16",), ("float16",)):
        yield "--kv-cache-dtype fp8 halves the KV cache"


def _eager(facts: LaunchFacts) -> Iterator[str]:
    if "--enforce-eager" not in facts.options and facts.device != "CPU":
        yield "--enforce-eager does without CUDA graphs"


def _lower_share(failure: Failure) -> tuple[str, ...]:
    """The largest share, in hundredths, that is below what is free."""
    if not failure.total or failure.available is None:
        return ("a lower --gpu-memory-utilization",)
    hundredths = (100 * failure.available - 1) // failure.total
    return (f"--gpu-memory-utilization {hundredths / 100:g}",) if hundredths > 0 else ()
