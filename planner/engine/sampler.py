"""Which sampler applies top-k and top-p (v1/sample/ops/topk_topp_sampler.py).

vLLM's own in PyTorch, or FlashInfer's, which needs less memory because it sorts nothing. Up to
0.11.0 FlashInfer is optional and taken where it is installed, as it is in the official images; then
it has to be asked for by `VLLM_USE_FLASHINFER_SAMPLER`; from 0.21.0 on it is the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from planner.engine.device import DeviceFacts, Platform
from planner.engine.images import is_in_official_image
from planner.engine.releases import Release
from planner.engine.variables import switch

VARIABLE: Final = "VLLM_USE_FLASHINFER_SAMPLER"
# `supports_compute_capability` of v1/attention/backends/flashinfer.py.
_OLDEST, _NEWEST = (7, 5), (12, 1)


class Sampler(Enum):
    """A sampler; EITHER: a plan does not show whether FlashInfer is installed."""

    PYTORCH = "pytorch"
    FLASHINFER = "flashinfer"
    EITHER = "either"


def sampler(device: DeviceFacts, release: Release, environ: Mapping[str, str]) -> Sampler:
    """The sampler of a launch; `environ` are the variables it is started with."""
    if device.platform is not Platform.CUDA or device.capability is None:
        return Sampler.PYTORCH
    if not _OLDEST <= device.capability <= _NEWEST:
        return Sampler.PYTORCH
    asked = switch(VARIABLE, environ, release)
    if asked is not None:
        return Sampler.FLASHINFER if asked else Sampler.PYTORCH
    match release.fact("flashinfer_sampler"):
        case "default":
            return Sampler.FLASHINFER
        case "if installed":
            return Sampler.FLASHINFER if is_in_official_image(environ) else Sampler.EITHER
        case _:
            return Sampler.PYTORCH
