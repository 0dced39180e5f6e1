"""config.json to the network it describes: one module per architecture family, one registry.

A family's module has `build(config, scheme) -> Body`: `config` is the whole config.json, `scheme`
the quantization. A new family is a new file and its lines in `_FAMILIES`; encoders that several
families share are in `towers`. Where checkpoints of different ages name their modules differently,
the family's `CHECKPOINT_NAMES` maps the beginnings of paths to those that its module asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final, Protocol

from model_cards.architectures.decoder import Body
from model_cards.config import Config
from model_cards.pooling import base_names
from model_cards.quantization.scheme import QuantScheme


class Family(Protocol):
    """What a family's module offers."""

    def build(self, config: Config, scheme: QuantScheme) -> Body:
        """The network that `config` describes, stored as `scheme` says."""


# vLLM architecture name -> module of this package.
_FAMILIES: Final = {
    "LlamaForCausalLM": "llama",
    "LLaMAForCausalLM": "llama",
    "InternLM3ForCausalLM": "llama",
    "MistralForCausalLM": "llama",
    "Ministral3ForCausalLM": "llama",
    "Phi3ForCausalLM": "phi3",
    "Phi3VForCausalLM": "phi3v",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen2ForRewardModel": "qwen2_reward",
    "Qwen2ForProcessRewardModel": "qwen2_reward",
    "Qwen3ForCausalLM": "qwen3",
    "GemmaForCausalLM": "gemma",
    "Gemma2ForCausalLM": "gemma",
    "Gemma3ForCausalLM": "gemma",
    "Gemma3TextModel": "gemma",
    "Gemma3ForConditionalGeneration": "gemma3_mm",
    "Gemma3nForConditionalGeneration": "gemma3n",
    "MixtralForCausalLM": "mixtral",
    "GraniteMoeForCausalLM": "mixtral",
    "PhiMoEForCausalLM": "phimoe",
    "OlmoeForCausalLM": "olmoe",
    "Ernie4_5_MoeForCausalLM": "ernie_moe",
    "MiMoV2FlashForCausalLM": "mimo_v2",
    "MiniMaxM2ForCausalLM": "minimax_m2",
    "MiniMaxM3SparseForCausalLM": "minimax_m3",
    "MiniMaxM3SparseForConditionalGeneration": "minimax_m3",
    "Llama4ForConditionalGeneration": "llama4",
    "Qwen2MoeForCausalLM": "qwen3_moe",
    "Qwen3MoeForCausalLM": "qwen3_moe",
    "DeepseekForCausalLM": "deepseek",
    "Glm4MoeForCausalLM": "deepseek",
    "Glm4MoeLiteForCausalLM": "deepseek",
    "DeepseekV2ForCausalLM": "deepseek",
    "DeepseekV3ForCausalLM": "deepseek",
    "DeepseekV32ForCausalLM": "deepseek",
    "GlmMoeDsaForCausalLM": "deepseek",
    "Glm5NextForCausalLM": "glm5_next",
    "Glm5NextForConditionalGeneration": "glm5_next",
    "DeepseekV4ForCausalLM": "deepseek_v4",
    "DeepseekV41ForCausalLM": "deepseek_v41",
    "GptOssForCausalLM": "gpt_oss",
    "Gemma4ForConditionalGeneration": "gemma4",
    "KimiK25ForConditionalGeneration": "kimi_k25",
    "KimiK3ForConditionalGeneration": "kimi_k3",
    "KimiLinearForCausalLM": "kimi_linear",
    "MambaForCausalLM": "mamba",
    "FalconMambaForCausalLM": "mamba",
    "Mamba2ForCausalLM": "mamba",
    "JambaForCausalLM": "jamba",
    "NemotronHForCausalLM": "nemotron_h",
    "GraniteMoeHybridForCausalLM": "granite_hybrid",
    "Lfm2ForCausalLM": "lfm2",
    "EagleLlamaForCausalLM": "eagle",
    "Eagle3LlamaForCausalLM": "eagle",
    "LlamaForCausalLMEagle3": "eagle",
    "Eagle3DraftModel": "eagle",
    "Eagle3Speculator": "eagle",
    "PEagleDraftModel": "eagle",
    "PeagleLlamaForCausalLM": "eagle",
    "DFlashDraftModel": "dflash",
    "DSparkDraftModel": "dspark",
    "Qwen3DSparkModel": "dspark",
    "MedusaModel": "medusa",
    "MLPSpeculatorPreTrainedModel": "mlp_speculator",
    "CohereForCausalLM": "cohere",
    "Cohere2ForCausalLM": "cohere",
    "GlmForCausalLM": "transformers_backend",
    "SeedOssForCausalLM": "transformers_backend",
    "SmolLM3ForCausalLM": "transformers_backend",
    "Olmo2ForCausalLM": "olmo2",
    "Olmo3ForCausalLM": "olmo2",
    "Starcoder2ForCausalLM": "starcoder2",
    "PhiForCausalLM": "starcoder2",
    "Glm4ForCausalLM": "glm4",
    "Exaone4ForCausalLM": "exaone4",
    "GraniteForCausalLM": "llama",
    "Ernie4_5ForCausalLM": "llama",
    "FalconForCausalLM": "falcon",
    "GPT2LMHeadModel": "gpt2",
    "OPTForCausalLM": "opt",
    "StableLmForCausalLM": "stablelm",
    "InternLM2ForCausalLM": "internlm2",
    "InternLM2ForRewardModel": "internlm2",
    "MiMoForCausalLM": "mimo",
    "DeciLMForCausalLM": "nemotron_nas",
    "Qwen3NextForCausalLM": "qwen3_next",
    "Qwen2_5_VLForConditionalGeneration": "qwen2_5_vl",
    "Qwen3VLForConditionalGeneration": "qwen3_vl",
    "Qwen3VLMoeForConditionalGeneration": "qwen3_vl",
    "Mistral3ForConditionalGeneration": "mistral3",
    "Qwen3_5ForCausalLM": "qwen3_5",
    "Qwen3_5MoeForCausalLM": "qwen3_5",
    "Qwen3_5ForConditionalGeneration": "qwen3_5",
    "Qwen3_5MoeForConditionalGeneration": "qwen3_5",
    "BertModel": "bert",
    "BertForSequenceClassification": "bert",
    "BertForTokenClassification": "bert",
    "BgeM3EmbeddingModel": "bert",
    "RobertaModel": "bert",
    "RobertaForMaskedLM": "bert",
    "RobertaForSequenceClassification": "bert",
    "RobertaForTokenClassification": "bert",
    "XLMRobertaModel": "bert",
    "XLMRobertaForSequenceClassification": "bert",
    "XLMRobertaForTokenClassification": "bert",
    "WhisperForConditionalGeneration": "whisper",
    "GteModel": "bert_rope",
    "GteNewModel": "bert_rope",
    "GteNewForSequenceClassification": "bert_rope",
    "NomicBertModel": "bert_rope",
    "ModernBertModel": "modernbert",
    "ModernBertForSequenceClassification": "modernbert",
}


def find_family(config: Config) -> Family | None:
    """The family of the first modelled architecture, None if none is modelled.

    Where vLLM makes a class pool that does not, the family is that of the class. A family may
    leave out some configs of its architectures (`describes`).
    """
    for architecture in config.architectures:
        for name in (architecture, *base_names(architecture)):
            if name in _FAMILIES:
                family = import_module(f"model_cards.architectures.{_FAMILIES[name]}")
                return family if getattr(family, "describes", _any)(config) else None
    return None


def _any(config: Config) -> bool:
    return True


def checkpoint_names(family: Family | None) -> Mapping[str, str]:
    """How paths of a checkpoint begin, and how the family's module calls them."""
    names: Mapping[str, str] = getattr(family, "CHECKPOINT_NAMES", {})
    return names
