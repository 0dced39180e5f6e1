"""`--format` and `-o`: a plan to deploy, on standard output or in a file that was not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from program import Vplan

from planner.command.exports import FORMATS

MODEL = ("recommend", "--gpu", "4090", "--model", "Qwen/Qwen3-8B", "--context", "8192")


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_printed_alone(format: str, vplan_here: Vplan) -> None:
    run = vplan_here(*MODEL, "--format", format)
    assert (run.status, run.err) == (0, "")
    assert "8192" in run.out
    first = run.out.splitlines()[0]
    if format == "command":
        assert first == "vllm serve Qwen/Qwen3-8B \\"
    else:
        assert first.startswith("# Qwen/Qwen3-8B on NVIDIA GeForce RTX 4090")


def test_json_is_what_the_option_of_that_name_prints(vplan_here: Vplan) -> None:
    assert json.loads(vplan_here(*MODEL, "--format", "json").out) == json.loads(
        vplan_here(*MODEL, "--json").out
    )


def test_a_file_is_written_and_never_over_another(vplan_here: Vplan, tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    asked = (*MODEL, "--format", "compose", "-o", str(file))
    run = vplan_here(*asked)
    assert (run.status, run.out) == (0, f"Written: {file}\n")
    assert "vllm" in yaml.safe_load(file.read_text())["services"]
    file.write_text("mine")
    refused = vplan_here(*asked)
    assert (refused.status, refused.out) == (2, "")
    assert "exists; --force overwrites it" in refused.err
    assert file.read_text() == "mine"
    assert vplan_here(*asked, "--force").status == 0
    assert "services" in file.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["compose.yaml"]


def test_a_file_alone_holds_the_command_and_json_goes_to_one_too(
    vplan_here: Vplan, tmp_path: Path
) -> None:
    script, report = tmp_path / "serve.sh", tmp_path / "plan.json"
    assert vplan_here(*MODEL, "-o", str(script)).status == 0
    assert script.read_text().startswith("vllm serve Qwen/Qwen3-8B")
    run = vplan_here(*MODEL, "--json", "-o", str(report))
    assert run.out == f"Written: {report}\n"
    assert json.loads(report.read_text())["fits"] is True


def test_the_best_of_a_ranking_is_what_is_put_out(vplan_here: Vplan) -> None:
    best = json.loads(vplan_here("recommend", "--gpu", "4090", "--json").out)["choices"][0]
    run = vplan_here("recommend", "--gpu", "4090", "--format", "yaml")
    assert yaml.safe_load(run.out)["model"] == best["plan"]["model"]["id"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--format", "helm"), "unknown format 'helm': one of command, yaml"),
        (("--format", "docker", "--json"), "--json and --format docker ask for two things"),
        (("--force",), "--force is about the file of -o"),
        (("--format", "yaml", "-o", "/dev/null/x.yaml"), "cannot write /dev/null/x.yaml: Not a"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be(options: tuple[str, ...], message: str, vplan_here: Vplan) -> None:
    run = vplan_here(*MODEL, *options)
    assert (run.status, run.out) == (2, "")
    assert message in run.err


def test_without_hardware_there_is_no_launch_to_write(vplan_here: Vplan) -> None:
    run = vplan_here("recommend", "--model", "Qwen/Qwen3-8B", "--format", "docker")
    assert run.status == 2
    assert "give it, --gpu" in run.err


def test_what_does_not_fit_is_said_as_ever(vplan_here: Vplan, tmp_path: Path) -> None:
    file = tmp_path / "none.yaml"
    run = vplan_here("recommend", "--gpu", "3060", "--model", "meta-llama/Llama-3.3-70B-Instruct",
                     "--format", "yaml", "-o", str(file))  # fmt: skip
    assert run.status == 1
    assert "does not fit" in run.err
    assert not file.exists()
