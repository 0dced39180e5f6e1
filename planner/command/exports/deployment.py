"""What every format says of a launch: image, GPUs of a node, port, folders, variables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import ceil
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from planner.command.render import Command, Flag
from planner.command.secrets import SECRET_OPTIONS, is_secret, redacted
from planner.engine.images import image_of
from planner.files import is_folder, named_path
from planner.memory.plan import MemoryPlan

# Variables that the user gives where it runs: for the Hub, and to ask for a key of every client.
SECRETS: Final = ("HF_TOKEN", "VLLM_API_KEY")
RAY_PORT: Final = 6379
_PORT: Final = 8000
# A slow line to the Hub, and what vLLM takes to compile and to capture graphs, generously: a start
# that takes longer is taken for one that hangs.
_BYTES_PER_SECOND: Final = 50 * 10**6
_WARM_UP_SECONDS: Final = 900
_SHARED_MEMORY_GIB: Final = (2, 16)  # of one GPU, and of several: NCCL and the workers' queues


class Deployment(Struct, frozen=True):
    """A launch that is to be written down. `environ` are the variables its plan depends on."""

    memory: MemoryPlan
    command: Command
    environ: tuple[tuple[str, str], ...] = ()

    @property
    def gpus(self) -> int:
        """GPUs of the whole launch."""
        given = self.memory.config.given
        return given.world_size * given.data_parallel_size

    @property
    def nodes(self) -> int:
        """Machines it runs on."""
        return max(self.memory.config.given.nnodes, ceil(self.gpus / len(self.memory.rig.devices)))

    @property
    def gpus_per_node(self) -> int:
        """GPUs it takes of each machine."""
        return self.gpus // self.nodes

    @property
    def all_gpus(self) -> bool:
        """Whether it takes all that a machine has."""
        return self.gpus_per_node == len(self.memory.rig.devices)

    @property
    def on_ray(self) -> bool:
        """Whether Ray has to connect the machines first."""
        return self.memory.config.given.distributed_executor_backend == "ray"

    @property
    def counts_in_shell(self) -> bool:
        """Whether each of the other machines has to work out which of the replicas it starts."""
        given = self.memory.config.given
        by_hand = given.data_parallel_size_local is not None and given.nnodes == 1
        return by_hand and self.nodes > 2

    @property
    def image(self) -> str:
        """The container image of the release; `PlanError` where none is known."""
        return image_of(self.memory.release, self.memory.device.platform)

    @property
    def name(self) -> str:
        """A name for what is deployed: a label of letters, digits and dashes."""
        last = self.command.model.rstrip("/").rpartition("/")[2]
        return f"vllm-{re.sub(r'[^a-z0-9]+', '-', last.lower()).strip('-')}"[:50].rstrip("-")

    @property
    def port(self) -> int:
        """Where the server listens."""
        for flag in self.command.flags:
            if flag.name == "--port" and flag.value is not None:
                return int(flag.value)
        return _PORT

    @property
    def variables(self) -> tuple[tuple[str, str], ...]:
        """The environment, without secrets."""
        return tuple(pair for pair in self.environ if not is_secret(pair[0]))

    @property
    def startup_seconds(self) -> int:
        """A time after which a server that is not ready will never be."""
        card = self.memory.card
        stored = card.checkpoint_bytes or card.weight_bytes
        return ceil(stored / _BYTES_PER_SECOND / 60) * 60 + _WARM_UP_SECONDS

    @property
    def checkpoint_gib(self) -> int:
        """Room for the files of the model, with some to spare."""
        card = self.memory.card
        return ceil(1.2 * (card.checkpoint_bytes or card.weight_bytes) / 2**30) + 1

    @property
    def shared_memory_gib(self) -> int:
        """Size that /dev/shm may grow to."""
        return _SHARED_MEMORY_GIB[self.gpus_per_node > 1]

    @property
    def folders(self) -> tuple[str, ...]:
        """Absolute paths of the folders that hold the model and the draft, if any do."""
        return tuple(dict.fromkeys(self._folders()))

    def _folders(self) -> Iterator[str]:
        if self.memory.card.origin.kind == "folder":
            yield _absolute(self.command.model)
        for flag in self.command.flags:
            draft = _draft(flag)
            if draft is not None and is_folder(draft):
                yield _absolute(draft)

    @property
    def title(self) -> tuple[str, str]:
        """What this is, for the head of a file, in two lines that hold nothing but text."""
        memory = self.memory
        rig = f"{memory.rig.describe()}; vLLM {memory.release.name}"
        risk = 100 * memory.starts.chance_of_refusal
        chance = "under 1" if risk < 1 else "over 99" if risk > 99 else f"{risk:.0f}"
        tokens = f"{memory.kv_tokens.value:,.0f} tokens of KV cache"
        return (
            _one_line(f"{self.command.model} on {rig}, as vplan plans it:"),
            f"{tokens}; chance that vLLM refuses to start: {chance} %.",
        )

    def comment(self, *lines: str) -> str:
        """The title and `lines` as comments."""
        return "".join(f"# {_one_line(line)}\n" for line in (*self.title, *lines))

    def member_words(self, address: str, rank: int | str) -> list[str]:
        """What one of several machines adds: where the first is, and its own number.

        A `rank` that is a text stands for the numbers of all but the first: a reference to a
        variable, and where `counts_in_shell` the name of one, for a shell.
        """
        given = self.memory.config.given
        local = given.data_parallel_size_local
        if local is None or given.nnodes > 1:
            words = ["--master-addr", address, "--node-rank", str(rank)]
            return words if rank == 0 else [*words, "--headless"]
        words = ["--data-parallel-address", address]
        if rank == 0:
            return words
        if isinstance(rank, int):
            first = str(rank * local)
        else:
            first = f"$(({rank} * {local}))" if self.counts_in_shell else str(local)
        return [*words, "--data-parallel-start-rank", first, "--headless"]

    def shown(self) -> Command:
        """The command without secrets."""
        flags = (_redacted(f) for f in self.command.flags if f.name not in SECRET_OPTIONS)
        return Command(redacted(self.command.model), tuple(flags))

    def served(self) -> Command:
        """The command as it is run from anywhere: with absolute paths, and without secrets."""
        command = self.shown()
        if self.memory.card.origin.kind == "folder":
            command = replace(command, model=_absolute(command.model))
        return replace(command, flags=tuple(map(_with_absolute_draft, command.flags)))

    def contained(self) -> Command:
        """The same in a container, where it listens to whoever is let in."""
        command = self.served()
        return replace(command, flags=tuple(f for f in command.flags if f.name != "--host"))


def _draft(flag: Flag) -> str | None:
    """The draft's model that an option names."""
    if flag.name == "--spec-model":
        return flag.value
    if flag.name != "--speculative-config" or flag.value is None:
        return None
    model = json.loads(flag.value).get("model")
    return model if isinstance(model, str) else None


def _redacted(flag: Flag) -> Flag:
    value = redacted(flag.value) if flag.value is not None else None
    return replace(flag, value=value, more=tuple(map(redacted, flag.more)))


def _with_absolute_draft(flag: Flag) -> Flag:
    draft = _draft(flag)
    if draft is None or not is_folder(draft):
        return flag
    if flag.name == "--spec-model":
        return replace(flag, value=_absolute(draft))
    parts: dict[str, Any] = json.loads(flag.value or "{}")
    return replace(flag, value=json.dumps({**parts, "model": _absolute(draft)}))


def _absolute(path: str) -> str:
    return str(named_path(path).absolute())


def _one_line(text: str) -> str:
    """Text with escapes for what would end a comment or steer a terminal."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
