"""What can be wrong with a model reference or its files; each message is one line for the user."""

from __future__ import annotations


class CardError(ValueError):
    """A model cannot be described; the message says what is wrong and what to do.

    Names and keys of strangers' files end up in messages, so whatever is not printable (line
    breaks, terminal escapes) is shown as its escape sequence.
    """

    def __init__(self, message: str) -> None:
        super().__init__("".join(c if c.isprintable() else ascii(c)[1:-1] for c in message))


class UnknownModel(CardError):
    """No folder, cached, bundled or Hub model of that name."""


class HubUnavailable(CardError):
    """The Hub did not answer (no network, too slow, refusing); says nothing about the model."""


class GatedModel(CardError):
    """The Hub has the model but wants an accepted licence and a token.

    Its totals it tells everybody.
    """

    parameters: int | None = None
    checkpoint_bytes: int | None = None


class BadConfig(CardError):
    """A config.json (or side file) that cannot be read or holds impossible values."""


class UnmodelledQuantization(BadConfig):
    """A quantization method or layout that is not modelled; the weights can only be estimated."""


class UnsupportedModel(CardError):
    """A readable config of an architecture that cannot even be estimated."""
