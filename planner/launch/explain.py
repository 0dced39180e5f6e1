"""A failure in the planner's terms: what was missing, and which options change it."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from planner.command.secrets import redacted
from planner.launch.facts import Failure, FailureKind

_GIB: Final = 2**30
SHORT: Final = 200  # letters of what vLLM says, beside other words
WHOLE: Final = 400  # on its own
# Around what a check of the settings says, and in front of what any code does.
_PYDANTIC: Final = re.compile(r"(?:Value error|Assertion failed), | \[type=\w+, input_value=.*")
_PASSED_ON: Final = re.compile(r"Worker failed with error '(.*)', please check .*")
_EXCEPTION: Final = re.compile(r"^(?:\w+\.)*(?:Value|Runtime|Assertion|OS)Error: (?=\S+ \S)")
_LESS_MEMORY: Final = (
    "--max-model-len, --max-num-seqs and --max-num-batched-tokens take less when smaller",
    "--kv-cache-dtype fp8 halves the KV cache",
    "--tensor-parallel-size splits weights and cache over more GPUs",
)
_MEANINGS: Final = {
    FailureKind.KV_ROOM: "too little memory is left for the KV cache",
    FailureKind.FREE_MEMORY: "less memory is free at the start than the launch asks for",
    FailureKind.OUT_OF_MEMORY: "the GPU ran out of memory",
    FailureKind.OPTION: "this release does not take the command's options",
    FailureKind.PORT: "another program listens on the port",
    FailureKind.MODEL: "the model's files cannot be had or read",
    FailureKind.TOKENIZER: "the model has no tokenizer that can be loaded",
    FailureKind.ARCHITECTURE: "this release does not know the model's architecture",
    FailureKind.MAX_MODEL_LEN: "a longer context is asked for than the model's config allows",
    FailureKind.BATCH: "the batch limits do not go together",
    FailureKind.BACKEND: "no attention backend takes these settings on this device",
    FailureKind.DTYPE: "this device cannot compute in the dtype",
    FailureKind.WHEEL: "this build of vLLM or torch has no kernels for the GPU",
    FailureKind.DIVISIBLE: "the model cannot be split over that many ranks",
    FailureKind.NODES: "more GPUs are asked for than there are",
    FailureKind.QUANTIZATION: "the quantization does not go with this GPU or checkpoint",
    FailureKind.DEVICE: "vLLM found no GPU that it can use",
    FailureKind.COMMUNICATION: "the ranks could not talk to each other",
    FailureKind.DISK: "the disk is full",
    FailureKind.HOST_MEMORY: "the host ran out of memory, or of shared memory",
    FailureKind.CONFIG: "vLLM refuses a setting",
    FailureKind.KILLED: "the system ended a process; most often the host had no memory left",
    FailureKind.CRASH: "an error that is none of the known ones",
    FailureKind.TIMEOUT: "the server was not ready in time",
}
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


class Explanation(Struct, frozen=True):
    """What a failure means, with its numbers, what vLLM says of it, and what would change it.

    `said` is short enough to follow `meaning` in a line.
    """

    meaning: str
    changes: tuple[str, ...]
    said: str

    @property
    def sentence(self) -> str:
        """The meaning and the words."""
        return f"{self.meaning}; {self.said}"


def explain(failure: Failure) -> Explanation:
    """The failure as the planner would put it."""
    meaning = _MEANINGS[failure.kind]
    numbers = _numbers(failure)
    if numbers:
        meaning = f"{meaning}: {numbers}"
    elif failure.subject:
        meaning = f"{meaning}: {failure.subject}"
    if failure.when_serving:
        meaning = f"after it was ready, {meaning}"
    return Explanation(meaning, _changes(failure), said(failure))


def said(failure: Failure, longest: int = SHORT) -> str:
    """What vLLM says of a failure, or what was seen of it: one line that may go to a terminal."""
    text = _PASSED_ON.sub(r"\1", _PYDANTIC.sub("", failure.message))
    if failure.kind is not FailureKind.CRASH:  # of a crash the exception's name tells most
        text = _EXCEPTION.sub("", text)
    text = "".join(c if c.isprintable() else " " for c in redacted(text))
    text = " ".join(text.split())
    if len(text) > longest:
        text = f"{text[: longest - 1].rstrip()}…"
    return text if failure.seen else f"vLLM says: {text}"


def _numbers(failure: Failure) -> str:
    match failure.kind:
        case FailureKind.KV_ROOM if failure.needed and failure.available is not None:
            length = f"one request of {failure.asked_len:,} tokens" if failure.asked_len else "one"
            return f"{length} needs {_gib(failure.needed)}, {_gib(failure.available)} is there"
        case FailureKind.KV_ROOM if failure.longest_len and failure.asked_len:
            return f"{failure.asked_len:,} tokens are asked for, {failure.longest_len:,} fit"
        case FailureKind.FREE_MEMORY if failure.needed and failure.available is not None:
            asked = f"{failure.utilization:g} of it, " if failure.utilization else ""
            total = f" of {_gib(failure.total)}" if failure.total else ""
            return f"{asked}{_gib(failure.needed)}, with {_gib(failure.available)}{total} free"
        case FailureKind.OUT_OF_MEMORY if failure.needed:
            free = f", {_gib(failure.available)} was free" if failure.available is not None else ""
            return f"it wanted {_gib(failure.needed)} more{free}"
        case FailureKind.MAX_MODEL_LEN if failure.asked_len and failure.longest_len:
            return f"{failure.asked_len:,} tokens, of {failure.longest_len:,}"
        case _:
            return ""


def _changes(failure: Failure) -> tuple[str, ...]:
    match failure.kind:
        case FailureKind.KV_ROOM if failure.longest_len:
            return (f"--max-model-len {failure.longest_len}, which vLLM says fits", *_more_cache())
        case FailureKind.KV_ROOM:
            return (_more_cache()[0], *_LESS_MEMORY)
        case FailureKind.FREE_MEMORY:
            return (*_lower_share(failure), "end the other programs that hold memory of it")
        case FailureKind.OUT_OF_MEMORY if failure.when_serving:
            return ("a lower --gpu-memory-utilization leaves more outside the budget",
                    *_LESS_MEMORY)  # fmt: skip
        case FailureKind.OUT_OF_MEMORY:
            return (*_LESS_MEMORY, "--enforce-eager does without CUDA graphs")
        case FailureKind.MAX_MODEL_LEN if failure.longest_len:
            return (f"--max-model-len {failure.longest_len}",)
        case _:
            return _CHANGES.get(failure.kind, ())


def _more_cache() -> tuple[str, ...]:
    return (
        "a higher --gpu-memory-utilization, where nothing else takes the memory",
        _LESS_MEMORY[1],
    )


def _lower_share(failure: Failure) -> tuple[str, ...]:
    """The largest share, in hundredths, that is below what is free."""
    if not failure.total or failure.available is None:
        return ("a lower --gpu-memory-utilization",)
    hundredths = (100 * failure.available - 1) // failure.total
    return (f"--gpu-memory-utilization {hundredths / 100:g}",) if hundredths > 0 else ()


def _gib(size: int) -> str:
    return f"{size / _GIB:.2f} GiB"
