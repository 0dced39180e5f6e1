"""Record what vLLM's own classes of Medusa and MLP speculators allocate, for test_draft_heads.py.

    python tests/planner/record_draft_heads.py FOLDER > tests/data/draft_heads.jsonl

Run where vLLM 0.32.0 (a CPU build will do) is installed; nothing is loaded: the classes build their
parameters on torch's meta device, with the tensor-parallel size that they ask for replaced. FOLDER
has the class of MLP speculators as vLLM 0.9.2 has it, the last release that runs them
(`mlp_speculator.py`); of what that imports, the sampler alone is gone in 0.32.0 and left out.
"""

from __future__ import annotations

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import torch
import vllm.model_executor
import vllm.model_executor.layers.vocab_parallel_embedding as vocabulary
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.model_loader.utils import initialize_model
from vllm.transformers_utils.configs.mlp_speculator import MLPSpeculatorConfig

MEDUSA = "abhigoyal/vllm-medusa-llama-68m-random"
FIRST_VERSION = "FasterDecoding/medusa-vicuna-7b-v1.3"
SPECULATOR = "example/mlp_speculator-llama-13b-width4096"
CATALOGUE = Path(__file__).parents[2] / "model_cards" / "data" / "catalogue.jsonl"
SMALL = {"emb_dim": 768, "inner_dim": 512, "vocab_size": 32001}
# model, hidden size and vocabulary of the target, keys over those of the model's config, tokens.
CASES: list[tuple[str, int, int, dict[str, Any], int]] = [
    (MEDUSA, 768, 32000, {}, 5),
    (MEDUSA, 768, 32000, {}, 3),
    (MEDUSA, 768, 32000, {}, 1),
    (MEDUSA, 768, 32000, {"medusa_fc_bias": True, "num_hidden_layers": 2}, 4),
    (MEDUSA, 768, 32000, {"original_lm_head": True}, 5),
    (MEDUSA, 768, 32000, {"original_lm_head": True, "truncated_vocab_size": 1000}, 5),
    (MEDUSA, 768, 32001, {}, 2),
    (FIRST_VERSION, 4096, 32000, {}, 2),
    (FIRST_VERSION, 4096, 32000, {}, 5),
    (SPECULATOR, 5120, 32000, {}, 3),
    (SPECULATOR, 5120, 32000, {}, 1),
    (SPECULATOR, 768, 32001, {**SMALL, "scale_input": True}, 2),
    (SPECULATOR, 768, 32001, {**SMALL, "tie_weights": True}, 3),
    (SPECULATOR, 768, 32001, {**SMALL, "tie_weights": True}, 1),
    (SPECULATOR, 768, 32001, {**SMALL, "tie_weights": True}, 6),
    (SPECULATOR, 768, 32001, {**SMALL, "inner_dim": 0}, 3),
]
RANKS = (1, 2, 4)
PARALLEL = "get_tensor_model_parallel"


def configs() -> dict[str, dict[str, Any]]:
    rows = (json.loads(line) for line in CATALOGUE.read_text().splitlines())
    return {row["id"]: row["config"] for row in rows if "config" in row}


def written(folder: Path, values: dict[str, Any]) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(values))
    return str(folder)


def medusa(values: dict[str, Any], hidden: int, rows: int, tokens: int) -> torch.nn.Module:
    target = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": 128,
        "num_attention_heads": hidden // 64,
        "num_hidden_layers": 1,
        "vocab_size": rows,
    }
    with TemporaryDirectory() as folder:
        model = written(Path(folder) / "target", target)
        draft = written(Path(folder) / "draft", values)
        config = EngineArgs(
            model=model,
            skip_tokenizer_init=True,
            dtype="bfloat16",
            speculative_config={
                "method": "medusa",
                "model": draft,
                "num_speculative_tokens": tokens,
            },
        ).create_engine_config()
        with set_current_vllm_config(config):
            return initialize_model(
                vllm_config=config, model_config=config.speculative_config.draft_model_config
            )


def mlp_speculator(values: dict[str, Any], tokens: int, path: Path) -> torch.nn.Module:
    sampler: Any = ModuleType("vllm.model_executor.layers.sampler")
    sampler.SamplerOutput = object
    sampler.get_sampler = torch.nn.Identity
    sys.modules[sampler.__name__] = sampler
    vllm.model_executor.SamplingMetadata = object
    spec = spec_from_file_location("mlp_speculator", path / "mlp_speculator.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    config = MLPSpeculatorConfig(**values)
    config.num_lookahead_tokens = tokens  # as vLLM's SpeculativeConfig does
    of_model = SimpleNamespace(hf_config=config)
    with set_current_vllm_config(VllmConfig()):
        built: torch.nn.Module = module.MLPSpeculator(
            vllm_config=SimpleNamespace(model_config=of_model)
        )
    return built


def held(model: torch.nn.Module) -> int:
    tensors = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def main() -> None:
    known, folder = configs(), Path(sys.argv[1])
    for model, hidden, rows, over, tokens in CASES:
        for ranks in RANKS:
            values = {**known[model], **over}
            torch.set_default_dtype(torch.bfloat16)
            with (
                mock.patch.object(vocabulary, f"{PARALLEL}_world_size", return_value=ranks),
                mock.patch.object(vocabulary, f"{PARALLEL}_rank", return_value=0),
                torch.device("meta"),
            ):
                if model == SPECULATOR:
                    built = mlp_speculator(values, tokens, folder)
                else:
                    built = medusa(values, hidden, rows, tokens)
            row = {
                "model": model,
                "over": over,
                "target": {"hidden_size": hidden, "vocab_size": rows},
                "tokens": tokens,
                "ranks": ranks,
                "bytes": held(built),
            }
            print(json.dumps(row))


if __name__ == "__main__":
    main()
