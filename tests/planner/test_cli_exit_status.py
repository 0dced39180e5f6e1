"""Exit statuses: 0 yes, 1 no, 2 bad usage or input; a no says why in one line on stderr."""

from __future__ import annotations

import pytest
from program import VERSION, Vplan, vplan
from typer.testing import CliRunner

from planner.cli.app import application

COMMANDS = (
    "recommend", "check", "compare", "speculate", "diagnose", "validate", "tui", "gpus", "models",
    "schema",
)  # fmt: skip
YES = [
    ("recommend", "--gpu", "4090", "--limit", "2"),
    ("recommend", "--gpu", "4090", "--limit", "2", "--json"),
    ("recommend", "--gpu", "4090", "--model", "Qwen/Qwen3-8B"),
    ("recommend", "--gpu", "4090", "--model", "qwen/qwen3-8b", "--offline"),
    ("recommend", "--model", "Qwen/Qwen3-8B"),
    ("recommend", "--gpu", "4090", "--why", "openai/gpt-oss-20b"),
    ("compare", "vllm serve Qwen/Qwen3-8B-AWQ", "Qwen/Qwen3-8B-AWQ", "--gpu", "4090"),
    ("gpus",), ("gpus", "4090"), ("gpus", "rtx-40"), ("models", "Qwen3-8B"),
    ("models", "Qwen/Qwen3-8B"), ("schema",), ("schema", "gpus"),
]  # fmt: skip
NO = [
    ("recommend", "--gpu", "2x4090", "--model", "meta-llama/Llama-3.3-70B-Instruct"),
    ("recommend", "--gpu", "2x4090", "--model", "meta-llama/Llama-3.3-70B-Instruct", "--json"),
    ("recommend", "--gpu", "4090", "--model", "Qwen/Qwen3-8B", "--context", "40961"),
    ("recommend", "--gpu", "custom:1GiB@100"),
    ("recommend", "--gpu", "custom:1GiB@100", "--json"),
    ("recommend", "--gpu", "4090", "--model", "Qwen/Qwen3-8B", "--context", "2000000000"),
    ("recommend", "--gpu", "4090", "--free-memory", "1MiB"),
    ("recommend", "--gpu", "v100-sxm2-32gb"),
    ("recommend", "--gpu", "4090", "--why", "meta-llama/Llama-3.3-70B-Instruct"),
    ("recommend", "--gpu", "4090", "--why", "meta-llama/Llama-3.3-70B-Instruct", "--json"),
    ("compare", "Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "--gpu", "4090"),
]  # fmt: skip


@pytest.mark.parametrize("arguments", YES, ids=" ".join)
def test_yes(vplan_here: Vplan, arguments: tuple[str, ...]) -> None:
    run = vplan_here(*arguments)
    assert (run.status, run.err) == (0, "")
    assert run.out


@pytest.mark.parametrize("arguments", NO, ids=" ".join)
def test_no(vplan_here: Vplan, arguments: tuple[str, ...]) -> None:
    run = vplan_here(*arguments)
    assert run.status == 1
    if "--json" in arguments:  # the report says it
        assert run.err == ""
        return
    assert run.err.startswith("vplan: ")
    assert run.err.count("\n") == 1


def test_statuses_of_the_installed_command() -> None:
    """The same three through a real process."""
    yes = vplan("recommend", "--gpu", "4090", "--model", "Qwen/Qwen3-8B")
    no = vplan("recommend", "--gpu", "4090", "--model", "Qwen/Qwen3-8B", "--context", "40961")
    bad = vplan("recommend", "--gpu", "4909")
    assert [run.status for run in (yes, no, bad)] == [0, 1, 2]
    assert [run.err.count("\n") for run in (yes, no, bad)] == [0, 1, 1]
    assert "Traceback" not in yes.err + no.err + bad.err
    assert "vllm serve Qwen/Qwen3-8B" in yes.out


def test_a_no_names_the_reason_and_the_ways_out() -> None:
    run = vplan("recommend", "--gpu", "2x4090", "--model", "meta-llama/Llama-3.3-70B-Instruct")
    assert run.status == 1
    assert "does not fit 2xrtx-4090" in run.err
    assert "What would work:" in run.out
    assert "--gpu 8xrtx-4090" in run.out
    assert "vllm serve" in run.out


def test_a_format_that_is_only_emulated_is_no_promise(vplan_here: Vplan) -> None:
    """ROCm has no NVFP4 kernel; such a model starts there, and nobody knows how fast it is."""
    run = vplan_here("recommend", "--gpu", "mi300x", "--model", "nvidia/Qwen3-8B-NVFP4")
    assert run.status == 0
    assert "only emulates nvfp4" in run.out
    assert "Speed:" not in run.out


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help(command: list[str], flag: str) -> None:
    run = CliRunner().invoke(application(command), [*command, flag], env={"COLUMNS": "80"})
    assert (run.exit_code, run.stderr) == (0, "")
    assert run.stdout.startswith("Usage: ")
    assert "--help" in run.stdout
    assert all(len(line) <= 80 for line in run.stdout.splitlines())


def test_help_names_every_command() -> None:
    run = vplan("--help")
    assert run.status == 0
    for command in COMMANDS:
        assert f"  {command} " in run.out


def test_no_command_shows_the_help_as_a_usage_error() -> None:
    run = vplan()
    assert (run.status, run.out) == (2, "")
    assert run.err == vplan("--help").out


def test_version() -> None:
    run = vplan("--version")
    assert run.status == 0
    assert run.out == f"vplan {VERSION}\n"


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["gpus", "4090"], 0), (["recommend", "--gpu", "custom:1GiB@100"], 1), (["--version"], 0)],
)
def test_statuses_come_from_the_application_itself(arguments: list[str], status: int) -> None:
    run = CliRunner().invoke(application(arguments), arguments, standalone_mode=False)
    assert run.exception is None
    assert (run.return_value or 0) == status
