"""Rendered commands through vLLM's own parser and config layer, and Ray's own config schema.

benchmarks/accepted_commands.py asks for every rig and every model; here is a part.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml
from accepted_commands import RELEASE, ask, asked_of_config, asked_of_parser, inspect, is_lacking
from conftest import RELEASE as INSTALLED
from launch_space import Launch, launches, representatives

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
    asked = asked_of_config([each for each in found if each.speculation == "none"], tmp_path)
    assert len(asked) >= 10
    asked.append(("wrong", {**asked[0][1], "arguments": [*asked[0][1]["arguments"], "-tp", "7"]}))
    inspect(sys.executable, FAMILIES, tmp_path)
    *answers, wrong = ask(sys.executable, asked, tmp_path)
    refused = [answer for answer in answers if answer.config is not None]
    assert [answer for answer in refused if not is_lacking(answer.config or "")] == []
    assert len(refused) <= len(answers) // 2
    assert wrong.config is not None


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
