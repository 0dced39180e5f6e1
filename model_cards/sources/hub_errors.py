"""The Hub client's errors in the user's terms, one line each."""

from __future__ import annotations

from model_cards.config import shorten
from model_cards.errors import CardError, GatedModel, HubUnavailable, UnknownModel

_GATED = "the Hub wants an accepted licence: accept it on the model's page, then set HF_TOKEN"


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
    if isinstance(error, (ValueError, TypeError, LookupError)):
        return HubUnavailable(f"the Hub's answer makes no sense ({type(error).__name__})")
    reason = str(error).strip().splitlines()
    return HubUnavailable(
        f"the Hub did not answer ({shorten(reason[0] if reason else type(error).__name__, 80)})"
    )


def _status(error: BaseException) -> str:
    """A refusal by its status; what the server says beside it is a stranger's."""
    response = getattr(error, "response", None)
    status = response.status_code if response is not None else 0
    if status in (401, 403):
        return f"the Hub refuses access (status {status}); check HF_TOKEN"
    if status == 429:
        wait = str(response.headers.get("Retry-After", "")).strip() if response is not None else ""
        later = f"; it asks to wait {wait} s" if wait.isdecimal() and len(wait) < 6 else ""
        return f"the Hub limits requests for now (status 429{later})"
    if status >= 500:
        return f"the Hub did not answer (its server fails, status {status})"
    return f"the Hub did not answer (status {status})"
