from __future__ import annotations

import pytest

from hardware_db.units import GIB, MIB, exact_size, gib, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("22GiB", 22 * GIB), ("22gib", 22 * GIB), ("20G", 20 * GIB), ("20g", 20 * GIB),
     ("24GB", 24 * 10**9), ("24564MiB", 24564 * MIB), ("512M", 512 * MIB), ("512MB", 512 * 10**6),
     ("1.5TiB", 3 * 2**39), ("23.5 GiB", 47 * GIB // 2), ("25769803776", 24 * GIB),
     ("25769803776B", 24 * GIB)],
)  # fmt: skip
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "GiB", "24", "-3GiB", "1e3GiB", "nanGiB", "infGiB", "24 KiB", "80%", "24GiBs",
             "24,5GiB", "2048TiB", "٣GiB", "24GiB\n24GiB", "9" * 4400 + "GiB", "0GiB"]
)  # fmt: skip
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=r"memory size|unit missing|more than any") as caught:
        parse_size(text)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("size", [24 * GIB, 24564 * MIB, 25276514304, MIB, MIB + 1])
def test_exact_sizes_read_back(size: int) -> None:
    assert parse_size(exact_size(size)) == size


def test_sizes_for_people() -> None:
    assert gib(25300041728) == "23.56 GiB"
