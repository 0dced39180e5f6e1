"""A checkpoint's quantization as a whole: which format each of its matrices has."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from fnmatch import fnmatchcase
from typing import Final

from model_cards.config import Config, shorten
from model_cards.errors import BadConfig
from model_cards.quantization.formats import UNQUANTIZED, WeightFormat

_WILD: Final = re.compile(r"[*?\[]")


class QuantScheme(ABC):
    """Answers for every module path of the checkpoint how it is stored.

    `method` is vLLM's name of the quantization method; `kv_cache_dtype` what `--kv-cache-dtype
    auto` becomes because the checkpoint carries KV scales, None if it says nothing.
    """

    method: str = ""
    kv_cache_dtype: str | None = None

    @abstractmethod
    def path_format(self, path: str) -> WeightFormat:
        """Format of the linear layer that the checkpoint has at `path`."""

    def layer_key(self, path: str) -> Hashable:
        """What tells the layer at `path` from others; those with equal keys are quantized alike."""
        return None

    def linear(self, path: str, parts: Sequence[str] = ()) -> WeightFormat:
        """Format of vLLM's linear layer at `path`, which fuses the checkpoint's `parts`.

        `model.layers.0.self_attn.qkv_proj` fuses `q_proj`, `k_proj`, `v_proj`. Raises `BadConfig`
        where the parts differ: vLLM refuses that too.
        """
        if not parts:
            return self.path_format(path)
        parent = path.rpartition(".")[0]
        formats = {self.path_format(f"{parent}.{part}") for part in parts}
        if len(formats) > 1:
            raise BadConfig(
                f"{path}: {', '.join(parts)} are quantized differently, but vLLM fuses them and "
                "requires one scheme"
            )
        return formats.pop()

    def experts(self, prefix: str) -> WeightFormat:
        """Format of the routed experts at `prefix` (`model.layers.0.mlp.experts`)."""
        return self.path_format(f"{prefix}.0.up_proj")

    def head(self, path: str) -> WeightFormat:
        """Format of the output head: unquantized unless the checkpoint says otherwise."""
        return UNQUANTIZED


class NoQuantization(QuantScheme):
    """A checkpoint in its own dtype."""

    def path_format(self, path: str) -> WeightFormat:
        """See `QuantScheme`."""
        return UNQUANTIZED


NO_QUANTIZATION: Final = NoQuantization()


def exact_or_regex(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Matcher of compressed-tensors lists: equal names, and regular expressions after `re:`."""
    plain = frozenset(p for p in patterns if not p.startswith("re:"))
    expressions = [compile_pattern(p[3:]) for p in patterns if p.startswith("re:")]

    def match(path: str) -> bool:
        return path in plain or any(expression.match(path) for expression in expressions)

    return match


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A regular expression of a module list; `BadConfig` if it is none."""
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadConfig(
            f"quantization_config: {shorten(pattern)} is no regular expression ({error})"
        ) from None


def group_size(config: Config, key: str, default: int | None = None) -> int:
    """Inputs that share a scale; -1 stands for all of them."""
    size = config.integer(key, default, minimum=-1)
    if size == 0:
        raise config.fail(key, "at least 1, or -1 for one group")
    return size


def substring(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Matcher of AWQ's `modules_to_not_convert`: a name that occurs anywhere in the path."""
    return lambda path: any(pattern in path for pattern in patterns)


def part_or_wildcard(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Matcher of ModelOpt's lists: a part of the path, or a wildcard for all of it."""
    parts = [pattern for pattern in patterns if not _WILD.search(pattern)]
    # Most wildcards stand at one end: what is before or behind them is compared as it is.
    starts = tuple(p[:-1] for p in patterns if p.endswith("*") and not _WILD.search(p[:-1]))
    ends = tuple(p[1:] for p in patterns if p.startswith("*") and not _WILD.search(p[1:]))
    simple = {*parts, *(f"{start}*" for start in starts), *(f"*{end}" for end in ends)}
    others = [pattern for pattern in patterns if pattern not in simple]

    def match(path: str) -> bool:
        if path.startswith(starts) or path.endswith(ends):
            return True
        return any(p in path for p in parts) or any(fnmatchcase(path, p) for p in others)

    return match
