"""Parts of a file of a Hub repository: what is asked for and no more, whatever is sent."""

from __future__ import annotations

from typing import Final

from model_cards.errors import HubUnavailable

_PARTIAL: Final = 206
_MOST_ERROR_BYTES: Final = 2**20


def fetch_range(
    model_id: str, name: str, revision: str | None, start: int, end: int, *, timeout: float
) -> bytes:
    """Bytes `start` to `end` of a file, fewer where it ends before.

    Servers that know no ranges send all of it, weights too: it is not read on. Raises
    huggingface_hub's errors, `HubUnavailable` where such a server would have to be read up to
    `start`.
    """
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import (  # type: ignore[attr-defined]
        build_hf_headers,
        get_session,
        hf_raise_for_status,
    )

    headers = {
        **build_hf_headers(),
        "range": f"bytes={start}-{end - 1}",
        "accept-encoding": "identity",
    }
    url = hf_hub_url(model_id, name, revision=revision)
    held = bytearray()
    with get_session().stream("GET", url, headers=headers, timeout=timeout) as answer:
        if answer.status_code >= 400:
            if int(answer.headers.get("Content-Length", 0)) < _MOST_ERROR_BYTES:
                answer.read()
            hf_raise_for_status(answer)
        if start and answer.status_code != _PARTIAL:
            raise HubUnavailable("the Hub sends no parts of files")
        for piece in answer.iter_raw():
            held += piece
            if len(held) >= end - start:
                break
    return bytes(held[: end - start])
