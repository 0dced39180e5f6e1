"""Rendered commands through vLLM's own parser and config layer, and Ray's own config schema.

benchmarks/accepted_commands.py asks for every rig and every model; here is a part.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from accepted_commands import (
    RELEASE,
    ask,
    asked_of_config,
    asked_of_parser,
    files_of,
    inspect,
    is_lacking,
)
from conftest import RELEASE as INSTALLED
from launch_space import Launch, launches, representatives

from hardware_db import find_rig
from model_cards.sources.bundled import open_bundled
from planner import EngineConfig, plan_memory
from planner.command.exports import export

pytestmark = pytest.mark.vllm

# Of the config layer: families whose classes are quickly inspected, in formats of all kinds.
FAMILIES = (
    "LlamaForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "DeepseekV3ForCausalLM",
    "GptOssForCausalLM", "Gemma2ForCausalLM", "MixtralForCausalLM",
)  # fmt: skip


@pytest.fixture(scope="module")
def every_launch() -> list[Launch]:
    assert RELEASE == INSTALLED
    return list(launches(RELEASE, ("8xh100-sxm", "2x8xh100-sxm", "4090")))


def test_the_parser_takes_every_command(every_launch: list[Launch], tmp_path: Path) -> None:
    asked = asked_of_parser(every_launch, tmp_path)
    assert len(asked) > 600
    asked.append(("wrong", {"arguments": ["a/b", "--swap-space", "4"]}))
    *answers, wrong = ask(sys.executable, asked, tmp_path)
    assert [answer for answer in answers if answer.parser is not None] == []
    assert wrong.parser is not None
    assert "unrecognized arguments: --swap-space" in wrong.parser


def test_the_config_layer_takes_what_is_planned(tmp_path: Path) -> None:
    cards = [card for card in representatives() if card.architecture in FAMILIES]
    found = list(launches(RELEASE, ("8xh100-sxm",), cards))
    plain = [each for each in found if each.speculation in ("none", "replicas")]
    asked = asked_of_config(plain, tmp_path)
    assert len(asked) >= 10
    asked += several_machines(tmp_path)
    asked.append(("wrong", {**asked[0][1], "arguments": [*asked[0][1]["arguments"], "-tp", "7"]}))
    inspect(sys.executable, FAMILIES, tmp_path)
    *answers, wrong = ask(sys.executable, asked, tmp_path)
    refused = [answer for answer in answers if answer.config is not None]
    assert [answer for answer in refused if not is_lacking(answer.config or "")] == []
    assert len(refused) <= len(answers) // 2
    assert wrong.config is not None


def several_machines(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """What each machine of several runs, in the layouts that there are."""
    model, asked = "Qwen/Qwen3-235B-A22B", []
    where = folder / "large"
    where.mkdir()
    (where / "config.json").write_text(json.dumps((files_of(model) or {})["config.json"]))
    gpu = {"name": "NVIDIA H100 80GB HBM3", "capability": [9, 0], "bytes": 80 << 30, "count": 8}
    card = open_bundled(model)
    assert card is not None
    for rig, settings in (
        ("2x8xh100-sxm", {"tensor_parallel_size": 8, "pipeline_parallel_size": 2, "nnodes": 2}),
        ("2x8xh100-sxm", {"tensor_parallel_size": 8, "data_parallel_size": 2, "nnodes": 2}),
        (
            "2x8xh100-sxm",
            {
                "tensor_parallel_size": 4,
                "data_parallel_size": 4,
                "data_parallel_size_local": 2,
                "enable_expert_parallel": True,
            },
        ),
        ("4x8xh100-sxm", {"data_parallel_size": 32, "enable_expert_parallel": True, "nnodes": 4}),
    ):
        plan = plan_memory(card, find_rig(rig), EngineConfig(**settings), vllm=RELEASE)
        text = export(plan, "command").replace("\\\n", "").replace("$HEAD_ADDRESS", "10.0.0.1")
        for line in text.splitlines():
            if line.startswith("vllm serve"):
                words = [str(where), *shlex.split(line)[3:]]
                asked.append((f"{rig}, {settings}", {"arguments": words, "gpu": gpu}))
    assert len(asked) == 10
    return asked


def test_ray_takes_the_config(every_launch: list[Launch]) -> None:
    """Its schema of a deployment, and its keywords of vLLM's engine arguments."""
    pytest.importorskip("ray")
    from ray.llm._internal.serve.core.configs.llm_config import LLMConfig
    from ray.llm._internal.serve.engines.vllm.vllm_models import VLLMEngineConfig
    from ray.serve.schema import ServeDeploySchema

    for launch in every_launch[::7]:
        content = yaml.safe_load(export(launch.memory, "ray"))
        if content.get("kind") == "RayService":
            content = yaml.safe_load(content["spec"]["serveConfigV2"])
        ServeDeploySchema.model_validate(content)
        arguments = content["applications"][0]["args"]
        models = arguments.get("llm_configs") or [arguments["llm_config"]]
        for model in models:
            config = VLLMEngineConfig.from_llm_config(LLMConfig.model_validate(model))
            assert config.get_initialization_kwargs()["model"] == launch.card.model_id
