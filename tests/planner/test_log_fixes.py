"""Fixes of a failed launch from its log, tried through the planner."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from program import Vplan

from hardware_db import find_rig
from planner.errors import PlanError
from planner.launch.fixes import fixes
from planner.launch.log import read_log
from planner.launch.log_arguments import option_words
from planner.memory.verdict import Answer

STARTED = (
    "(APIServer pid=10) INFO 01-01 00:00:01 [api_utils.py:286] non-default args: {'model_tag': "
    "'Qwen/Qwen3-8B', 'model': 'Qwen/Qwen3-8B', 'api_key': ['sk-secret'], 'max_model_len': 40960, "
    "'max_num_seqs': 64, 'port': 9000}\n"
    "(EngineCore pid=11) INFO 01-01 00:00:05 [core.py:1] Initializing a V1 LLM engine (v0.33.0) "
    "with config: model='Qwen/Qwen3-8B', max_seq_len=40960, tensor_parallel_size=1,\n"
)
KV_ROOM = (
    "ValueError: To serve at least one request with the model's max seq len (40960), (5.62 GiB KV "
    "cache is needed, which is larger than the available KV cache memory (2.10 GiB). Based on the "
    "available memory, the estimated maximum model length is 15264.\n"
)
FREE_MEMORY = (
    "ValueError: Free memory on device cuda:0 (17.50/23.63 GiB) on startup is less than desired "
    "GPU memory utilization (0.92, 21.74 GiB). Decrease GPU memory utilization.\n"
)
OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 23.63 GiB of which 512.00 MiB is free.\n"
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{'max_model_len': 4096, 'enforce_eager': True}", "--max-model-len 4096 --enforce-eager"),
        ("{'enable_prefix_caching': False}", "--no-enable-prefix-caching"),
        ("{'model': 'm', 'host': '::', 'port': 1, 'dtype': None}", ""),
        ("{'api_key': ['sk'], 'hf_token': 'hf_x', 'seed': 1}", "--seed 1"),
        ("{'cudagraph_capture_sizes': [1, 2]}", "--cudagraph-capture-sizes 1 2"),
        ("{'dtype': <class 'x'>}", ""),
        ("{'max_model_len': 40", ""),
        ("[]", ""),
    ],
)
def test_options_as_words(text: str, words: str) -> None:
    assert " ".join(option_words(text)) == words


def test_values_that_are_settings_themselves() -> None:
    name, value = option_words("{'speculative_config': {'method': 'ngram', 'k': 3}}")
    assert name == "--speculative-config"
    assert json.loads(value) == {"method": "ngram", "k": 3}


def test_the_plan_comes_out_as_the_launch_did() -> None:
    """Its estimated length is vLLM's, and what it finds too small fits by vLLM's figure."""
    found = fixes(read_log((STARTED + KV_ROOM).splitlines())[0], find_rig("4090"))
    memory = found.check.memory
    assert memory is not None
    assert memory.kv_cache.longest_len == 15264
    assert memory.tightest.kv_cache.value / 2**30 == pytest.approx(2.10, abs=0.005)
    assert memory.config.max_num_seqs == 64
    (length,) = [each for each in found.remedies if each.change.startswith("--max-model-len")]
    assert 13000 < length.memory.kv_cache.max_model_len <= 15264
    assert all(each.memory.starts.answer is Answer.YES for each in found.remedies)


def test_less_free_memory_than_asked_for() -> None:
    found = fixes(read_log((STARTED + FREE_MEMORY).splitlines())[0], find_rig("4090"))
    assert found.check.answer is Answer.NO
    assert found.check.memory is not None
    assert found.check.memory.start.free.value / 2**30 == pytest.approx(17.5, abs=0.01)


def test_out_of_memory_means_that_more_is_needed() -> None:
    rig = find_rig("4090")
    found = fixes(read_log((STARTED + OUT_OF_MEMORY).splitlines())[0], rig)
    memory = found.check.memory
    assert memory is not None
    assert memory.tightest.non_torch.value > 1.5 * 2**30


def test_what_cannot_be_tried() -> None:
    rig = find_rig("4090")
    for log in (
        KV_ROOM,  # no model
        STARTED + "vllm: error: unrecognized arguments: --x 3",
    ):
        with pytest.raises(PlanError):
            fixes(read_log(log.splitlines())[0], rig)


def test_the_command(vplan_here: Vplan, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(STARTED + KV_ROOM)
    run = vplan_here("diagnose", str(log), "--gpu", "4090")
    assert run.status == 4
    assert "by the plan that the log corrects" in " ".join(run.out.split())
    assert "- --max-model-len 1" in run.out
    assert "sk-secret" not in run.out
    printed = json.loads(vplan_here("diagnose", str(log), "--gpu", "4090", "--json").out)
    assert printed["remedies"][0]["change"].startswith("--max-model-len")
    assert "give the hardware of the launch, --gpu" in vplan_here("diagnose", str(log)).out
    assert vplan_here("diagnose", str(log), "--gpu", "no-such-gpu").status == 2
