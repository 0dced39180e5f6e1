"""Measured rows planned, and what the step-time model says of them with any constants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from speed_cards import NoCard, card_in
from speed_rows import SpeedRow

from hardware_db import Rig, find_rig
from hardware_db.errors import HardwareError
from model_cards.card import ModelCard
from planner import MemoryPlan, plan_memory
from planner.errors import PlanError
from planner.memory.plan import Refused
from planner.speed.constants import Constants
from planner.speed.load import LoadModel

# Of the dense peak, in a whole cycle of a request: kernels reach .6, and answers take time too.
_MOST_FOR_PROMPTS: Final = 0.5
_LEFT: Final = 0.95  # of a card's memory, by its driver


class Measured(Struct, frozen=True):
    """A row with its plan. Times in seconds."""

    row: SpeedRow
    memory: MemoryPlan
    load: LoadModel
    tpot: float
    ttft: float | None

    @property
    def source(self) -> str:
        return self.row.source

    @property
    def users(self) -> float:
        return self.row.users

    @property
    def apart(self) -> bool:
        return self.row.apart

    @property
    def counts_prefill(self) -> bool:
        return self.row.counts_prefill

    @property
    def kind(self) -> str:
        """Model kind, as bands go."""
        return "moe" if self.memory.card.is_moe else "dense"

    @property
    def doubtful(self) -> str | None:
        """Why it cannot have been measured as the row says: scored, but nothing is fitted to it."""
        if self.memory.tightest.kv_cache.high < 0:
            return "its weights do not fit the GPUs it names"
        if self.ttft is not None and _prompts_share(self, self.ttft) > _MOST_FOR_PROMPTS:
            return "its prompts cannot all have been processed: some must have been cached"
        return None


class Missed(Struct, frozen=True):
    """A row that cannot be predicted, and why."""

    row: SpeedRow
    reason: str


def measured_rows(rows: Iterable[SpeedRow]) -> Iterator[Measured | Missed]:
    """The scored rows with their plans."""
    for row in rows:
        if row.scored:
            yield measured(row)


def measured(row: SpeedRow) -> Measured | Missed:
    """A row with its plan, or why there is none."""
    assert row.tpot is not None
    try:
        card = card_in(row.model, row.quant)
        memory = _plan(card, _rig(row.rig), row)
        load = LoadModel.of(memory, row.workload, legacy=row.legacy)
    except Refused as error:
        return Missed(row, f"refused: {error}")
    except (NoCard, HardwareError, PlanError) as error:
        return Missed(row, str(error))
    return Measured(row, memory, load, row.tpot, row.ttft)


def _prompts_share(measured: Measured, ttft: float) -> float:
    """Share of the peak matrix rate that its prompts would take of the measured time."""
    workload, step = measured.row.workload, measured.load.step
    rates = step.hardware.rates
    if not rates:
        return 0.0
    attention = step.demand.prompt_attention_flops(workload.prompt_tokens)
    least = attention / rates["16bit"]
    for matrices, dtype in zip(step.demand.matrices, step.dtypes, strict=True):
        if matrices.part != "head":
            least += matrices.flops_per_token * workload.prompt_tokens / rates[dtype]
    running = min(measured.users, measured.load.most_running)
    cycle = ttft + workload.output_tokens * measured.tpot
    return float(running * least / cycle)


def _plan(card: ModelCard, rig: Rig, row: SpeedRow) -> MemoryPlan:
    """The plan of a row; where vLLM as published refuses, of what comes nearest.

    People patch what they measure: other cache types, experts spread where slices do not divide.
    """
    plain = replace(row.settings, kv_cache_dtype="auto")
    ways = (row.settings, plain, replace(plain, enable_expert_parallel=True))
    for settings in ways:
        try:
            return plan_memory(card, rig, settings, vllm=row.release)
        except Refused as error:
            refused = error
    raise refused


@cache
def _rig(text: str) -> Rig:
    """The rig; with most of the memory on the box where what drivers leave of it is not known."""
    rig = find_rig(text)
    memory = rig.smallest.gpu.memory
    if rig.smallest.total_bytes is None and memory.nominal_gb is not None:
        return find_rig(f"{text}:{_LEFT * memory.nominal_gb:.1f}GiB")
    return rig


def tpot(measured: Measured, constants: Constants | None = None) -> float:
    """Time between tokens as the row counts it."""
    load = with_constants(measured.load, constants)
    if not measured.counts_prefill:
        return load.at(measured.users).tpot
    # All prompts of the batch first, then the answers: their time over the answer's length.
    running = min(measured.users, load.most_running)
    prompts = running if measured.row.static else 1.0
    answer = measured.row.workload.output_tokens
    return float(load.decode_step(running).total + prompts * load.prompt_seconds(0) / answer)


def first_token(measured: Measured, constants: Constants | None = None) -> float | None:
    """Time to the first token at the row's load."""
    return with_constants(measured.load, constants).at(measured.users).ttft


def with_constants(load: LoadModel, constants: Constants | None) -> LoadModel:
    """The load with other constants; None: as it is."""
    if constants is None:
        return load
    return replace(load, step=replace(load.step, constants=constants))
