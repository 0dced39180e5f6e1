"""What a GPU launch teaches, from logs made of other terms than the plan's."""

from __future__ import annotations

import pytest
from launch_logs import Said, cuda_log
from msgspec.structs import replace

from hardware_db import Rig, find_rig
from planner.calibration import Calibration, Lesson, Term, calibrated_by
from planner.command.parse import read_command
from planner.diagnosis.check import Check, check_command
from planner.launch.learning import observe
from planner.launch.load import Level, LevelResult
from planner.launch.log import read_log
from planner.launch.probe import Probe
from planner.memory.plan import MemoryPlan

GIB = 2**30
WORDS = ("vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "8192")


def checked(rig: Rig, release: str) -> Check:
    return check_command(read_command(WORDS, release), rig, offline=True)


def planned(check: Check) -> MemoryPlan:
    assert check.memory is not None
    return check.memory


def runner_buffers(memory: MemoryPlan) -> int:
    """What a log has with the memory outside torch, in releases that count it."""
    buffers = memory.tightest.buffers
    return buffers.total - buffers.model if memory.release.at_least("0.20.0") else 0


def said(memory: MemoryPlan, **gib: float) -> Said:
    """A log as planned, but for what is given."""
    rank = memory.tightest
    beside = rank.non_torch.value + runner_buffers(memory)
    as_planned = Said(
        weights=(rank.weights.value + rank.buffers.model) / GIB,
        activation=rank.activation.value / GIB,
        non_torch=beside / GIB,
        graphs_estimated=rank.cuda_graphs.value / GIB,
        kv_cache=rank.kv_cache.value / GIB,
        tokens=int(memory.kv_tokens.value),
        length=8192,
    )
    return replace(as_planned, **gib)


@pytest.mark.parametrize("release", ["0.19.1", "0.33.0"])
def test_terms_that_were_off_are_closer_in_the_next_plan(release: str) -> None:
    rig = find_rig("4090")
    check = checked(rig, release)
    memory = planned(check)
    rank = memory.tightest
    truth = {
        "activation": 1.3 * rank.activation.value / GIB,
        "graphs_estimated": 1.4 * rank.cuda_graphs.value / GIB,
        "non_torch": (rank.non_torch.value + 0.2 * GIB) / GIB,
    }
    printed = truth | {"non_torch": truth["non_torch"] + runner_buffers(memory) / GIB}
    facts = read_log(cuda_log(release, said(memory, **printed)))[0]
    observed = observe(check, facts, None)
    terms = {seen.term for seen in observed}
    assert {Term.ACTIVATION, Term.OUTSIDE_TORCH} <= terms
    assert (Term.CUDA_GRAPHS in terms) is (release == "0.33.0")
    taught = Calibration([Lesson(rig.smallest.gpu.slug, release, observed)] * 3)
    with calibrated_by(taught):
        after = planned(checked(rig, release)).tightest
    for name, term in (("activation", "activation"), ("non_torch", "non_torch")):
        before_gap = abs(getattr(rank, term).value / GIB - truth[name])
        assert abs(getattr(after, term).value / GIB - truth[name]) < before_gap / 2, name


def test_it_is_learned_beside_the_fitted_constants_alone() -> None:
    """A plan that is corrected already teaches no other numbers."""
    rig = find_rig("4090")
    check = checked(rig, "0.33.0")
    facts = read_log(cuda_log("0.33.0", said(planned(check), activation=2.0)))[0]
    first = observe(check, facts, None)
    with calibrated_by(Calibration([Lesson("rtx-4090", "0.33.0", first)])):
        corrected = checked(rig, "0.33.0")
        assert corrected.memory != check.memory
        assert observe(corrected, facts, None) == first


def test_the_context_where_nvml_was_asked() -> None:
    rig = find_rig("4090")
    total = rig.smallest.total_bytes
    assert total is not None
    live = replace(rig.smallest, free_bytes=total, live=True)
    check = checked(replace(rig, devices=(live,)), "0.33.0")
    facts = read_log(cuda_log("0.33.0", said(planned(check))))[0]
    found = min(rank.free for rank in facts.ranks if rank.free is not None)
    contexts = [seen for seen in observe(check, facts, None) if seen.term is Term.CONTEXT]
    if found < total:
        assert contexts[0].measured == total - found
    else:  # the log is of a larger GPU
        assert contexts == []


def test_times_of_one_user() -> None:
    rig = find_rig("4090")
    check = checked(rig, "0.33.0")
    alone = LevelResult(Level(1, 10, 1024, 128), 10, 0, 0.2, 0.15, 0.03, 0.025, 40, "bench")
    many = LevelResult(Level(8, 40, 1024, 128), 40, 0, 0.9, 0.8, 0.05, 0.04, 160, "bench")
    facts = read_log(cuda_log("0.33.0", said(planned(check))))[0]
    observed = observe(check, facts, Probe("m", 8192, None, (), levels=(alone, many)))
    times = {seen.term: seen for seen in observed if seen.term in (Term.TPOT, Term.TTFT)}
    assert times[Term.TPOT].measured == 0.025
    assert times[Term.TTFT].measured == 0.15
    assert times[Term.TPOT].subject == "16bit"
