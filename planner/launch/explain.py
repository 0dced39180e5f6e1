"""A failure in the planner's terms: what was missing, and which options change it."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from planner.command.secrets import redacted
from planner.launch.advice import changes
from planner.launch.facts import Failure, FailureKind, LaunchFacts

_GIB: Final = 2**30
SHORT: Final = 200  # letters of what vLLM says, beside other words
WHOLE: Final = 400  # on its own
# Around what a check of the settings says, and in front of what any code does.
_PYDANTIC: Final = re.compile(r"(?:Value error|Assertion failed), | \[type=\w+, input_value=.*")
_PASSED_ON: Final = re.compile(r"Worker failed with error '(.*)', please check .*")
_EXCEPTION: Final = re.compile(r"^(?:\w+\.)*(?:Value|Runtime|Assertion|OS)Error: (?=\S+ \S)")
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
    FailureKind.HANG: "the server no longer answered",
}


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


def explain(failure: Failure, facts: LaunchFacts | None = None) -> Explanation:
    """The failure as the planner would put it; `facts` are what else the log tells."""
    meaning = _MEANINGS[failure.kind]
    numbers = _numbers(failure)
    if numbers:
        meaning = f"{meaning}: {numbers}"
    elif failure.subject:
        meaning = f"{meaning}: {failure.subject}"
    if failure.when_serving:
        meaning = f"after it was ready, {meaning}"
    return Explanation(meaning, changes(failure, facts or LaunchFacts()), said(failure))


def said(failure: Failure, longest: int = SHORT) -> str:
    """What vLLM says of a failure, or what was seen of it: one line that may go to a terminal."""
    text = _PASSED_ON.sub(r"\1", _PYDANTIC.sub("", failure.message))
    if failure.kind is not FailureKind.CRASH:  # of a crash the exception's name tells most
        text = _EXCEPTION.sub("", text)
    text = "".join(c if c.isprintable() else " " for c in redacted(text))
    text = " ".join(text.split()).rstrip(" :")  # the rest of it is on other lines
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


def _gib(size: int) -> str:
    return f"{size / _GIB:.2f} GiB"
