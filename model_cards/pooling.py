"""Models that pool their hidden states (embeddings, reranking, rewards) instead of sampling tokens.

What `--runner auto` and `--convert auto` become follows the name of the model class and the files
of Sentence Transformers beside the config (vLLM 0.33.0: config/model.py,
transformers_utils/config.py, model_executor/models/registry.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from model_cards.config import Config
from model_cards.modules import Linear, Output, Shard
from model_cards.quantization.formats import FLOAT32

# How names of model classes end, with the runner and the conversion that fit; the first one counts.
_SUFFIXES: Final = (
    ("ForCausalLM", "generate", "none"),
    ("ForConditionalGeneration", "generate", "none"),
    ("ChatModel", "generate", "none"),
    ("LMHeadModel", "generate", "none"),
    ("ForTextEncoding", "pooling", "embed"),
    ("EmbeddingModel", "pooling", "embed"),
    ("ForSequenceClassification", "pooling", "classify"),
    ("ForTokenClassification", "pooling", "classify"),
    ("ForAudioClassification", "pooling", "classify"),
    ("ForImageClassification", "pooling", "classify"),
    ("ForVideoClassification", "pooling", "classify"),
    ("ClassificationModel", "pooling", "classify"),
    ("ForRewardModeling", "pooling", "embed"),
    ("RewardModel", "pooling", "embed"),
    ("Model", "pooling", "embed"),
)
# Names in vLLM's registry that end like a network without a head and stand for a class with one.
_GENERATIVE: Final = frozenset(
    {"DeepseekV3BidirectionalModel", "Gemma2Model", "LlamaModel", "MistralModel"}
)
_LABELS: Final = 2  # of a config that names none (transformers)


class PoolingClass(Struct, frozen=True):
    """What a model class itself says of pooling: whether it does nothing else, and how.

    `method` is vLLM's pooling type: of a sequence (`CLS`, `LAST`, `MEAN`), or `STEP` of tokens.
    """

    native: bool = False
    method: str = "LAST"


GENERATES: Final = PoolingClass()  # the class of a language model, which an adapter makes pool


class Projection(Struct, frozen=True):
    """A dense layer of Sentence Transformers behind the pooled states."""

    inputs: int
    outputs: int
    bias: bool = True


class PoolingFiles(Struct, frozen=True):
    """What files beside config.json say of pooling.

    `modules`: modules.json names a pooling layer, whose kind is `method` if it is known, and
    perhaps `projections`.
    """

    modules: bool = False
    method: str | None = None
    max_seq_length: int | None = None  # sentence_bert_config.json
    model_max_length: int | None = None  # tokenizer_config.json
    projections: tuple[Projection, ...] = ()


class Pooling(Struct, frozen=True):
    """How vLLM pools this model's hidden states, where it does.

    `runner` is what `--runner auto` becomes and `convert` what `--convert auto` then does.
    `encoder_only`: every token attends to the whole prompt, which is never split or cached.
    """

    runner: str = "generate"
    convert: str = "embed"
    native: bool = False
    method: str = "LAST"
    encoder_only: bool = False
    labels: int = _LABELS
    projections: tuple[Projection, ...] = ()

    @property
    def pools(self) -> bool:
        """Whether vLLM pools unless told otherwise."""
        return self.runner == "pooling"

    @property
    def whole_prompts(self) -> bool:
        """Whether a prompt must be run at once, and none of it taken from a cache."""
        return self.encoder_only or self.method in ("CLS", "MEAN", "STEP")


NOT_POOLED: Final = Pooling()


def read_pooling(config: Config, of: PoolingClass, files: PoolingFiles | None) -> Pooling:
    """How a model of this class is pooled. A class that pools `CLS` is an encoder to vLLM."""
    name = config.architectures[0] if config.architectures else ""
    matched = _match(name)
    by_name = matched is not None and matched[1] == "pooling"
    pools = of.native or (files is not None and files.modules)
    pools = pools or (by_name and name not in _GENERATIVE)
    convert = matched[2] if matched is not None and by_name else "embed"
    return Pooling(
        "pooling" if pools else "generate",
        "none" if of.native else convert,
        of.native,
        (files.method if files is not None else None) or of.method,
        of.method == "CLS" or not is_causal(config),
        _labels(config),
        files.projections if files is not None else (),
    )


def is_causal(config: Config) -> bool:
    """Whether tokens attend only to those before them; EmbeddingGemma says it in its own way."""
    if config.boolean("use_bidirectional_attention", False):
        return False
    return config.boolean("is_causal", True) and config.text.boolean("is_causal", True)


def base_names(architecture: str) -> Iterator[str]:
    """Names of the class that vLLM would adapt, where it has none of that name."""
    matched = _match(architecture)
    if matched is not None and matched[1] == "pooling":
        stem = architecture.removesuffix(matched[0])
        yield from (stem + suffix for suffix, _, _ in _SUFFIXES)


def without_head(architecture: str) -> bool:
    """Whether checkpoints of this class have no output head, by its name."""
    matched = _match(architecture)
    return matched is not None and matched[1] == "pooling"


def fp32_linear(
    name: str, inputs: int, outputs: int, shard: Shard = Shard.REPLICATED, *, bias: bool = True
) -> Linear:
    """A layer behind the hidden states, which vLLM computes in fp32 (its `head_dtype`)."""
    return Linear(name, inputs, (Output(name, outputs),), shard, bias, FLOAT32)


def _match(architecture: str) -> tuple[str, str, str] | None:
    return next((each for each in _SUFFIXES if architecture.endswith(each[0])), None)


def _labels(config: Config) -> int:
    """Scores of a classifier; one for two tokens of the vocabulary that stand for yes and no."""
    tokens = config.strings("classifier_from_token") or config.text.strings("classifier_from_token")
    if tokens:
        kind = config.string("method", config.text.string("method", ""))
        pair = config.boolean("is_original_qwen3_reranker", False) or kind == "from_2_way_softmax"
        return 1 if pair else len(tokens)
    for part in (config, config.text):
        labels = part.section("id2label")
        if labels is not None:
            return len(list(labels))
        if "num_labels" in part:
            return part.integer("num_labels")
    return _LABELS
