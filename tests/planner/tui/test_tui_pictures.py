"""Pictures of the screens in their states, at three sizes, as somebody looked at them and agreed.

After a change that is meant: `pytest tests/planner/tui/test_tui_pictures.py --snapshot-update`, and
look at what changed. The plans are made with constants of their own: see steady_constants.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from launch_logs import Said, cuda_log
from msgspec import Struct
from msgspec.structs import replace
from steady_constants import steady_constants  # noqa: F401 (a fixture)
from test_tui_states import model
from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import TextArea
from tui_driver import SIZES, SMALL, Driver

from hardware_db import NoGpuDetected, find_rig
from hardware_db.usage import GpuMemory
from model_cards import UnknownModel
from planner.command.parse import read_command
from planner.diagnosis.check import check_command
from planner.engine_config import SpeculativeConfig
from planner.errors import PlanError
from planner.launch.explain import explain
from planner.launch.facts import Failure, FailureKind, Milestone
from planner.launch.history import PastRun
from planner.launch.installation import Installation
from planner.launch.log import read_log
from planner.launch.preflight import Preflight
from planner.launch.progress import Cancelled, Event, InUse, Logged, Reached
from planner.launch.terms import Term, Unit
from planner.quantity import Basis, Quantity
from planner.report.hardware import RigReport
from planner.report.launch_log import FailureReport, LaunchFactsReport
from planner.report.models import ModelReport
from planner.report.validation import TermReport, ValidationReport
from planner.settings import Settings
from planner.tui.app import VplanApp
from planner.tui.library import Library

Script = Callable[[Driver], Awaitable[None]]
LOG = cuda_log("0.33.0", Said())
EAGLE = SpeculativeConfig("eagle3", 4, "AngelSlim/Qwen3-8B_eagle3")
COMMAND = "vllm serve Qwen/Qwen3-8B --max-model-len 16384"


class Picture(Struct, frozen=True):
    """A plan to begin with, keys, what else is done, and the sizes it is drawn at.

    `outcome` is how a validation ends, `cannot` why there is none; `online`: a Hub answers, though
    it knows no model; `slow`: what asks the Hub, or for a ranking, waits.
    """

    settings: Settings = SMALL
    keys: tuple[str, ...] = ()
    script: Script | None = None
    sizes: tuple[tuple[int, int], ...] = SIZES
    outcome: str = ""
    cannot: Exception | None = None
    online: bool = False
    slow: bool = False


def dropped(*lines: str) -> Script:
    """Drop a log on the screen."""

    async def script(driver: Driver) -> None:
        driver.app.post_message(Paste("\n".join(lines)))
        await driver.until(lambda: driver.app.screen is not driver.plan)
        await driver.rest()

    return script


async def run(driver: Driver) -> None:
    """Until it has begun and something is in use."""
    await driver.until(lambda: "GiB in use" in driver.text("#course"))


async def cancel(driver: Driver) -> None:
    await run(driver)
    await driver.pilot.press("escape")
    await driver.until(lambda: "cancelled" in driver.text("#verdict"))


async def ask(driver: Driver) -> None:
    """Ask for a model of the Hub, and wait until what was planned before is put away."""
    await driver.send("m", *"nobody/large", "enter")
    await driver.until(lambda: driver.plan.query_one("#nothing").display)


async def rank(driver: Driver) -> None:
    await driver.send("r")
    await driver.until(lambda: "57 of 344" in driver.text("#row"))


def shows(words: str) -> Script:
    """Wait for words in the line below the title."""

    async def script(driver: Driver) -> None:
        await driver.until(lambda: words in driver.text("#verdict"))

    return script


FAILED = (
    "ValueError: To serve at least one request with the model's max seq len (32768), (4.5 GiB KV "
    "cache is needed, which is larger than the available KV cache memory (3.98 GiB). Based on the "
    "available memory, the estimated maximum model length is 28960. Try increasing "
    "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
)
AS_PLANNED = Said(15.27, 1.94, 0.72, 0.88, 0.8, 53.9, 392_464)
REAL = [line.replace("org/model", "Qwen/Qwen3-8B") for line in cuda_log("0.33.0", AS_PLANNED)]
ON_H100 = model("Qwen/Qwen3-8B", "h100-sxm")
MIDDLE = (SIZES[1],)
TWO_STAGES = model("Qwen/Qwen3-32B-AWQ", "2xrtx-3090", pipeline_parallel_size=2)
DRAFTED = model("Qwen/Qwen3-8B", "h100-sxm", max_model_len=16384, speculative_config=EAGLE)
COMPARED = ("r", "space", "down", "space")
FILTERED = ("r", "slash", *"32k", "tab", *"open", "tab", *"60", "enter")
NO_VLLM = PlanError("no vLLM is installed here: activate its environment, or name its program")
NO_GPU = NoGpuDetected("No GPU that vLLM could use answers on this machine.")
PICTURES = {
    "starts": Picture(),
    "does-not-fit": Picture(model("Qwen/Qwen3-32B")),
    "risky": Picture(model("Qwen/Qwen3-8B", max_model_len=32768)),
    "refused": Picture(model("Qwen/Qwen3-8B", "8xrtx-3090", "0.19.1", tensor_parallel_size=3)),
    "unknown-model": Picture(model("Qwen/Qwen3-8"), online=True),
    "offline": Picture(model("nobody/nothing")),
    "stages": Picture(TWO_STAGES, sizes=MIDDLE),
    "drafted": Picture(DRAFTED, sizes=MIDDLE),
    "picking": Picture(SMALL, ("m", *"qwen3")),
    "writing": Picture(SMALL, ("down", "down", "down", "9", "x"), sizes=MIDDLE),
    "speed": Picture(replace(SMALL, concurrency=8), ("v",), sizes=SIZES[:2]),
    "speculation": Picture(SMALL, ("v", "v"), sizes=SIZES[:2]),
    "command": Picture(SMALL, ("v", "v", "v"), sizes=SIZES[:2]),
    "compose": Picture(SMALL, ("e", "e", "e"), sizes=MIDDLE),
    "why": Picture(SMALL, ("w",), sizes=SIZES[:2]),
    "validation-ready": Picture(SMALL, ("x",)),
    "validation-running": Picture(SMALL, ("x", "s"), run),
    "validation-passed": Picture(SMALL, ("x", "s"), shows("planned"), outcome="inside"),
    "validation-outside": Picture(SMALL, ("x", "s"), shows("band"), outcome="outside"),
    "validation-failed": Picture(SMALL, ("x", "s"), shows("failed"), outcome="failed"),
    "validation-cancelled": Picture(SMALL, ("x", "s"), cancel),
    "recommend": Picture(SMALL, ("r",)),
    "recommend-filtered": Picture(SMALL, FILTERED),
    "recommend-none": Picture(SMALL, ("r", "slash", "tab", "tab", *"9999", "enter")),
    "recommend-too-small": Picture(replace(SMALL, gpu="custom:1GiB@100"), ("r",)),
    "recommend-running": Picture(SMALL, (), rank, slow=True),
    "opening": Picture(SMALL, (), ask, online=True, slow=True),
    "validation-no-vllm": Picture(SMALL, ("x",), cannot=NO_VLLM),
    "validation-no-gpu": Picture(SMALL, ("x",), cannot=NO_GPU, sizes=MIDDLE),
    "recommend-wrong-filter": Picture(SMALL, ("r", "slash", *"long", "enter"), sizes=MIDDLE),
    "compare-two": Picture(SMALL, (*COMPARED, "c")),
    "compare-three": Picture(SMALL, (*COMPARED, "down", "down", "space", "c")),
    "diagnosis-failed": Picture(SMALL, (), dropped(*REAL, *REAL[:10], FAILED)),
    "diagnosis-unfinished": Picture(SMALL, (), dropped(*LOG[:8]), sizes=MIDDLE),
    "diagnosis-served": Picture(ON_H100, (), dropped(*REAL)),
    "paste": Picture(SMALL, ("p",), sizes=MIDDLE),
    "help": Picture(SMALL, ("question_mark",)),
    "palette": Picture(SMALL, ("ctrl+p",)),
    "light": Picture(SMALL, ("t",)),
    "light-does-not-fit": Picture(model("Qwen/Qwen3-32B"), ("t",), sizes=MIDDLE),
    "light-recommend": Picture(SMALL, ("t", "r"), sizes=MIDDLE),
    "light-validation": Picture(SMALL, ("t", "x", "s"), run, sizes=MIDDLE),
    "light-help": Picture(SMALL, ("t", "question_mark"), sizes=MIDDLE),
}


def report(verdict: str) -> ValidationReport:
    """What a launch came to, by hand."""
    check = check_command(read_command([COMMAND], "0.33.0"), find_rig("rtx-4090"), offline=True)
    gib = 2**30
    off = 1.4 * gib if verdict == "outside" else 0.02 * gib
    terms = [
        Term("weights", Unit.BYTES, Quantity.exact(15.27 * gib), 15.27 * gib),
        Term("activation peak", Unit.BYTES,
             Quantity(0.53 * gib, 0.38 * gib, 0.68 * gib, Basis.ESTIMATED), 0.49 * gib),
        Term("KV cache", Unit.BYTES,
             Quantity(4.68 * gib, 4.27 * gib, 5.08 * gib, Basis.ESTIMATED), 4.68 * gib + off),
        Term("KV tokens", Unit.COUNT,
             Quantity(34_096, 31_104, 37_008, Basis.ESTIMATED), 34_240),
    ]  # fmt: skip
    failure = Failure(
        FailureKind.KV_ROOM, "ValueError: To serve at least one request ...", needed=gib,
        available=gib // 2, asked_len=16384, longest_len=8192,
    )  # fmt: skip
    assert explain(failure).changes
    failed, facts = verdict == "failed", read_log(LOG)[-1]
    return ValidationReport(
        vllm="0.33.0", began="2026-04-09T12:00:00+00:00", command=COMMAND,
        rig=RigReport.of(check.rig), model=ModelReport.of(check.card), verdict=verdict,  # type: ignore[arg-type]
        ready_seconds=None if failed else 42.0,
        terms=[] if failed else [TermReport.of(term) for term in terms],
        completions=[], facts=LaunchFactsReport.of(facts),
        failure=FailureReport.of(failure, facts) if failed else None, kept=None, folder="/runs/3",
    )  # fmt: skip


class Rehearsed:
    """A validation that tells what it was told to."""

    outcome = ""
    cannot: Exception | None = None

    def __init__(self, preflight: Preflight) -> None:
        self.preflight = preflight
        self.is_ending = False
        lines = [Logged(line) for line in LOG]
        reached = [Reached(each, 3.0 * each) for each in Milestone if each < Milestone.CACHE]
        self.told: list[Event] = [*lines, *reached, self.reading()]

    def reading(self) -> InUse:
        card = GpuMemory(0, 17 * 2**30, 24564 * 2**20)
        return InUse(card.used, 210.0, (card,))

    async def report(self) -> ValidationReport:
        while self.told or not self.outcome:
            await asyncio.sleep(0.01)
            if self.is_ending:
                raise Cancelled("the validation was cancelled")
        await asyncio.sleep(0.1)  # the log has been drawn
        return report(self.outcome)

    def events(self) -> list[Event]:
        told, self.told = self.told, []
        return told

    def cancel(self) -> None:
        self.is_ending = True

    def wait(self, seconds: float) -> bool:
        return True


@pytest.fixture
def rehearsed(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Rehearsed]]:
    """The validate screen without a vLLM, a clock or earlier runs of this machine's."""

    def prepare(words: list[str], gpu: str) -> Preflight:
        if Rehearsed.cannot is not None:
            raise Rehearsed.cannot
        check = check_command(read_command(words, "0.33.0"), find_rig("rtx-4090"), offline=True)
        argv = ("vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "16384", "--port", "8123")
        installed = Installation(("vllm", "serve"), "0.33.0", False)
        return Preflight(tuple(words), check, installed, argv, (), 8123, SMALL.workload)

    monkeypatch.setattr("textual.widgets.Input._toggle_cursor", lambda _: None)  # it blinks
    screen = "planner.tui.screens.validate"
    past = [PastRun(Path(f"/runs/{n}"), report(v)) for n, v in enumerate(("inside", "outside"))]
    monkeypatch.setattr(f"{screen}.prepare", prepare)
    monkeypatch.setattr(f"{screen}.ValidationRun", Rehearsed)
    monkeypatch.setattr(f"{screen}.past_runs", lambda: iter(past))
    monkeypatch.setattr("planner.tui.prospect.past_runs", lambda: iter(()))
    monkeypatch.setattr(f"{screen}.monotonic", lambda: 7.0)
    monkeypatch.setattr(f"{screen}._EVERY", 0.03)
    yield Rehearsed
    Rehearsed.outcome, Rehearsed.cannot = "", None


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Hub that has no model at all."""

    def nothing(*_: object) -> object:
        raise UnknownModel("the Hub has no model of that name")

    monkeypatch.setattr("model_cards.sources.hub.open_online", nothing)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Makes the Hub and the ranking wait until the test has ended."""
    ended = threading.Event()

    def wait(*_: object, **asked: object) -> object:
        told = asked.get("told")
        if told is not None:
            told(57, 344)  # type: ignore[operator]
        ended.wait(60)
        raise UnknownModel("nobody waits for it")

    def begin() -> None:
        monkeypatch.setattr("model_cards.sources.hub.open_online", wait)
        monkeypatch.setattr("planner.tui.screens.recommend.recommend", wait)
        monkeypatch.setattr("planner.tui.widgets.verdict.monotonic", lambda: 2.0)

    yield begin
    ended.set()


@pytest.mark.usefixtures("steady_constants", "hub")
@pytest.mark.parametrize(
    ("name", "size"),
    [(name, size) for name, each in PICTURES.items() for size in each.sizes],
    ids=lambda value: value if isinstance(value, str) else "x".join(map(str, value)),
)
def test_a_screen_looks_as_agreed(
    name: str,
    size: tuple[int, int],
    snap_compare: object,
    rehearsed: type[Rehearsed],
    waiting: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    picture = PICTURES[name]
    rehearsed.outcome, rehearsed.cannot = picture.outcome, picture.cannot
    if picture.slow:
        waiting()
    monkeypatch.setattr("model_cards.sources.open.is_offline", lambda: not picture.online)
    app = VplanApp(picture.settings, Library(offline=not picture.online))

    async def prepare(pilot: Pilot[None]) -> None:
        driver = Driver(app, pilot)
        await driver.rest()
        for key in picture.keys:
            await driver.send(key)
            if key != "s":  # which begins what does not end by itself
                await driver.rest()
        if picture.script is not None:
            await picture.script(driver)
        for each in app.screen.query(TextArea):
            each.cursor_blink = False
        await driver.still()

    assert snap_compare(app, terminal_size=size, run_before=prepare)  # type: ignore[operator]
