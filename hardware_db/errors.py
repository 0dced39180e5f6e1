"""The errors of this package: one line each, safe to print on a terminal."""

from __future__ import annotations


class HardwareError(ValueError):
    """Something about the hardware cannot be answered; ``str(error)`` is one clear line."""


class UnknownGpu(HardwareError):
    """No GPU of that name is known. ``suggestions`` holds the slugs of near misses, best first."""

    def __init__(self, text: str, suggestions: tuple[str, ...] = ()):
        self.suggestions = suggestions
        hint = f' Did you mean: {", ".join(suggestions)}? See "vplan gpus".'
        super().__init__(
            f"Unknown GPU {quoted(text)}." + (hint if suggestions else ' See "vplan gpus".')
        )


class InvalidRig(HardwareError):
    """The description of a rig is malformed or contradicts what the cards have."""


class NoGpuDetected(HardwareError):
    """No GPU that vLLM could use, or no driver of one, answers on this machine."""


def quoted(text: str, limit: int = 60) -> str:
    """``text`` in double quotes, control characters escaped, cut after ``limit`` characters."""
    cut = text if len(text) <= limit else text[:limit] + "…"
    return '"' + "".join(c if c.isprintable() else repr(c)[1:-1] for c in cut) + '"'
