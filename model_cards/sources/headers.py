"""safetensors headers: every tensor of a checkpoint without reading a weight.

A file begins with 8 bytes (little endian) giving the length of a JSON header that lists every
tensor with dtype, shape and byte range (the safetensors format's specification).
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from model_cards.config import is_total, parse_json_object, shorten
from model_cards.errors import BadConfig
from model_cards.inventory import BITS, PLAIN, Inventory, StoredTensor, stored_tensor

# The format allows 100 MB; a file of 100,000 tensors, more than any known one has, needs 14.
_MAX_HEADER_BYTES: Final = 16 * 2**20
_SAMPLES: Final = 64
_SAMPLE_BYTES: Final = 4096


class Totals(Struct, frozen=True):
    """What the tensors of a checkpoint add up to."""

    bytes: int
    parameters: int | None  # logical ones; None where some are packed or have scales


def totals(counts: Mapping[str, int]) -> Totals:
    """Totals of tensors with so many elements of each dtype."""
    bits = sum(count * BITS[dtype] for dtype, count in counts.items())
    return Totals(bits // 8, sum(counts.values()) if counts.keys() <= PLAIN else None)


class Contents(Struct, frozen=True):
    """What some files hold together. `inventory` is None where a tensor is in two of them."""

    totals: Totals
    inventory: Inventory | None


def contents(files: Iterable[Mapping[str, StoredTensor]]) -> Contents:
    """What files with such tensors hold together."""
    counts: Counter[str] = Counter()
    tensors: dict[str, StoredTensor] = {}
    stored = 0
    for file in files:
        tensors |= file
        stored += len(file)
        for tensor in file.values():
            counts[tensor.dtype] += tensor.elements
    return Contents(totals(counts), Inventory(tensors) if len(tensors) == stored else None)


def read_header(file: Path) -> dict[str, Any]:
    """The JSON header of one file; `BadConfig` if it is no safetensors file."""
    try:
        with file.open("rb") as stream:
            return parse_header(lambda start, end: stream.read(end - start), file.name)
    except OSError as error:
        raise BadConfig(f"Cannot read {file}: {error.strerror or error}") from None


def parse_header(fetch: Callable[[int, int], bytes], name: str) -> dict[str, Any]:
    """The JSON header of the file `name`, read through `fetch(start, end)`, eight bytes first;
    `BadConfig` if it is no safetensors file."""
    prefix = fetch(0, 8)
    if len(prefix) < 8:
        raise BadConfig(f"{name} is too short to be a safetensors file")
    (length,) = struct.unpack("<Q", prefix)
    if length > _MAX_HEADER_BYTES:
        raise BadConfig(f"{name}: its header claims {length} bytes; not read")
    header = fetch(8, 8 + length)
    if len(header) < length:
        raise BadConfig(f"{name} is truncated inside its header")
    return parse_json_object(header, f"the header of {name}")


def read_tensors(file: Path) -> dict[str, StoredTensor]:
    """The tensors of one file by its header."""
    return header_tensors(read_header(file), file.name)


def header_tensors(header: Mapping[str, Any], name: str) -> dict[str, StoredTensor]:
    """The tensors that the header of the file `name` lists."""
    tensors: dict[str, StoredTensor] = {}
    for tensor, entry in header.items():
        if tensor == "__metadata__":
            continue
        if not isinstance(entry, dict):
            raise BadConfig(f"the header of {name}: {shorten(tensor)} is no tensor entry")
        dtype, shape = entry.get("dtype"), entry.get("shape")
        stored = stored_tensor(dtype, shape)
        if stored is None:
            raise BadConfig(
                f"the header of {name}: {shorten(tensor)} has dtype {shorten(dtype)} and shape "
                f"{shorten(shape)}"
            )
        tensors[tensor] = stored
    _check_places(header, tensors, name)
    return tensors


def _check_places(
    header: Mapping[str, Any], tensors: Mapping[str, StoredTensor], name: str
) -> None:
    """That every tensor has its own bytes, one behind the other: else vLLM's loader refuses.

    `Metadata::validate` of the safetensors library. A header without places tells nothing of it.
    """
    places = []
    for tensor, stored in tensors.items():
        offsets = header[tensor].get("data_offsets")
        if offsets is None:
            return
        start, end = _offsets(offsets, tensor, name)
        if end - start != stored.bytes:
            raise BadConfig(
                f"the header of {name}: {shorten(tensor)} has {end - start} bytes, and its dtype "
                f"and shape make {stored.bytes}"
            )
        places.append((start, end, tensor))
    reached = 0
    for start, end, tensor in sorted(places):
        if start != reached:
            how = "overlaps another tensor" if start < reached else "leaves a hole before it"
            raise BadConfig(f"the header of {name}: {shorten(tensor)} {how}")
        reached = end


def _offsets(offsets: Any, tensor: str, name: str) -> tuple[int, int]:
    """Where the bytes of a tensor begin and end behind the header."""
    if (
        not isinstance(offsets, (list, tuple))
        or len(offsets) != 2
        or not all(map(is_total, offsets))
        or offsets[0] > offsets[1]
    ):
        raise BadConfig(
            f"the header of {name}: {shorten(tensor)} has data_offsets {shorten(offsets)}"
        )
    return offsets[0], offsets[1]


def same_weights(one: tuple[Path, str], other: tuple[Path, str]) -> bool | None:
    """Whether two tensors of equal shape, given by file and name, hold the same numbers.

    Samples of each tell, the first and the last bytes among them: different matrices differ
    nearly everywhere. None where they cannot be read (a file without its weights).
    """
    places = [_place(*each) for each in (one, other)]
    if len({end - start for start, end in places}) > 1:
        return None
    with one[0].open("rb") as first, other[0].open("rb") as second:
        for part in range(_SAMPLES):
            samples = []
            for stream, (start, end) in zip((first, second), places, strict=True):
                size = min(_SAMPLE_BYTES, end - start)
                stream.seek(start + (end - start - size) * part // (_SAMPLES - 1))
                sample = stream.read(size)
                if len(sample) < size or not size:
                    return None
                samples.append(sample)
            if samples[0] != samples[1]:
                return False
    return True


def _place(file: Path, tensor: str) -> tuple[int, int]:
    """Where the bytes of a tensor begin and end in its file."""
    with file.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
    start, end = _offsets(read_header(file)[tensor].get("data_offsets"), tensor, file.name)
    return 8 + length + start, 8 + length + end
