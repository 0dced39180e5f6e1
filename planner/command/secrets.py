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
# that a key is in are none. A name has a length, so that a long word takes no longer than to read.
_NAMED: Final = (
    r"(?:[\w-]{0,40}(?:SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)[\w-]{0,40}"
    r"|(?:[\w-]{0,40}[_-])?(?:API|ACCESS|AUTH|BEARER|CLIENT|HF|HUB|PRIVATE|REFRESH|SESSION)"
    r"[_-]?(?:TOKEN|KEY)S?(?:[_-]ID)?|TOKEN)"
)
_MORE_NAMES: Final = r"[\w-]*[_-](?:TOKEN|KEY|PASS|PWD)"
# What a shell takes for one word, also inside a JSON text.
_WORD: Final = "|".join(
    (
        r"(?:(?P<inner>\\+['\"]).{0,500}?(?P=inner)|'[^']*'|\"(?:\\.|[^\"\\])*\")(?=[\s'\"\\,;&|)]|$)",
        r"(?:\\[^\s'\"]|[^\s'\"\\,;&|<>)])+",
    )
)
# Keys of the Hub and of servers like OpenAI's, and what stands before @ in a URL; what is sent in
# a header, assigned to a variable, or the value of a setting in JSON, in Python's or in both; the
# words behind an option, as a shell has them or as a list. A sentence goes on behind the option's
# name with words that are no keys.
_SHAPES: Final = (
    r"(?-i:\bhf_\w{16,}|\bsk-[\w-]{16,})",  # HF_HUB_... are variables
    r"(?P<scheme>\b\w{1,16}:/{1,2})[^\s/'\"]+@",
    r"(?P<bearer>\bBearer\s+)(?!\$)[\w.~+/-]{8,}=*",
    rf"(?P<assigned>(?<![\w-]){_NAMED}=)(?!['\"]?[$*<])"
    r"(?:\[[^\]]{0,2000}\]|'[^']*'|\"[^\"]*\"|[^\s'\",;&)]+)",
    rf"(?P<setting>(?P<quote>\\*['\"]){_NAMED}(?P=quote)\s*:\s*)"
    r"(?:\[[^\]]{0,2000}\]|(?P<mark>\\+['\"]).*?(?P=mark)|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')",
    rf"(?P<option>(?<![\w-])--{_NAMED})"
    rf"(?:(?:[ \t]|\\\n)+(?!-|['\"]?[$<]|(?:and|is|may|needs|or)\b)(?:{_WORD}))+",
    rf"(?P<listed>(?P<around>['\"])--{_NAMED}(?P=around))"
    r"(?:,\s*(?P=around)(?![-$*<])(?:\\.|(?!(?P=around))[^\\])*(?P=around))+",
)
# Something of this is in what is of any shape; most texts have none, and the shapes take 5 ms to
# compile.
_HINT: Final = re.compile(
    r"hf_|sk-|bearer|:/"
    r"|(?:SECRET|PASSW|PASSPHRASE|CREDENTIAL|TOKEN|KEY)[\w-]{0,40}[=\\'\"]"
    rf"|(?<![\w-])--{_NAMED}",
    re.IGNORECASE,
)
_KEPT: Final = ("scheme", "bearer", "assigned", "setting", "option", "listed")
_SHORTEST: Final = 8  # a shorter value is no key, and may be a part of anything


def is_secret(name: str) -> bool:
    """Whether a variable, an option or a setting of that name likely holds one."""
    return _names().fullmatch(name.lstrip("-")) is not None


def redacted(text: str) -> str:
    """The text with stars for what is secret: values of such variables here, keys by their shape.

    Logs and errors of others repeat what they were given.
    """
    for value in _known():
        text = text.replace(value, STARS)
    return _shapes().sub(_stars, text) if _HINT.search(text) is not None else text


@cache
def _known() -> list[str]:
    """Values of variables here, the longest first."""
    values = {value for name, value in os.environ.items() if is_secret(name)}
    return sorted((v for v in values if len(v) >= _SHORTEST), key=len, reverse=True)


@cache
def _names() -> re.Pattern[str]:
    return re.compile(rf"{_NAMED}|{_MORE_NAMES}", re.IGNORECASE)


@cache
def _shapes() -> re.Pattern[str]:
    return re.compile("|".join(_SHAPES), re.IGNORECASE)


def _stars(found: re.Match[str]) -> str:
    """Stars, behind what says that it is a secret."""
    shape = next((name for name in _KEPT if found[name] is not None), None)
    kept = found[shape] if shape is not None else ""
    match shape:
        case "scheme":
            return f"{kept}{STARS}@"
        case "setting":
            return f"{kept}{found['quote']}{STARS}{found['quote']}"
        case "option":
            return f"{kept} {STARS}"
        case "listed":
            return f"{kept}, {found['around']}{STARS}{found['around']}"
        case _:
            return f"{kept}{STARS}"
