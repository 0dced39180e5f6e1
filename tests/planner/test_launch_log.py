"""vLLM's log of every release, in whole and in part, into facts."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from launch_logs import CPU_LOG, FAILURES, RELEASES, STOP, V0_LOG, Said, cuda_log, key
from msgspec.structs import replace

from planner.launch.explain import explain
from planner.launch.facts import FailureKind, LaunchFacts, Milestone, RankFacts
from planner.launch.log import LogReader, read_log
from planner.launch.shares import shares

GIB = 2**30


def only(lines: list[str]) -> LaunchFacts:
    (facts,) = read_log(lines)
    return facts


def gib(value: float) -> int:
    return round(value * GIB)


@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize("release", RELEASES)
def test_a_start_on_gpus(release: str, ranks: int) -> None:
    said = Said()
    facts = only(cuda_log(release, said, ranks))
    assert (facts.release, facts.model) == (release, "org/model")
    assert facts.tensor_parallel_size == ranks
    assert (facts.max_model_len, facts.kv_tokens) == (said.length, said.tokens)
    assert facts.max_concurrency == round(said.tokens / said.length, 2)
    assert facts.attention_backend == (
        "FLASH_ATTN" if key(release) > (0, 11) else "Flash Attention"
    )
    assert facts.failure is None
    assert facts.is_ready
    assert facts.reached is Milestone.READY
    assert len(facts.ranks) == ranks
    for rank in facts.ranks:
        assert rank.weights == gib(said.weights)
        assert rank.graphs == gib(said.graphs)
        assert rank.graphs_estimated == (
            gib(said.graphs_estimated) if key(release) >= (0, 20) else None
        )
        if key(release) < (0, 10):  # prints no more than that
            continue
        assert rank.activation == gib(said.activation)
        assert rank.kv_cache == gib(said.kv_cache)
        assert (rank.free, rank.total, rank.requested) == (gib(78.6), gib(79.11), gib(71.2))
        assert (rank.utilization, rank.suggested_kv_cache) == (0.9, 57123456789)
        if key(release) < (0, 30):
            assert (rank.non_torch, rank.consumed) == (gib(said.non_torch), None)
        else:
            assert (rank.non_torch, rank.consumed) == (None, gib(said.weights + said.non_torch))
    times = facts.times
    assert (times.loading, times.compilation, times.capture) == (6.25, 21.5, 12.0)
    assert times.initialization == 40.25


def test_the_tightest_rank_sets_the_cache() -> None:
    log = cuda_log("0.33.0", Said(), 2)
    log = [line.replace("54.12", "50.00") if "TP1" in line else line for line in log]
    facts = only(log)
    assert [rank.kv_cache for rank in facts.ranks] == [gib(54.12), gib(50)]
    assert facts.kv_cache == gib(50)
    assert [rank.name for rank in facts.ranks] == ["Worker_TP0", "Worker_TP1"]


def test_the_old_engine() -> None:
    facts = only(V0_LOG)
    (rank,) = facts.ranks
    assert (facts.release, facts.model, facts.max_model_len) == ("0.8.5", "org/old", 4096)
    assert (facts.blocks, facts.max_concurrency) == (5517, 21.55)
    assert (rank.total, rank.utilization, rank.requested) == (gib(14.56), 0.5, gib(7.28))
    assert (rank.weights, rank.non_torch) == (gib(2.89), gib(0.01))
    assert (rank.activation, rank.kv_cache, rank.graphs) == (gib(2.02), gib(2.36), gib(0.19))
    assert facts.times.profiling == 5.61
    assert dict(facts.milestones)[Milestone.INITIALIZED] == 92


def test_the_logo_tells_the_release_of_a_start_that_ends_early() -> None:
    """Coloured or not; the engine, which repeats both, never starts."""
    said = "(APIServer pid=10) INFO 11-30 16:20:42 [api_utils.py:347] "
    for white, reset in (("", ""), ("\x1b[97;1m", "\x1b[0m")):
        facts = only([
            f"{said} {white}▄▄ ▄█ █     █     █ ▀▄▀ █{reset}  version {white}0.32.0{reset}",
            f"{said}  {white}█▄█▀ █     █     █     █{reset}  model   {white}/m/tiny 2{reset}",
            "OSError: Can't load tokenizer for '/m/tiny 2'. If you were trying to load it",
        ])  # fmt: skip
        assert (facts.release, facts.model) == ("0.32.0", "/m/tiny 2")
        assert facts.failure is not None


def test_a_start_on_a_cpu_and_its_speed() -> None:
    facts = only(CPU_LOG)
    (rank,) = facts.ranks
    assert (facts.device, facts.kv_tokens, facts.max_model_len) == ("CPU", 230528, 8192)
    assert (rank.kv_cache, rank.total) == (gib(2.64), gib(23.54))
    assert (rank.requested, rank.consumed) == (gib(4.71), gib(2.07))
    served = facts.served
    assert (served.lines, served.prompt_rate, served.generation_rate) == (2, 4.5, 13.9)
    assert (served.running, served.waiting, served.preemptions) == (4, 2, 3)
    assert served.cache_usage == 98.5
    assert facts.failure is None


def test_drafts_are_counted_and_their_backend_is_not_the_models() -> None:
    log = cuda_log("0.33.0", Said())
    log.insert(9, "INFO 04-09 23:58:30 [cuda.py:446] Using TRITON_ATTN backend.")
    log.append(
        "INFO 04-09 23:59:30 [metrics.py:100] SpecDecoding metrics: Mean acceptance length: 2.41, "
        "Accepted throughput: 1.00 tokens/s"
    )
    facts = only(log)
    assert facts.attention_backend == "FLASH_ATTN"
    assert facts.served.acceptance_length == 2.41


@pytest.mark.parametrize("prefix", [
    "vllm-1  | ", "2026-01-02T03:04:05.000000000Z stdout F ", "\x1b[1;36m", "[36m",
    "(ApiServer_0 pid=1) (RayWorkerWrapper pid=391, ip=10.0.0.7) ",
])  # fmt: skip
def test_what_stands_before_a_line_does_not_matter(prefix: str) -> None:
    plain = only(cuda_log("0.30.0", Said()))
    facts = only([prefix + line for line in cuda_log("0.30.0", Said())])
    assert replace(facts, ranks=(), milestones=()) == replace(plain, ranks=(), milestones=())
    for name in RankFacts.__struct_fields__[1:]:
        values = {getattr(rank, name) for rank in facts.ranks} - {None}
        assert values <= {getattr(plain.ranks[0], name)}


def test_a_stop_is_no_failure() -> None:
    facts = only(CPU_LOG + STOP)
    assert facts.failure is None
    assert facts.reached is Milestone.STOPPED


@pytest.mark.parametrize(("message", "kind", "numbers"), FAILURES, ids=lambda part: str(part)[:40])
@pytest.mark.parametrize("dressed", [True, False])
def test_failures(message: str, kind: str, numbers: dict[str, Any], dressed: bool) -> None:
    before = cuda_log("0.33.0", Said())[:8]
    source = "(Worker_TP0 pid=9) ERROR 04-09 23:59:00 [multiproc_executor.py:800] " * dressed
    passed_on = [
        f"{source}Traceback (most recent call last):",
        f'{source}  File "vllm/v1/worker.py", line 10, in method',
        f"{source}{message}",
        f"{source}Exception: WorkerProc initialization failed due to an exception in a background",
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ]
    failure = only(before + passed_on).failure
    assert failure is not None
    assert failure.kind is FailureKind(kind)
    assert failure.message == message.strip()
    for name, value in numbers.items():
        assert getattr(failure, name) == value
    assert not failure.when_serving
    # With nothing else than its end, and not if the server came up all the same.
    alone = only(passed_on[2:]).failure
    assert alone is not None
    assert alone.kind is failure.kind
    assert only(before + passed_on + ["INFO:     Application startup complete."]).failure is None


def test_an_engine_that_dies_while_it_serves() -> None:
    death = [
        "(Worker pid=30) ERROR 01-01 00:01:05 [x.py:1] RuntimeError: shape '[-1, 768]' is invalid",
        "(APIServer pid=10) ERROR 01-01 00:01:06 [async_llm.py:906] vllm.v1.engine.exceptions."
        "EngineDeadError: EngineCore encountered an issue. See stack trace (above)",
    ]
    failure = only(CPU_LOG + death + STOP).failure
    assert failure is not None
    assert (failure.kind, failure.when_serving) == (FailureKind.CRASH, True)
    assert failure.message == "RuntimeError: shape '[-1, 768]' is invalid"
    # A request that is refused kills nothing.
    assert only([*CPU_LOG, death[0]]).failure is None


def test_warnings_are_no_failures() -> None:
    warning = "WARNING 04-09 23:59:00 [x.py:1] ValueError: World size (4) is larger than the number"
    assert only([*cuda_log("0.33.0", Said())[:8], warning]).failure is None


def test_every_start_of_a_server_that_is_restarted() -> None:
    failing = [*cuda_log("0.30.0", Said())[:8], FAILURES[0][0]]
    first, second, last = read_log(failing + failing + cuda_log("0.30.0", Said(tokens=32_768)))
    assert first == second
    assert first.failure is not None
    assert (last.failure, last.kv_tokens) == (None, 32_768)


def test_the_secrets_of_a_log_are_not_repeated() -> None:
    token = "hf_abcdefghijKLMNOP"
    lines = [f"OSError: {token} is not a local folder and is not a valid model identifier"]
    assert token not in repr(only([*cuda_log("0.33.0", Said())[:5], *lines]))
    assert "sk-secret" not in repr(only(cuda_log("0.33.0", Said())))


def test_a_log_that_is_none() -> None:
    for lines in ([], ["hello", ""], ["\x00\x01\xff" * 5000]):
        facts = only(lines)
        assert facts == LaunchFacts()
        assert facts.reached is None


@pytest.mark.parametrize("release", RELEASES)
def test_cut_at_both_ends(release: str) -> None:
    """A part says nothing that the whole does not say."""
    log = cuda_log(release, Said(), 2)
    whole = only(log)
    draw = random.Random(release)
    for _ in range(100):
        first, last = sorted(draw.sample(range(len(log) + 1), 2))
        part = read_log(log[first:last])[-1]
        assert part.kv_tokens in (None, whole.kv_tokens)
        assert part.release in (None, whole.release)
        assert part.kv_cache in (None, whole.kv_cache)
        assert part.failure is None


# All 10,000 take a minute: MUTATED_LOGS=10000 pytest -k mutated.
MUTATED_LOGS = int(os.environ.get("MUTATED_LOGS", "2000"))


def test_mutated_logs() -> None:
    logs = [cuda_log(release, Said(), 2) for release in RELEASES] + [V0_LOG, CPU_LOG + STOP]
    logs += [[*CPU_LOG[:4], message] for message, _, _ in FAILURES]
    texts = ["\n".join(log) for log in logs]
    letters = "0123456789,.-()<>'\"\n\x1b[m\x00é٣ \t:%/"
    draw = random.Random(20261130)
    for _ in range(MUTATED_LOGS):
        text = draw.choice(texts)
        for _ in range(draw.randint(1, 12)):
            at = draw.randrange(len(text))
            match draw.randrange(4):
                case 0:
                    text = text[:at] + draw.choice(letters) + text[at + 1 :]
                case 1:
                    text = text[:at] + draw.choice(letters) * draw.randint(1, 30) + text[at:]
                case 2:
                    text = text[:at] + text[at + draw.randint(1, 80) :] or "x"
                case _:
                    text = text[: at + 1] + text[draw.randrange(len(text)) :]
        reader = LogReader()
        for line in text.split("\n"):
            reader.feed(line)
        facts = reader.facts
        assert isinstance(facts, LaunchFacts)
        shares(facts)
        if facts.failure is not None:
            assert explain(facts.failure).meaning
