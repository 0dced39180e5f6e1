"""What must not be written down: variables, options and settings that hold keys."""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Final

# Options whose value is a secret, and the variable that vLLM reads instead.
SECRET_OPTIONS: Final = {"--api-key": "VLLM_API_KEY", "--hf-token": "HF_TOKEN"}
# What stands for a secret.
STARS: Final = "***"

# Names of variables, options and settings: a count of tokens, a token of a vocabulary and the file
# that a key is in are none.
_NAMED: Final = (
    r"(?:[\w-]*(?:SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)[\w-]*"
    r"|(?:[\w-]*[_-])?(?:API|ACCESS|AUTH|BEARER|CLIENT|HF|HUB|PRIVATE|REFRESH|SESSION)"
    r"[_-]?(?:TOKEN|KEY)S?(?:[_-]ID)?|TOKEN)"
)
_NAME: Final = re.compile(rf"{_NAMED}|[\w-]*[_-](?:TOKEN|KEY|PASS|PWD)", re.IGNORECASE)
# Keys of the Hub and of servers like OpenAI's, and what stands before @ in a URL; what is sent in
# a header, assigned to a variable, or the value of a setting in JSON, in Python's or in both.
_SHAPES: Final = (
    r"\bhf_\w{16,}",
    r"\bsk-[\w-]{16,}",
    r"(?P<scheme>\b\w{1,16}:/{1,2})[^\s/'\"]+@",
    r"(?P<bearer>\bBearer\s+)(?!\$)[\w.~+/-]{8,}=*",
    rf"(?P<assigned>\b{_NAMED}=)(?!['\"]?[$*<])(?:\[[^\]]*\]|'[^']*'|\"[^\"]*\"|[^\s'\",;&)]+)",
    rf"(?P<setting>(?P<quote>\\*['\"]){_NAMED}(?P=quote)\s*:\s*)"
    r"(?:\[[^\]]*\]|(?P<mark>\\+['\"]).*?(?P=mark)|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')",
)
_KEPT: Final = ("scheme", "bearer", "assigned", "setting")
_SHORTEST: Final = 8  # a shorter value is no key, and may be a part of anything


def is_secret(name: str) -> bool:
    """Whether a variable, an option or a setting of that name likely holds one."""
    return _NAME.fullmatch(name.lstrip("-")) is not None


def redacted(text: str) -> str:
    """The text with stars for what is secret: values of such variables here, keys by their shape.

    Logs and errors of others repeat what they were given.
    """
    return _pattern().sub(_stars, text)


@cache
def _pattern() -> re.Pattern[str]:
    values = {value for name, value in os.environ.items() if is_secret(name)}
    known = sorted((v for v in values if len(v) >= _SHORTEST), key=len, reverse=True)
    return re.compile("|".join((*map(re.escape, known), *_SHAPES)), re.IGNORECASE)


def _stars(found: re.Match[str]) -> str:
    """Stars, behind what says that it is a secret."""
    kept = next((found[name] for name in _KEPT if found[name] is not None), "")
    if kept and kept == found["setting"]:
        mark = found["quote"]
        return f"{kept}{mark}{STARS}{mark}"
    return f"{kept}{STARS}@" if kept and kept == found["scheme"] else f"{kept}{STARS}"
