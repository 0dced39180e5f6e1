"""An existing command line, as pasted: the launch it asks for, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from model_cards.config import shorten
from planner.command.arguments import Given, read_arguments
from planner.command.invocation import read_invocation, split_text
from planner.command.lint import lint
from planner.command.synthetic import is_synthetic, synthetic_rates
from planner.command.values import human_readable
from planner.engine.images import variables_set_by
from planner.engine.options import has_speculative_method, is_mtp_method
from planner.engine.releases import Release, find_release
from planner.engine.replacements import dropped_method
from planner.engine_config import (
    EngineConfig,
    EplbConfig,
    SpeculativeConfig,
    as_type,
    setting_types,
    whole_numbers,
)
from planner.errors import PlanError
from planner.findings import Finding, Severity

# Settings that change memory or start, and that no plan knows yet: what they are about.
_NOT_PLANNED: Final = {
    "hf_overrides": "the model's own config", "compilation_config": "compilation and graphs",
    "cudagraph_capture_sizes": "CUDA graphs", "max_cudagraph_capture_size": "CUDA graphs",
    "cuda_graph_sizes": "CUDA graphs", "limit_mm_per_prompt": "the encoder's batch",
    "attention_backend": "the attention backend", "attention_config": "the attention backend",
    "moe_backend": "the experts' kernel", "mamba_cache_dtype": "recurrent states",
    "mamba_ssm_cache_dtype": "recurrent states", "mamba_cache_mode": "recurrent states",
    "mamba_block_size": "recurrent states", "kv_cache_dtype_skip_layers": "the KV cache",
    "prefill_context_parallel_size": "context parallelism", "enable_dbo": "double batches",
    "rope_scaling": "the context length", "rope_theta": "the context length",
    "quantization_config": "quantization",
    "cpu_offload_params": "weights in host memory", "offload_params": "weights in host memory",
    "kv_transfer_config": "KV transfer", "performance_mode": "batch defaults",
}  # fmt: skip
# Tokens a step where vLLM takes them from the draft: one MTP layer, its tree's depth, its block.
_INFERRED: Final = {"mtp": 1, "suffix": 24, "dspark": 7}
_FIELDS: Final = frozenset(EngineConfig.__struct_fields__)


class ServeCommand(Struct, frozen=True):
    """A launch as a command asks for it.

    `method` is None where vLLM infers the speculative method from the draft.
    """

    model: str
    config: EngineConfig
    release: Release
    findings: tuple[Finding, ...]
    environ: tuple[tuple[str, str], ...] = ()
    revision: str | None = None
    infers_method: bool = False
    given: tuple[Given, ...] = ()  # every option, as it was written
    graph_sizes: tuple[int, ...] = ()  # batch sizes that CUDA graphs are asked for
    random_benchmark: bool = False  # random tokens are to be sent to it
    synthetic: tuple[float, ...] | None = None  # rates at which drafts are accepted, whatever
    image: str | None = None  # that a container is made of

    @property
    def server_environ(self) -> dict[str, str]:
        """The variables that the server finds: those given, on top of the image's."""
        return (variables_set_by(self.image) if self.image else {}) | dict(self.environ)


def read_command(words: Sequence[str], release: str | None = None) -> ServeCommand:
    """A command as words, or as one text that a shell would take apart.

    `release` is the one to plan for, else that of the image the command names, else the installed
    one. Raises `PlanError` where there is no vLLM command or no model in it.
    """
    if len(words) == 1:
        words = split_text(words[0])
    invocation = read_invocation(words)
    planned = find_release(release or invocation.release)
    arguments = read_arguments(invocation.arguments, planned)
    settings = dict(arguments.settings)
    model = arguments.model or _text(settings.get("model_tag"))
    if model is None:
        raise PlanError("the command names no model: vllm serve MODEL ...")
    reader = _Settings(planned)
    config = reader.config(settings)
    idle = lint(settings, arguments.given, invocation.variables, planned)
    synthetic = reader.synthetic(settings.get("speculative_config"))
    return ServeCommand(
        model,
        config,
        planned,
        (*arguments.findings, *reader.findings, *idle),
        invocation.environ,
        _text(settings.get("revision")),
        reader.infers_method,
        tuple(arguments.given),
        _graph_sizes(settings),
        invocation.random_benchmark and not is_synthetic(settings.get("speculative_config")),
        synthetic,
        invocation.image,
    )


def _graph_sizes(settings: Mapping[str, Any]) -> tuple[int, ...]:
    """Batch sizes that CUDA graphs are asked for, or the largest of them alone."""
    inside = settings.get("compilation_config")
    inside = inside if isinstance(inside, Mapping) else {}
    for name in ("cudagraph_capture_sizes", "cuda_graph_sizes", "max_cudagraph_capture_size"):
        value = settings.get(name, inside.get(name))
        sizes = value if isinstance(value, list) else [value]
        if value is not None and all(str(size).isdigit() for size in sizes):
            return tuple(int(size) for size in sizes)
    return ()


class _Settings:
    """Settings by vLLM's name of them, into an EngineConfig one by one."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self.findings: list[Finding] = []
        self.infers_method = False

    def config(self, settings: Mapping[str, Any]) -> EngineConfig:
        config = EngineConfig()
        for name, value in settings.items():
            if name in _FIELDS and value is not None:
                config = self._with(config, name, value)
            elif name in _NOT_PLANNED and not self._switches_towers_off(name, value):
                about = _NOT_PLANNED[name]
                option = f"--{name.replace('_', '-')}"
                text = f"{option} is not planned for ({about}): the plan is without it"
                self._note("not_planned", Severity.WARNING, text)
        if self._switches_towers_off("limit_mm_per_prompt", settings.get("limit_mm_per_prompt")):
            config = replace(config, language_model_only=True)
        return config

    def synthetic(self, given: Any) -> tuple[float, ...] | None:
        """The rates at which drafts are accepted, where they are set."""
        if not is_synthetic(given):
            return None
        try:
            return synthetic_rates(given)
        except PlanError as error:
            self._note("bad_value", Severity.ERROR, f"--speculative-config: {error}")
            return None

    def _with(self, config: EngineConfig, name: str, value: Any) -> EngineConfig:
        try:
            if name == "speculative_config":
                value = self._speculative(value)
            elif name == "eplb_config":
                known = {"num_redundant_experts", "window_size"}
                value = EplbConfig(**{key: value[key] for key in known & value.keys()})
            elif isinstance(value, str) and name in whole_numbers():
                value = human_readable(value)
            return replace(config, **{name: as_type(setting_types()[name], name, value)})
        except PlanError as error:
            self._note("bad_value", Severity.ERROR, str(error))
        except (TypeError, AttributeError, ValueError, OverflowError):
            text = f"--{name.replace('_', '-')}: {shorten(value)} is no value for it"
            self._note("bad_value", Severity.ERROR, text)
        return config

    def _speculative(self, given: Mapping[str, Any]) -> SpeculativeConfig | None:
        model, method = _text(given.get("model")), _text(given.get("method"))
        if method is None and model in ("ngram", "[ngram]"):
            method = "ngram"
        if method in ("ngram", "ngram_gpu", "suffix"):
            model = None
        method = self._plain_method(method)
        tokens = given.get("num_speculative_tokens")
        if tokens is None and method in _INFERRED:
            tokens = _INFERRED[method]
            text = f"--speculative-config leaves the tokens to vLLM: planned with {tokens}"
            self._note("note", Severity.INFO, text)
        if tokens is None:
            text = "--speculative-config names no num_speculative_tokens"
            self._note("missing_value", Severity.ERROR, text)
            return None
        self.infers_method = method is None
        return SpeculativeConfig(
            method or "draft_model",
            int(tokens),
            model,
            given.get("draft_tensor_parallel_size"),
            given.get("parallel_drafting"),
            given.get("num_speculative_tokens_per_batch_size"),
        )

    def _plain_method(self, method: str | None) -> str | None:
        """A method by the name that is planned for: MTP layers go by their family's name, too."""
        if method is None:
            return None
        if is_mtp_method(method, self.release) and self.release.at_least("0.11.0"):
            return "mtp"
        why = dropped_method(method)
        if why is not None and not has_speculative_method(method, self.release):
            self._note("no_method", Severity.ERROR, f"speculative method {method}: {why}")
        return "eagle" if method == "eagle2" else method

    def _switches_towers_off(self, name: str, value: Any) -> bool:
        """Whether no images and the like are allowed: then vLLM builds no towers."""
        counts = value.values() if isinstance(value, dict) else ()
        return name == "limit_mm_per_prompt" and bool(counts) and not any(counts)

    def _note(self, code: str, severity: Severity, text: str) -> None:
        self.findings.append(Finding(code, severity, text))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
