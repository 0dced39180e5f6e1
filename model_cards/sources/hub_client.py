"""Questions to the Hub with an end: huggingface_hub's own client may retry for half a minute.

Token, endpoint, proxy and offline mode are huggingface_hub's (HF_TOKEN, HF_ENDPOINT, HTTPS_PROXY,
HF_HUB_OFFLINE).
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

from model_cards.errors import HubUnavailable
from model_cards.sources.hub_cache import client_constants
from model_cards.sources.hub_errors import no_answer, refusal, translate

if TYPE_CHECKING:
    from logging import LogRecord

# What a user waits for a slow or dead Hub, with the import of its client, is 3 s.
DEADLINE_SECONDS: Final = 2.6
# After that long a Hub that did not answer is asked again; one command asks once.
_SILENCE_SECONDS: Final = 60.0

_THREAD: Final = "model_cards.hub"
# What the client logs before it asks again.
_RETRY: Final = re.compile(
    r"HTTP Error (?P<status>\d{3}) thrown|'(?P<reason>.+)' thrown while", re.DOTALL
)

T = TypeVar("T")

_silence: tuple[float, str] | None = None  # until when it is taken for dead, and why
_retries: list[tuple[int | None, str]] = []  # by thread: why the client asks again, in its words


def ask(question: Callable[[], T]) -> T:
    """The Hub's answer, by `question` in a thread that cannot hold up the caller.

    Raises `CardError` for what the Hub or its answer says, `HubUnavailable` within
    `DEADLINE_SECONDS` if it does not answer (half of them are the Hub's at least, however long
    its client took to import), and at once if it did not a moment ago.
    """
    global _silence
    began = time.monotonic()
    if _silence is not None and began < _silence[0]:
        raise HubUnavailable(_silence[1])
    _import_client()
    from huggingface_hub.utils.logging import get_logger

    patience = max(began + DEADLINE_SECONDS - time.monotonic(), DEADLINE_SECONDS / 2)
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(question())
        except BaseException as error:
            errors.append(error)

    for handler in get_logger().handlers:
        handler.addFilter(_is_not_ours)
    _retries.clear()
    thread = threading.Thread(target=run, name=_THREAD, daemon=True)
    thread.start()
    thread.join(patience)
    if results:
        return results[0]
    if errors and _is_an_answer(errors[0]):
        raise translate(errors[0]) from None
    problem = translate(errors[0]) if errors else _in_time(thread.ident)
    _silence = (time.monotonic() + _SILENCE_SECONDS, str(problem))
    raise problem from None


def _import_client() -> None:
    """What imports slowly is no slow Hub. Raises `HubUnavailable` for settings that it refuses."""
    constants = client_constants()
    try:
        address = urlsplit(constants.ENDPOINT)
        known = address.scheme in ("http", "https") and bool(address.hostname)
        _ = address.port  # ValueError for what is none
    except ValueError:
        known = False
    if not known:
        raise HubUnavailable("HF_ENDPOINT is no address such as https://huggingface.co")
    import huggingface_hub.hf_api  # noqa: F401

    # Else it asks, before anything else, what tools there are that might be using it.
    constants.HF_HUB_DISABLE_TELEMETRY = True


def _in_time(thread: int | None) -> HubUnavailable:
    """That there was no answer in time, or which ones made the client ask again until then."""
    for asked_by, said in reversed(_retries):
        found = _RETRY.search(said) if asked_by == thread else None
        if found is not None and found["status"] is not None:
            return HubUnavailable(refusal(int(found["status"])))
        if found is not None:
            return HubUnavailable(no_answer(found["reason"]))
    return HubUnavailable("the Hub did not answer in time")


def time_left(until: float) -> float:
    """Seconds until a time of the monotonic clock, for a client that takes 0 for no limit."""
    return max(0.01, until - time.monotonic())


def _is_an_answer(error: BaseException) -> bool:
    """Whether something answered, however badly."""
    return not isinstance(translate(error), HubUnavailable) or hasattr(error, "response")


def _is_not_ours(record: LogRecord) -> bool:
    """Keeps huggingface_hub's warnings about retries off the terminal: the caller has moved on."""
    ours = record.threadName == _THREAD
    if ours:
        _retries.append((record.thread, record.getMessage()))
    return not ours
