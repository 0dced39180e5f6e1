"""The Hub client's errors in the user's terms, one line each."""

from __future__ import annotations

import re
from typing import Final

from model_cards.errors import CardError, GatedModel, HubUnavailable, UnknownModel

_GATED: Final = (
    "the Hub wants an accepted licence: accept it on the model's page, then set HF_TOKEN"
)
_ADDRESS: Final = re.compile(r"\b\w+:/{1,2}[^\s'\"]+")
_LONGEST: Final = 90


def translate(error: BaseException) -> BaseException:
    """What to raise for an error of huggingface_hub or of what it stands on."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if isinstance(error, CardError):
        return error
    if isinstance(error, LocalEntryNotFoundError) and error.__cause__ is not None:
        error = error.__cause__  # why the file, not cached either, could not be had
    if isinstance(error, GatedRepoError):  # before its base class RepositoryNotFoundError
        return GatedModel(_GATED)
    if isinstance(error, RevisionNotFoundError):
        return UnknownModel("the Hub has no such revision of this model")
    if isinstance(error, RepositoryNotFoundError):
        return UnknownModel("the Hub has no model of that name")
    if isinstance(error, HFValidationError):
        return UnknownModel("the Hub allows no such name")
    if isinstance(error, HfHubHTTPError):
        return HubUnavailable(_status(error))
    if isinstance(error, (KeyboardInterrupt, SystemExit, MemoryError)):
        return error
    if isinstance(error, UnicodeEncodeError):  # of a header, as all else is escaped
        return HubUnavailable("the Hub was not asked: HF_TOKEN holds what no token does")
    if isinstance(error, OSError) and error.filename is not None:
        return HubUnavailable(
            f"the Hub's client cannot use {_plain(str(error.filename))}: {error.strerror}"
        )
    if any(kind.__name__ == "ProxyError" for kind in type(error).__mro__):
        return HubUnavailable(f"the proxy refuses to reach the Hub ({_plain(str(error))})")
    if isinstance(error, (ValueError, TypeError, LookupError)):
        return HubUnavailable(f"the Hub's answer makes no sense ({type(error).__name__})")
    return HubUnavailable(no_answer(str(error) or type(error).__name__))


def no_answer(reason: str) -> str:
    """That the Hub did not answer, and why in the client's words."""
    return f"the Hub did not answer ({_plain(reason)})"


def _plain(text: str) -> str:
    """The first line of a text that anybody may have written, without the addresses in it."""
    line = _ADDRESS.sub("an address", text.strip().partition("\n")[0])
    shown = "".join(letter if letter.isprintable() else "?" for letter in line)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 3]}..."


def _status(error: BaseException) -> str:
    response = getattr(error, "response", None)
    if response is None:
        return refusal(0)
    return refusal(response.status_code, str(response.headers.get("Retry-After", "")).strip())


def refusal(status: int, wait: str = "") -> str:
    """A refusal by its status; what the server says beside it is a stranger's."""
    if status in (401, 403):
        return f"the Hub refuses access (status {status}); check HF_TOKEN"
    if status == 429:
        later = f"; it asks to wait {wait} s" if wait.isdecimal() and len(wait) < 6 else ""
        return f"the Hub limits requests for now (status 429{later})"
    if status >= 500:
        return f"the Hub did not answer (its server fails, status {status})"
    return f"the Hub did not answer (status {status})"
