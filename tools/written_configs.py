"""Configs of pooled and speech models that no copy was at hand of, for tools/build_cards.py.

Written from what their publishers state (model pages, papers) and what transformers' classes
default to. Where a published total of parameters is known, the tests check it against the card.
"""

from __future__ import annotations

from typing import Any

SOURCE = "written from the model's published description; not a copy of its config.json"

_BERT = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "position_embedding_type": "absolute",
    "type_vocab_size": 2,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
}
_XLM_ROBERTA = {
    "architectures": ["XLMRobertaModel"],
    "model_type": "xlm-roberta",
    "position_embedding_type": "absolute",
    "type_vocab_size": 1,
    "vocab_size": 250002,
    "torch_dtype": "float32",
}
_MODERNBERT = {
    "architectures": ["ModernBertModel"],
    "model_type": "modernbert",
    "attention_bias": False,
    "classifier_bias": False,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0,
    "hidden_size": 768,
    "intermediate_size": 1152,
    "local_attention": 128,
    "local_rope_theta": 10000.0,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "norm_bias": False,
    "num_attention_heads": 12,
    "num_hidden_layers": 22,
    "position_embedding_type": "absolute",
    "vocab_size": 50368,
}
_GTE = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "max_position_embeddings": 8192,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "position_embedding_type": "rope",
    "type_vocab_size": 1,
    "vocab_size": 250048,
}
_QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "attention_bias": False,
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "num_key_value_heads": 8,
    "rope_theta": 1000000,
    "sliding_window": None,
    "torch_dtype": "bfloat16",
    "use_sliding_window": False,
}
_QWEN2_5_MATH = {
    "model_type": "qwen2",
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_sliding_window": False,
    "vocab_size": 152064,
}
_WHISPER = {
    "architectures": ["WhisperForConditionalGeneration"],
    "model_type": "whisper",
    "is_encoder_decoder": True,
    "max_source_positions": 1500,
    "max_target_positions": 448,
}


def _size(hidden: int, inner: int, heads: int, layers: int) -> dict[str, int]:
    return {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
    }


def _whisper(width: int, heads: int, layers: tuple[int, int], mel: int) -> dict[str, int]:
    encoder, decoder = layers
    return {
        "d_model": width,
        "encoder_layers": encoder,
        "encoder_attention_heads": heads,
        "encoder_ffn_dim": 4 * width,
        "decoder_layers": decoder,
        "decoder_attention_heads": heads,
        "decoder_ffn_dim": 4 * width,
        "num_hidden_layers": encoder,
        "num_mel_bins": mel,
    }


def _row(
    model_id: str,
    license: str,
    config: dict[str, Any],
    method: str | None = None,
    length: int | None = None,
    tokenizer: int | None = None,
    projections: list[tuple[int, int, bool]] | None = None,
) -> dict[str, Any]:
    """One model: `method` and `length` from Sentence Transformers' files, `tokenizer` its limit.

    `projections` are its dense layers: inputs, outputs, whether they have a bias.
    """
    pooling = {
        "method": method,
        "max_seq_length": length,
        "model_max_length": tokenizer,
        "projections": projections,
    }
    row = {
        "id": model_id,
        "kind": "target",
        "config": config,
        "license": license,
        "reconstructed": True,
        "source": SOURCE,
        "pooling": {key: value for key, value in pooling.items() if value is not None},
    }
    if not row["pooling"]:
        del row["pooling"]
    return row


_LARGE, _BASE = _size(1024, 4096, 16, 24), _size(768, 3072, 12, 12)
_MINI = _size(384, 1536, 12, 6)
_ONE = {"num_labels": 1}
_SCORED = {"architectures": ["XLMRobertaForSequenceClassification"], **_ONE}
_QWEN3_SMALL = {**_QWEN3, **_size(1024, 3072, 16, 28), "tie_word_embeddings": True}
_QWEN3_8B = {**_QWEN3, **_size(4096, 12288, 32, 36), "tie_word_embeddings": False}

WRITTEN: list[dict[str, Any]] = [
    _row("BAAI/bge-large-en-v1.5", "mit",
         {**_BERT, **_LARGE, "torch_dtype": "float32"}, "CLS", 512, 512),
    _row("BAAI/bge-base-en-v1.5", "mit",
         {**_BERT, **_BASE, "torch_dtype": "float32"}, "CLS", 512, 512),
    _row("sentence-transformers/all-MiniLM-L6-v2", "apache-2.0",
         {**_BERT, **_MINI}, "MEAN", 256, 512),
    _row("cross-encoder/ms-marco-MiniLM-L6-v2", "apache-2.0",
         {**_BERT, **_MINI, **_ONE, "architectures": ["BertForSequenceClassification"],
          "torch_dtype": "float32"}, tokenizer=512),
    _row("BAAI/bge-m3", "mit",
         {**_XLM_ROBERTA, **_LARGE, "max_position_embeddings": 8194}, "CLS", 8192, 8192),
    _row("intfloat/multilingual-e5-large", "mit",
         {**_XLM_ROBERTA, **_LARGE, "max_position_embeddings": 514}, "MEAN", 512, 512),
    _row("intfloat/multilingual-e5-base", "mit",
         {**_XLM_ROBERTA, **_BASE, "max_position_embeddings": 514}, "MEAN", 512, 512),
    _row("BAAI/bge-reranker-v2-m3", "apache-2.0",
         {**_XLM_ROBERTA, **_LARGE, **_SCORED, "max_position_embeddings": 8194}, tokenizer=8192),
    _row("BAAI/bge-reranker-large", "mit",
         {**_XLM_ROBERTA, **_LARGE, **_SCORED, "max_position_embeddings": 514}, tokenizer=512),
    _row("sentence-transformers/all-roberta-large-v1", "apache-2.0",
         {**_XLM_ROBERTA, **_LARGE, "architectures": ["RobertaForMaskedLM"],
          "model_type": "roberta", "vocab_size": 50265, "max_position_embeddings": 514},
         "MEAN", 256, 512),
    _row("answerdotai/ModernBERT-base", "apache-2.0",
         {**_MODERNBERT, "architectures": ["ModernBertForMaskedLM"], "torch_dtype": "float32",
          "tie_word_embeddings": True}, tokenizer=8192) | {"parameters": 149655232},
    _row("Alibaba-NLP/gte-modernbert-base", "apache-2.0",
         {**_MODERNBERT, "torch_dtype": "float16"}, "CLS", 8192, 8192),
    _row("Alibaba-NLP/gte-reranker-modernbert-base", "apache-2.0",
         {**_MODERNBERT, **_ONE, "architectures": ["ModernBertForSequenceClassification"],
          "torch_dtype": "float16"}, tokenizer=8192),
    _row("Alibaba-NLP/gte-multilingual-base", "apache-2.0",
         {**_GTE, "architectures": ["NewModel"], "model_type": "new",
          "rope_scaling": {"factor": 8.0, "type": "ntk"}, "rope_theta": 20000,
          "torch_dtype": "float16"}, "CLS", 8192) | {"parameters": 305368320},
    _row("Snowflake/snowflake-arctic-embed-m-v2.0", "apache-2.0",
         {**_GTE, "architectures": ["GteModel"], "model_type": "gte", "rope_theta": 160000,
          "torch_dtype": "float32"}, "CLS", 8192),
    _row("nomic-ai/nomic-embed-text-v1.5", "apache-2.0",
         {"architectures": ["NomicBertModel"], "model_type": "nomic_bert",
          "activation_function": "swiglu", "mlp_fc1_bias": False, "mlp_fc2_bias": False,
          "n_embd": 768, "n_head": 12, "n_inner": 3072, "n_layer": 12, "n_positions": 8192,
          "qkv_proj_bias": False, "rotary_emb_base": 1000, "torch_dtype": "float32",
          "type_vocab_size": 2, "vocab_size": 30528}, "MEAN", 8192),
    _row("google/embeddinggemma-300m", "gemma",
         {**_size(768, 1152, 3, 24), "architectures": ["Gemma3TextModel"],
          "model_type": "gemma3_text", "head_dim": 256, "max_position_embeddings": 2048,
          "num_key_value_heads": 1, "rope_local_base_freq": 10000.0, "rope_theta": 1000000.0,
          "sliding_window": 512, "sliding_window_pattern": 6, "torch_dtype": "float32",
          "use_bidirectional_attention": True, "vocab_size": 262144}, "MEAN", 2048,
         projections=[(768, 3072, False), (3072, 768, False)]),
    _row("Qwen/Qwen3-Reranker-0.6B", "apache-2.0", {**_QWEN3_SMALL, "vocab_size": 151669}),
    _row("tomaarsen/Qwen3-Reranker-0.6B-seq-cls", "apache-2.0",
         {**_QWEN3_SMALL, **_ONE, "vocab_size": 151669,
          "architectures": ["Qwen3ForSequenceClassification"]}),
    _row("Skywork/Skywork-Reward-V2-Qwen3-8B", "apache-2.0",
         {**_QWEN3_8B, **_ONE, "vocab_size": 151936,
          "architectures": ["Qwen3ForSequenceClassification"]}),
    _row("Skywork/Skywork-Reward-Llama-3.1-8B-v0.2", "skywork",
         {**_size(4096, 14336, 32, 32), **_ONE,
          "architectures": ["LlamaForSequenceClassification"], "model_type": "llama",
          "max_position_embeddings": 131072, "num_key_value_heads": 8, "rope_theta": 500000.0,
          "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                           "original_max_position_embeddings": 8192, "rope_type": "llama3"},
          "tie_word_embeddings": False, "torch_dtype": "bfloat16", "vocab_size": 128256}),
    _row("intfloat/e5-mistral-7b-instruct", "mit",
         {**_size(4096, 14336, 32, 32), "architectures": ["MistralModel"],
          "model_type": "mistral", "max_position_embeddings": 32768, "num_key_value_heads": 8,
          "rope_theta": 10000.0, "sliding_window": 4096, "tie_word_embeddings": False,
          "torch_dtype": "float16", "vocab_size": 32000}, "LAST", 4096),
    _row("Qwen/Qwen2.5-Math-PRM-7B", "other",
         {**_QWEN2_5_MATH, **_size(3584, 18944, 28, 28), "num_key_value_heads": 4,
          "architectures": ["Qwen2ForProcessRewardModel"]}),
    _row("Qwen/Qwen2.5-Math-RM-72B", "other",
         {**_QWEN2_5_MATH, **_size(8192, 29568, 64, 80), "num_key_value_heads": 8,
          "architectures": ["Qwen2ForRewardModel"]}),
    _row("openai/whisper-small", "apache-2.0",
         {**_WHISPER, **_whisper(768, 12, (12, 12), 80), "torch_dtype": "float32",
          "vocab_size": 51865}),
    _row("openai/whisper-large-v3", "apache-2.0",
         {**_WHISPER, **_whisper(1280, 20, (32, 32), 128), "torch_dtype": "float16",
          "vocab_size": 51866}),
    _row("openai/whisper-large-v3-turbo", "mit",
         {**_WHISPER, **_whisper(1280, 20, (32, 4), 128), "torch_dtype": "float16",
          "vocab_size": 51866}),
]  # fmt: skip
# What Sentence Transformers' files say beside configs that there are copies of.
POOLED: dict[str, dict[str, Any]] = {"Qwen/Qwen3-Embedding-0.6B": {"method": "LAST"}}
