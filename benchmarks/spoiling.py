"""What makes an input bad whatever it holds: words, characters, bytes."""

from __future__ import annotations

import random
from typing import NamedTuple

WORDS = (
    "0", "-1", "1", "2", "0.5", "1e400", "nan", "inf", "true", "None", "null", "auto", "fp8", "x",
    "", "--", "-", "=", "{}", "[]", "{", '{"a":1}', "\x1b[2J", "\u202e", "é", "\x00", "$HOME",
    "9" * 40, "9" * 5000, "a" * 10_000, "/dev/null", "/dev/zero", "../..", "~", "@", "%s", "`id`",
    "{}" * 900, "[" * 5000, "32k", "32K", "1,2,3", "'", '"', "\\", "\n", "\ud83d\ude00", "0x10",
    "1_000",
)  # fmt: skip


class Case(NamedTuple):
    """What to run, what was done to its input, and whether a Hub is there for it."""

    arguments: list[str]
    what: str
    online: bool = False


def spoil(rng: random.Random, text: str) -> tuple[str, str]:
    """A text with a few pieces replaced, taken out, doubled or cut off."""
    done = []
    for _ in range(rng.choice((1, 1, 2, 5))):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice((0, 1, 2, 8, 40)))
        kind = rng.randrange(5)
        if kind == 0:
            text, how = text[:start] + text[end:], "cut out"
        elif kind == 1:
            text, how = text[:start] + rng.choice(WORDS) + text[end:], "replaced"
        elif kind == 2:
            text, how = (
                text[:end] + text[start:end] * rng.choice((1, 3, 100)) + text[end:],
                "doubled",
            )
        elif kind == 3:
            text, how = text[:start], "cut off"
        else:
            text, how = text[:start] + chr(rng.choice((0, 7, 27, 127, 0x202E, 0xD800, 0x1F600))) \
                + text[end:], "a character"  # fmt: skip
        done.append(f"{how} at {start}")
    return text, ", ".join(done)


def spoil_bytes(rng: random.Random, content: bytes) -> tuple[bytes, str]:
    """Bytes with a few replaced, lengths made huge, pieces taken out, doubled or cut off."""
    held, done = bytearray(content), []
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at = rng.randrange(len(held) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            held[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            huge = rng.choice((0, 1, 2**16, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1))
            held[at : at + 8] = huge.to_bytes(8, "little")
        elif kind == 2:
            del held[at : at + rng.choice((1, 4, 8, 100))]
        elif kind == 3:
            held[at:at] = held[at : at + 64] * rng.choice((1, 10))
        else:
            del held[at:]
        done.append(f"{kind} at {at}")
    return bytes(held), ", ".join(done)
