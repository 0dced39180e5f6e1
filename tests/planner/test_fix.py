"""`vplan check --fix`: a corrected command that starts, and what it has otherwise.

Whatever it says is read again and judged like any other command.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml
from program import Vplan

from hardware_db import find_rig
from planner.command.parse import read_command
from planner.diagnosis.check import check_command
from planner.diagnosis.fix import Fixed, fix_command
from planner.findings import Severity
from planner.memory.verdict import Answer


def fixed(text: str, gpu: str = "4090", release: str = "0.33.0") -> Fixed:
    return fix_command(read_command([text], release), find_rig(gpu), offline=True)


# command, GPU, release, the corrected command after "vllm serve MODEL"
CASES = [
    ("vllm serve Qwen/Qwen3-8B --swap-space 4 --max-model-len 8192", "4090", "0.33.0",
     "--max-model-len 8192"),
    ("vllm serve Qwen/Qwen3-8B --max-model 8192", "4090", "0.33.0", "--max-model-len 8192"),
    ("vllm serve Qwen/Qwen3-8B --max-model-len 8192 --enforce-eager", "4090", "0.33.0",
     "--max-model-len 8192"),
    ("vllm serve Qwen/Qwen3-0.6B --max-model-len 4096 --dtype bfloat16", "t4", "0.33.0",
     "--max-model-len 4096 --dtype half"),
    ("vllm serve Qwen/Qwen3-8B --max-model-len 99999", "h100-sxm", "0.33.0",
     "--max-model-len 40960"),
    ("vllm serve Qwen/Qwen3-8B -tp 8 --max-model-len 8192", "2x4090", "0.33.0",
     "--tensor-parallel-size 2 --max-model-len 8192"),
    # GPUs that idle are used before anything is given up.
    ("vllm serve Qwen/Qwen2.5-72B-Instruct --max-model-len 8192", "8xh100-sxm", "0.33.0",
     "--max-model-len 8192 --tensor-parallel-size 4"),
    # Several machines, of which vLLM has to be told.
    ("vllm serve Qwen/Qwen3-8B -dp 16", "2x8xh100-sxm", "0.33.0",
     "--data-parallel-size 16 --nnodes 2"),
    ("vllm serve Qwen/Qwen3-8B -tp 4 -dp 4", "2x8xh100-sxm", "0.10.2",
     "--tensor-parallel-size 4 --data-parallel-size 4 --data-parallel-size-local 2"),
    ("vllm serve Qwen/Qwen3-32B -tp 8 -pp 2", "2x8xh100-sxm", "0.10.2",
     "--tensor-parallel-size 8 --pipeline-parallel-size 2 --distributed-executor-backend ray"),
    ("vllm serve Qwen/Qwen3-0.6B --task embed --max-model-len 4096", "4090", "0.33.0",
     "--runner pooling --convert embed --max-model-len 4096"),
    ("vllm serve Qwen/Qwen3-0.6B --eplb-window-size 5 --eplb-config '{\"step_interval\": 7}' "
     "--max-model-len 4096", "4090", "0.33.0",
     "--eplb-config '{\"step_interval\": 7, \"window_size\": 5}' --max-model-len 4096"),
    ("vllm serve Qwen/Qwen3-0.6B --max-model-len 4096 --speculative-model '[ngram]' "
     "--num-speculative-tokens 4 --ngram-prompt-lookup-max 4", "4090", "0.33.0",
     "--max-model-len 4096 --speculative-config "
     "'{\"model\": \"[ngram]\", \"num_speculative_tokens\": 4, \"prompt_lookup_max\": 4}'"),
    ("vllm serve Qwen/Qwen3-0.6B --max-model-len 4096 --max-num-seqs 6 "
     "--max-cudagraph-capture-size 6 --speculative-config "
     "'{\"method\": \"ngram\", \"num_speculative_tokens\": 3}'", "4090", "0.33.0",
     "--max-model-len 4096 --max-num-seqs 6 --max-cudagraph-capture-size 24 --speculative-config "
     "'{\"method\": \"ngram\", \"num_speculative_tokens\": 3}'"),
    ("vllm serve Qwen/Qwen3-0.6B --max-model-len 4096 --speculative-config "
     "'{\"method\": \"ngram\", \"num_speculative_tokens\": 3, \"disable_by_batch_size\": 8}'",
     "4090", "0.33.0", "--max-model-len 4096 --speculative-config "
     "'{\"method\": \"ngram\", \"num_speculative_tokens\": 3}'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "gpu", "release", "words"), CASES, ids=[c[0] for c in CASES])
def test_the_corrected_command(text: str, gpu: str, release: str, words: str) -> None:
    result = fixed(text, gpu, release)
    assert result.command.argv[3:] == shlex.split(words)
    assert result.mended
    assert result.changes
    again = fixed(shlex.join(result.command.argv), gpu, release)
    assert [change for change in again.changes if "--tensor" not in change.what] == []
    assert again.command.argv == result.command.argv


def test_other_spellings_are_no_mistakes() -> None:
    result = fixed("vllm serve Qwen/Qwen3-8B -tp 2 --max_model_len=32k", "2x4090")
    assert result.command.argv[3:] == ["--tensor-parallel-size", "2", "--max-model-len", "32k"]
    assert result.mended
    assert result.changes == ()


def test_what_does_not_fit_gets_the_first_remedy() -> None:
    text = "vllm serve Qwen/Qwen3-14B --served-model-name q --max-model-len 40960"
    command = read_command([text], "0.33.0")
    before = check_command(command, find_rig("4090"), offline=True)
    assert before.answer is not Answer.YES
    result = fix_command(command, find_rig("4090"), offline=True)
    assert result.mended
    assert "--served-model-name" in result.command.argv  # what no plan knows is kept
    assert before.remedies[0].change.split()[0] in " ".join(c.what for c in result.changes)


def test_what_no_remedy_mends_is_said() -> None:
    result = fixed("vllm serve meta-llama/Llama-3.3-70B-Instruct --swap-space 4", "3060")
    assert not result.mended
    assert result.changes[0].what == "--swap-space 4: left out"


def test_a_checkpoint_of_its_own_is_not_swapped_without_a_word() -> None:
    result = fixed("vllm serve meta-llama/Llama-3.3-70B-Instruct --max-model-len 8192", "2x4090")
    if result.command.model != "meta-llama/Llama-3.3-70B-Instruct":
        assert any(" -> " + result.command.model in change.what for change in result.changes)


def test_unknown_variables_go_and_others_stay() -> None:
    result = fixed(
        "VLLM_USE_V1=1 VLLM_LOGGING_LEVEL=DEBUG NCCL_DEBUG=INFO vllm serve Qwen/Qwen3-0.6B"
    )
    assert dict(result.environ) == {"VLLM_LOGGING_LEVEL": "DEBUG", "NCCL_DEBUG": "INFO"}
    assert result.changes[0].what == "VLLM_USE_V1: left out"


OLD = "--speculative-model meta-llama/Llama-3.2-1B --num-speculative-tokens 5 --swap-space 4"
CHECK = ("check", "--gpu", "4090", "--offline", "--fix")


def test_the_command_line(vplan_here: Vplan) -> None:
    run = vplan_here(*CHECK, "--", "vllm", "serve", "Qwen/Qwen3-0.6B", "--max-model-len", "4096",
                     "--swap-space", "4", "--api-key", "sk-secret")  # fmt: skip
    assert (run.status, run.err) == (0, "")
    command, _, rest = run.out.partition("\n\n")
    assert shlex.split(command.replace("\\\n", "")) == [
        "vllm", "serve", "Qwen/Qwen3-0.6B", "--max-model-len", "4096",
    ]  # fmt: skip
    assert "--swap-space 4: left out" in rest
    assert "it went with 0.18.0" in " ".join(rest.split())
    assert "set VLLM_API_KEY" in " ".join(rest.split())
    assert "sk-secret" not in run.out


def test_formats_of_the_corrected_command(vplan_here: Vplan, tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    text = (
        "HF_TOKEN=hf_secret VLLM_LOGGING_LEVEL=DEBUG vllm serve Qwen/Qwen3-0.6B --swap-space 4 "
        "--max-model-len 4096 --served-model-name a b --port 9000"
    )
    run = vplan_here(*CHECK, "--format", "compose", "-o", str(file), "--", text)
    assert run.status == 0
    assert "--swap-space 4: left out" in run.out
    service = yaml.safe_load(file.read_text())["services"]["vllm"]
    assert service["command"] == [
        "Qwen/Qwen3-0.6B", "--max-model-len", "4096", "--served-model-name", "a", "b", "--port",
        "9000",
    ]  # fmt: skip
    assert service["ports"] == ["127.0.0.1:9000:9000"]
    assert service["environment"]["VLLM_LOGGING_LEVEL"] == "DEBUG"
    assert "hf_secret" not in file.read_text() + run.out + run.err
    printed = vplan_here(*CHECK, "--format", "yaml", "--", text)
    assert yaml.safe_load(printed.out)["served-model-name"] == ["a", "b"]


def test_json_holds_the_command_and_the_changes(vplan_here: Vplan) -> None:
    run = vplan_here(*CHECK, "--json", "--", f"vllm serve Qwen/Qwen3-0.6B {OLD}")
    report = json.loads(run.out)
    assert report["fixed"]["command"][:3] == ["vllm", "serve", "Qwen/Qwen3-0.6B"]
    assert any("--swap-space" in change["what"] for change in report["fixed"]["changes"])
    assert all(change["why"] for change in report["fixed"]["changes"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--format", "yaml"), "are about the command that --fix makes"),
        (("-o", "x"), "are about the command that --fix makes"),
        (("--fix", "--format", "helm"), "unknown format 'helm'"),
        (("--fix", "--beside", "vllm serve a/b"), "leave --beside out"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be(options: tuple[str, ...], message: str, vplan_here: Vplan) -> None:
    run = vplan_here("check", "--gpu", "4090", "--offline", *options, "--",
                     "vllm serve Qwen/Qwen3-0.6B")  # fmt: skip
    assert (run.status, run.out) == (2, "")
    assert message in run.err


def test_every_error_of_a_written_option_goes() -> None:
    """A command with one of each."""
    result = fixed(
        "vllm serve Qwen/Qwen3-0.6B stray --max-model-len 4k --device cuda --kv-cache-dtype fp9 "
        "--block-size abc --max-modell-len 3 --max-num 3 --swap-space 2 --compilation-config "
        "'{\"level\": 3}' --max-num-seqs",
        release="0.32.0",
    )
    errors = [f for f in result.check.findings if f.severity is Severity.ERROR]
    assert errors == []
    assert result.mended
