"""What must not be written down: variables and options that hold keys."""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Final

# Options whose value is a secret, and the variable that vLLM reads instead.
SECRET_OPTIONS: Final = {"--api-key": "VLLM_API_KEY", "--hf-token": "HF_TOKEN"}
_SECRET: Final = re.compile(r"TOKEN|KEY|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)


def is_secret(variable: str) -> bool:
    """Whether an environment variable of that name likely holds one."""
    return _SECRET.search(variable) is not None


def redacted(text: str) -> str:
    """The text with stars for what is secret: values of such variables here, keys by their shape.

    Logs and errors of others repeat what they were given.
    """
    return _pattern().sub(_stars, text)


# Keys of the Hub and of servers like OpenAI's, and what stands before @ in a URL.
_SHAPES: Final = (r"\bhf_\w{16,}", r"\bsk-[\w-]{16,}", r"(?P<scheme>\b\w{1,16}://)[^\s/@'\"]+@")
_SHORTEST: Final = 8  # a shorter value is no key, and may be a part of anything


@cache
def _pattern() -> re.Pattern[str]:
    values = {value for name, value in os.environ.items() if is_secret(name)}
    known = sorted((v for v in values if len(v) >= _SHORTEST), key=len, reverse=True)
    return re.compile("|".join((*map(re.escape, known), *_SHAPES)))


def _stars(found: re.Match[str]) -> str:
    scheme = found["scheme"]
    return "***" if scheme is None else f"{scheme}***@"
