"""LaunchFacts: what vLLM said of one launch.

Sizes are bytes, as rounded as vLLM prints them; times are seconds. None: not said.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum

from msgspec import Struct, field


class Milestone(IntEnum):
    """How far a launch got, in the order in which vLLM gets there."""

    STARTED = 0
    ENGINE = 1
    LOADING = 2
    LOADED = 3
    COMPILED = 4
    PROFILED = 5
    CACHE = 6
    GRAPHS = 7
    INITIALIZED = 8
    READY = 9
    STOPPED = 10

    @property
    def label(self) -> str:
        """In words."""
        return _MILESTONES[self]


_MILESTONES = {
    Milestone.STARTED: "started",
    Milestone.ENGINE: "engine started",
    Milestone.LOADING: "loading weights",
    Milestone.LOADED: "weights loaded",
    Milestone.COMPILED: "compiled",
    Milestone.PROFILED: "memory profiled",
    Milestone.CACHE: "KV cache laid out",
    Milestone.GRAPHS: "CUDA graphs captured",
    Milestone.INITIALIZED: "engine initialized",
    Milestone.READY: "ready",
    Milestone.STOPPED: "stopped as asked",
}


class FailureKind(Enum):
    """What stopped a launch. Where the planner refuses for the same reason, its word for it."""

    KV_ROOM = "kv_room"
    FREE_MEMORY = "free_memory"
    OUT_OF_MEMORY = "out_of_memory"
    OPTION = "option"
    PORT = "port"
    MODEL = "model"  # not found, gated, or its files are broken
    TOKENIZER = "tokenizer"
    ARCHITECTURE = "unsupported_architecture"
    MAX_MODEL_LEN = "max_model_len"
    BATCH = "batch"
    BACKEND = "backend"
    DTYPE = "dtype"
    WHEEL = "wheel"  # no kernels for this GPU
    DIVISIBLE = "divisible"
    NODES = "nodes"  # more ranks than GPUs
    QUANTIZATION = "quantization"
    DEVICE = "device"  # no usable GPU, driver
    COMMUNICATION = "communication"
    DISK = "disk"
    HOST_MEMORY = "host_memory"
    CONFIG = "config"  # any other setting that vLLM refuses
    KILLED = "killed"
    CRASH = "crash"
    TIMEOUT = "timeout"
    HANG = "hang"


class Failure(Struct, frozen=True):
    """Why a launch failed: its class, vLLM's own line, and the numbers in it.

    Where vLLM says nothing, or nothing that can be read, `message` is what was `seen` of it.
    """

    kind: FailureKind
    message: str
    subject: str | None = None  # an option, a model, an architecture
    needed: int | None = None
    available: int | None = None
    total: int | None = None
    utilization: float | None = None
    asked_len: int | None = None
    longest_len: int | None = None
    when_serving: bool = False  # after it was ready
    seen: bool = False  # the message is not vLLM's


class RankFacts(Struct, frozen=True):
    """What one worker said of its memory. `name` is how its lines begin, empty without that."""

    name: str
    total: int | None = None
    free: int | None = None  # at the start
    utilization: float | None = None
    requested: int | None = None
    weights: int | None = None
    consumed: int | None = None  # weights and what is outside torch, in one number
    activation: int | None = None
    non_torch: int | None = None
    graphs_estimated: int | None = None
    graphs: int | None = None
    kv_cache: int | None = None
    suggested_kv_cache: int | None = None  # for --kv-cache-memory-bytes; to the byte


class Times(Struct, frozen=True):
    """How long the parts of a start took."""

    loading: float | None = None
    compilation: float | None = None
    profiling: float | None = None
    capture: float | None = None
    initialization: float | None = None

    @property
    def told(self) -> dict[str, float]:
        """Those that were said, each by its name in words, in order."""
        parts = {
            "loading": self.loading,
            "compilation": self.compilation,
            "profiling": self.profiling,
            "graph capture": self.capture,
            "engine initialization": self.initialization,
        }
        return {name: time for name, time in parts.items() if time is not None}


class Served(Struct, frozen=True):
    """Lines about speed: the largest value of each, and how many there were."""

    lines: int = 0
    prompt_rate: float | None = None
    generation_rate: float | None = None
    running: int | None = None
    waiting: int | None = None
    cache_usage: float | None = None  # per cent
    preemptions: int = 0
    acceptance_length: float | None = None


class LaunchFacts(Struct, frozen=True):
    """One launch, as its log tells it."""

    release: str | None = None
    model: str | None = None
    options: tuple[str, ...] = ()  # as words of a command, without secrets
    tensor_parallel_size: int | None = None
    max_model_len: int | None = None
    device: str | None = None  # GPU, CPU or XPU
    attention_backend: str | None = None
    blocks: int | None = None
    kv_tokens: int | None = None
    max_concurrency: float | None = None  # to two decimals
    ranks: tuple[RankFacts, ...] = ()
    times: Times = field(default_factory=Times)
    milestones: tuple[tuple[Milestone, float | None], ...] = ()  # with seconds since the start
    served: Served = field(default_factory=Served)
    failure: Failure | None = None

    @property
    def reached(self) -> Milestone | None:
        """The last milestone; None for a log that tells of no launch."""
        return max((milestone for milestone, _ in self.milestones), default=None)

    @property
    def tells_of_a_launch(self) -> bool:
        """Whether there was anything of vLLM's in the log."""
        return self.reached is not None or self.failure is not None or bool(self.ranks)

    @property
    def is_ready(self) -> bool:
        """Whether it served, at some time."""
        return any(milestone is Milestone.READY for milestone, _ in self.milestones)

    def largest(self, part: Callable[[RankFacts], int | None]) -> int | None:
        """A part of the memory on the rank that has most of it."""
        return max((size for rank in self.ranks if (size := part(rank)) is not None), default=None)

    def smallest(self, part: Callable[[RankFacts], int | None]) -> int | None:
        """A part of the memory on the rank that has least of it."""
        return min((size for rank in self.ranks if (size := part(rank)) is not None), default=None)

    @property
    def kv_cache(self) -> int | None:
        """The KV cache of the tightest rank, which sets the blocks of all."""
        return self.smallest(lambda rank: rank.kv_cache)
