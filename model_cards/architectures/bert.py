"""BERT, RoBERTa and XLM-RoBERTa: encoders for embeddings, classification and reranking.

LayerNorms behind each half of a layer, biases everywhere; word, position and segment embeddings
are all vocabulary-parallel. vLLM leaves out the pooler of checkpoints that are only embedded.
"""

from __future__ import annotations

from model_cards.architectures.decoder import Body, LayerBuilder, assemble
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import NO_HEAD, Buffer, Embedding, Linear, Module, Tensor
from model_cards.pooling import PoolingClass, fp32_linear, read_pooling
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    hidden, intermediate = config.integer("hidden_size"), config.integer("intermediate_size")

    def layer(b: LayerBuilder, index: int) -> Layer:
        return Layer(
            (
                *b.attention(
                    "attention",
                    qkv="self.qkv_proj",
                    out="output.dense",
                    qkv_bias=True,
                    o_bias=True,
                    parts=("query", "key", "value"),
                ),
                b.layer_norm("attention.output.LayerNorm"),
                b.column("intermediate.dense", hidden, intermediate, bias=True),
                b.row("output.dense", intermediate, hidden, bias=True),
                b.layer_norm("output.LayerNorm"),
            ),
            (b.encoder_attention(),),
        )

    pooling = PoolingClass(native=True, method="CLS")
    return Body(
        Embedding("embeddings.word_embeddings", config.integer("vocab_size"), hidden),
        assemble(config, scheme, layer, root="encoder.layer"),
        (),
        NO_HEAD,
        (),
        max_intermediate_size=intermediate,
        beside=(*_embeddings(config, hidden), *_head(config, hidden, pooling)),
        pooling=pooling,
    )


def describes(config: Config) -> bool:
    """Only learned positions: others have modules of their own (Jina Embeddings v3)."""
    return config.string("position_embedding_type", "absolute") == "absolute"


def _embeddings(config: Config, hidden: int) -> list[Module]:
    positions = config.integer("max_position_embeddings")
    return [
        Embedding("embeddings.position_embeddings", positions, hidden),
        Embedding("embeddings.token_type_embeddings", config.integer("type_vocab_size"), hidden),
        Tensor("embeddings.LayerNorm", (2, hidden)),
        Buffer("embeddings.position_ids", positions, "int64"),
    ]


def _head(config: Config, hidden: int, pooling: PoolingClass) -> list[Linear]:
    """What turns hidden states into scores, or into BGE-M3's sparse and token-wise vectors."""
    name = config.architectures[0]
    labels = read_pooling(config, pooling, None).labels
    if name == "BgeM3EmbeddingModel":
        return [fp32_linear("sparse_linear", hidden, 1), fp32_linear("colbert", hidden, hidden)]
    if name.endswith("ForSequenceClassification"):  # BERT's pooler, RoBERTa's head: same shapes
        return [fp32_linear("dense", hidden, hidden), fp32_linear("classifier", hidden, labels)]
    if name.endswith("ForTokenClassification"):
        return [fp32_linear("classifier", hidden, labels)]
    return []
