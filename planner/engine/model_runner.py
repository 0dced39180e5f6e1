"""Which of vLLM's two model runners a launch gets, and what it does not take (config/vllm.py).

Left alone vLLM falls back to the older one where the newer does not do; told which by
`VLLM_USE_V2_MODEL_RUNNER`, it refuses instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from model_cards.card import ModelCard
from planner.engine.device import DeviceFacts, Platform
from planner.engine.releases import Release
from planner.engine.speculative import Speculation
from planner.engine.variables import switch

VARIABLE: Final = "VLLM_USE_V2_MODEL_RUNNER"
_ONLY_ON_V2: Final = frozenset({"dspark"})


class ModelRunner(Struct, frozen=True):
    """A model runner; `problem` is why vLLM does not start with it, in one line."""

    is_v2: bool
    problem: str | None = None


def model_runner(
    card: ModelCard,
    device: DeviceFacts,
    release: Release,
    speculating: Speculation | None,
    environ: Mapping[str, str],
    *,
    pooling: bool,
) -> ModelRunner:
    """The runner of a launch; `environ` are the variables it is started with."""
    asked = switch(VARIABLE, environ, release)
    has_triton = device.platform is not Platform.CPU
    method = speculating.method if speculating is not None else None
    needs_v2 = method in _ONLY_ON_V2
    if asked:
        problem = _problem_of_v2(card, release, speculating, has_triton=has_triton)
        return ModelRunner(has_triton, problem)
    if asked is None and has_triton:
        usual = needs_v2 or _is_usual(card, release, pooling=pooling)
        return ModelRunner(usual and (speculating is None or not speculating.needs_v1_runner))
    if not needs_v2:
        return ModelRunner(False)
    why = f"{VARIABLE}=0 rules out" if asked is False else "builds for CPUs do not have"
    return ModelRunner(False, f"{method} needs Model Runner V2, which {why}")


def _is_usual(card: ModelCard, release: Release, *, pooling: bool) -> bool:
    """Whether V2 runs the model by default: family by family before it ran all."""
    served = release.fact("model_runner_v2")
    if pooling and served != "all":
        return False
    if card.quantization is not None and not release.fact("model_runner_v2_quantized"):
        return False
    if served == "dense":
        return not card.is_moe and not card.states
    return served == "all" or card.architecture in served


def _problem_of_v2(
    card: ModelCard, release: Release, speculating: Speculation | None, *, has_triton: bool
) -> str | None:
    asked = f"{VARIABLE}=1 asks for Model Runner V2"
    if not has_triton and release.fact("model_runner_v2_needs_triton"):
        return f"{asked}, which requires Triton; builds for CPUs have none"
    if not release.fact("model_runner_v2_methods"):
        return None  # such a release looks at nothing of that
    if card.states and not release.fact("model_runner_v2_states"):
        return f"{asked}, which in vLLM {release.name} does not run models with recurrent states"
    if speculating is not None and speculating.needs_v1_runner:
        what = "parallel drafting" if speculating.parallel_drafting else speculating.method
        return f"{asked}, which in vLLM {release.name} does not do {what}"
    return None
