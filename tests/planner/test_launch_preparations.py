"""Before a launch: weights that can be had, room for them, time; during it: memory and power."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from hardware_db import Rig, find_rig
from hardware_db.usage import GpuMemory, GpuUsage
from model_cards import ModelCard, open_card
from model_cards.errors import GatedModel, HubUnavailable
from planner import EngineConfig, PlanError, plan_memory
from planner.findings import Severity
from planner.launch import download
from planner.launch.container import read_container
from planner.launch.download import Download, about_download
from planner.launch.estimate import start_time
from planner.launch.preflight import gpu_of_launch, prepare
from planner.launch.progress import Event, InUse
from planner.launch.usage import Usage, Watch, meter
from planner.report.validation import ValidationReport

GIB = 2**30


class Disk(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture
def card() -> ModelCard:
    return replace(open_card("Qwen/Qwen3-8B", offline=True), checkpoint_bytes=16 * GIB)


class Hub:
    """What a Hub and a disk say."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.problem: Exception | None = None
        self.token: str | None = None
        self.free = 100 * GIB
        self.cached: Path | None = None
        monkeypatch.setattr(download, "check_access", self._check)
        monkeypatch.setattr(download, "cached_weights", lambda *_: self.cached)
        monkeypatch.setattr(download, "cache_folder", lambda: tmp_path / "not" / "there")
        monkeypatch.setattr("shutil.disk_usage", lambda _: Disk(0, 0, self.free))

    def _check(self, model_id: str, token: str | None) -> None:
        self.token = token
        if self.problem is not None:
            raise self.problem


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hub:
    return Hub(monkeypatch, tmp_path)


def test_weights_that_can_be_fetched(card: ModelCard, hub: Hub) -> None:
    assert about_download(card, None, False, {"HF_TOKEN": "hf_of_the_command"}) == Download(
        16 * GIB, ()
    )
    assert hub.token == "hf_of_the_command"


def test_weights_that_are_here_or_made_up(card: ModelCard, hub: Hub, tmp_path: Path) -> None:
    assert about_download(card, None, True, {}) is None
    hub.cached = tmp_path
    assert about_download(card, None, False, {}) is None
    hub.cached = None
    folder = replace(card, origin=replace(card.origin, kind="folder"))
    assert about_download(folder, None, False, {}) is None


def test_a_disk_without_room(card: ModelCard, hub: Hub) -> None:
    hub.free = 16 * GIB
    found = about_download(card, None, False, {})
    assert found is not None
    (finding,) = found.findings
    assert (finding.code, finding.severity) == ("disk", Severity.ERROR)
    assert "takes 16.0 GiB to fetch" in finding.text
    assert "16.0 GiB free" in finding.text


@pytest.mark.parametrize(
    ("problem", "severity"),
    [
        (GatedModel("the Hub wants an accepted licence"), Severity.ERROR),
        (HubUnavailable("the Hub did not answer in time"), Severity.WARNING),
    ],
)
def test_what_the_hub_says(
    card: ModelCard, hub: Hub, problem: Exception, severity: Severity
) -> None:
    hub.problem = problem
    found = about_download(card, None, False, {})
    assert found is not None
    (finding,) = found.findings
    assert finding.severity is severity
    assert str(problem) in finding.text


def report(card: ModelCard, gpu: str, seconds: float | None) -> ValidationReport:
    model = ValidationReport.model_fields["model"].annotation
    assert model is not None
    return ValidationReport.model_construct(
        model=model.model_construct(id=card.model_id), gpu=gpu, ready_seconds=seconds
    )


def test_the_time_until_it_is_ready(card: ModelCard) -> None:
    def plan(**settings: bool) -> object:
        config = EngineConfig(max_model_len=8192, **settings)  # type: ignore[arg-type]
        return plan_memory(card, find_rig("4090"), config)

    by_size = start_time(plan(), [])  # type: ignore[arg-type]
    eager = start_time(plan(enforce_eager=True), [])  # type: ignore[arg-type]
    assert by_size.low > eager.low
    assert eager.low == pytest.approx(15 + 0.2 * 16.4, abs=0.1)
    assert "no earlier run" in by_size.why
    past = [
        report(card, "rtx-4090", 100.0),
        report(card, "rtx-4090", 110.0),
        report(card, "rtx-4090", None),
        report(card, "h100-sxm", 5.0),
    ]
    known = start_time(plan(), past)  # type: ignore[arg-type]
    assert known.low == pytest.approx(0.6 * 105)
    assert known.why == "2 earlier runs of it here"


def test_memory_and_power_while_it_runs() -> None:
    readings: Iterator[InUse] = iter(
        [InUse(1 * GIB, 60.0), InUse(5 * GIB, 300.0), InUse(4 * GIB, 320.0), InUse(1 * GIB, 70.0)]
    )
    heard: list[Event] = []
    with Watch(lambda: next(readings), heard.append, every=0.02) as watch, watch.busy():
        until = time.monotonic() + 10
        while len(heard) < 2 and time.monotonic() < until:
            time.sleep(0.001)
        watch._over.set()
        watch._thread.join()
        usage = watch.stop()
    assert heard == [InUse(5 * GIB, 300.0), InUse(4 * GIB, 320.0)]
    assert usage == Usage(1 * GIB, 5 * GIB, 310.0, 320.0, 1 * GIB)


def test_a_watch_without_readings() -> None:
    with Watch(lambda: None, lambda _: None, every=0.01) as watch:
        time.sleep(0.05)
        assert watch.stop() == Usage()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_cpu_is_its_processes() -> None:
    import os

    with meter(find_rig("cpu:64GiB@80"), lambda: [os.getpid(), 2**30]) as read:
        seen = read()
    assert seen is not None
    assert 2**20 < seen.memory < 64 * GIB
    assert seen.watts is None


def test_gpus_are_asked_through_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    sys.path.append(str(Path(__file__).parents[1] / "hardware_db"))
    from fake_nvml import Card, FakeNvml

    first, second = Card("A", 24564, used_mib=1024, milliwatts=50_000), Card("B", 24564)
    nvml = FakeNvml(first, second)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)  # type: ignore[arg-type]
    rig: Rig = find_rig("4090")
    rig = replace(rig, devices=tuple(replace(device, index=0) for device in rig.devices))
    with meter(rig, list) as read:
        assert read() == InUse(GIB, 50.0, (GpuMemory(0, GIB, 24564 * 2**20),))
    assert nvml.open == 0


@pytest.mark.parametrize(
    ("options", "gpus"),
    [
        ("--gpus all", None), ("--ipc=host", None), ("--gpus 2", "0,1"), ("--gpus=count=1", "0"),
        ("--gpus device=1", "1"), ("--gpus '\"device=0,3\"'", "0,3"),
        ("--gpus 'capabilities=utility,\"device=GPU-1a2b\"'", "GPU-1a2b"),
        ("--device nvidia.com/gpu=0 --device nvidia.com/gpu=2", "0,2"),
        ("--device=nvidia.com/gpu=all", None), ("--device /dev/kfd --device /dev/dri", None),
    ],
)  # fmt: skip
def test_the_gpus_of_a_container(options: str, gpus: str | None) -> None:
    """As Docker's and the Container Device Interface's documentation write them."""
    words = shlex.split(f"docker run {options} vllm/vllm-openai:v0.32.0 --model x")
    container, rest = read_container(words, "/usr/bin/docker")
    assert container.gpus == gpus
    assert rest == ["--model", "x"]


@pytest.mark.parametrize(
    ("before", "index"), [("", 0), ("CUDA_VISIBLE_DEVICES=1", 1), ("env CUDA_VISIBLE_DEVICES=1", 1)]
)
def test_a_launch_is_planned_for_the_gpus_that_it_gets(
    before: str, index: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sys.path.append(str(Path(__file__).parents[1] / "hardware_db"))
    from fake_nvml import Card, FakeNvml

    cards = [Card("NVIDIA GeForce RTX 4090", 24564), Card("NVIDIA GeForce RTX 3090", 24576)]
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(*cards))  # type: ignore[arg-type]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    command = f"{before} docker run --gpus all vllm/vllm-openai:v0.32.0 --model Qwen/Qwen3-0.6B"
    rig = prepare([command]).check.rig
    assert rig.devices[0].index == index
    assert rig.gpu_count == (1 if before else 2)


def test_gpus_that_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """AMD's are taken at their name where none is detected; NVIDIA's are what they are."""
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    command = ["docker run vllm/vllm-openai-rocm:v0.32.0 --model Qwen/Qwen3-0.6B"]
    assert prepare(command, "2xmi300x").check.rig.spec == "2xmi300x"
    for named in ("4090", "2xh100-sxm", "cpu:64GiB@80"):
        with pytest.raises(PlanError, match="auto or cpu"):
            prepare(command, named)
    planned = {"4090": "auto", "2xmi300x": "2xmi300x", "cpu": "cpu", "cpu:64GiB@80": "cpu"}
    for name, launched in {**planned, "auto": "auto", "no such": "auto"}.items():
        assert gpu_of_launch(name) == launched
    detected = find_rig("mi210")
    monkeypatch.setattr("hardware_db.detect.detect_rig", lambda **_: detected)
    assert gpu_of_launch("2xmi300x") == "auto"


def test_amds_gpus_are_asked_through_sysfs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[int]] = []

    def usage(*, indices: list[int]) -> GpuUsage:
        asked.append(indices)
        return GpuUsage(GIB, 90.0)

    monkeypatch.setattr("planner.launch.usage.amd_usage", usage)
    named = find_rig("mi300x")
    with meter(named, list) as read:
        assert read() == InUse(GIB, 90.0)
    detected = replace(named, devices=(replace(named.devices[0], index=3),))
    with meter(detected, list) as read:
        assert read() == InUse(GIB, 90.0)
    assert asked == [[], [3]]
