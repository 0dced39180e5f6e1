"""The options of a launch from its log: the dictionary of "non-default args", as words.

Values of options that hold secrets, and where the server listened, are left out.
"""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Iterator
from typing import Any, Final

from planner.command.secrets import SECRET_OPTIONS, is_secret

# The model is said elsewhere; the rest is about where it listens.
_LEFT_OUT: Final = frozenset({"model", "model_tag", "host", "port", "uds", "api_server_count"})


def option_words(text: str) -> tuple[str, ...]:
    """Options as a command would give them; none where the text is no dictionary of plain values.

    `text` is vLLM's: {'max_model_len': 4096, 'enforce_eager': True}.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that Python does not know
            given = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ()
    if not isinstance(given, dict):
        return ()
    return tuple(word for name, value in given.items() for word in _words(str(name), value))


def _words(name: str, value: Any) -> Iterator[str]:
    option = f"--{name.replace('_', '-')}"
    if name in _LEFT_OUT or value is None or option in SECRET_OPTIONS or is_secret(name):
        return
    if isinstance(value, bool):
        yield option if value else f"--no-{option[2:]}"
    elif isinstance(value, dict):
        yield option
        yield json.dumps(value, default=str)
    elif isinstance(value, (list, tuple)):
        yield option
        yield from (str(each) for each in value)
    else:
        yield option
        yield str(value)
