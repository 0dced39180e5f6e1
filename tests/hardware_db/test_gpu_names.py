"""Names: what people type and what drivers report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hardware_db import HardwareError, UnknownGpu, all_gpus, find_gpu
from hardware_db.catalogue import match_gpu
from hardware_db.units import GIB, MIB

HERE = Path(__file__).parent


def table(name: str) -> list[list[str]]:
    lines = (HERE / name).read_text("utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


def test_every_alias_finds_its_card() -> None:
    rows = table("typed_names.tsv")
    assert len(rows) > 1100
    wrong = [(text, slug) for text, slug in rows if find_gpu(text).gpu.slug != slug]
    assert wrong == []


def test_every_reported_name_with_every_total_finds_its_card_exactly() -> None:
    rows = table("driver_totals.tsv")
    assert len({name for name, *_ in rows}) > 150
    for name, mib, slug, _ in rows:
        match = find_gpu(name, memory_bytes=int(mib) * MIB)
        assert (match.gpu.slug, match.exact, match.note) == (slug, True, None), name


@pytest.mark.parametrize(
    ("text", "slug"),
    [("4090", "rtx-4090"), ("rtx4090", "rtx-4090"), ("RTX 4090", "rtx-4090"),
     ("NVIDIA GeForce RTX 4090", "rtx-4090"), ("GeForceRTX4090", "rtx-4090"),
     ("24gb 3090", "rtx-3090"), ("4090 24 GB", "rtx-4090"), ("a100-80g", "a100-sxm4-80gb"),
     ("a100 80gb", "a100-sxm4-80gb"), ("A100 40GB PCIe", "a100-pcie-40gb"),
     ("h100 sxm", "h100-sxm"), ("h100", "h100-sxm"), ("H100 80GB HBM3", "h100-sxm"),
     ("NVIDIA H100 80GB HBM3", "h100-sxm"), ("H100-PCIe", "h100-pcie"), ("GB10", "gb10"),
     ("dgx spark", "gb10"), ("mi300x", "mi300x"), ("Ryzen AI Max+ 395", "radeon-8060s"),
     ("RTX A1000", "rtx-a1000"), ("A800-SXM4", "a800-sxm4-80gb"), ("Tesla T4", "t4"),
     ("RTX 3080 Mobile 16GB", "rtx-3080-16gb-laptop"), ("4090 laptop", "rtx-4090-laptop"),
     ("NVIDIA® RTX™ A6000", "rtx-a6000"), ("Intel(R) Arc(TM) B580 Graphics", "arc-b580"),
     ("10de:2b85", "rtx-5090"), ("NVIDIA GH200 480GB", "gh200-96gb"),
     ("RTX PRO 6000 Max-Q", "rtx-pro-6000-blackwell-maxq"), ("  3090  ", "rtx-3090")],
)  # fmt: skip
def test_names_people_type(text: str, slug: str) -> None:
    assert find_gpu(text).gpu.slug == slug


@pytest.mark.parametrize(
    ("text", "slug", "others"),
    [("3060", "rtx-3060", ["rtx-3060-8gb"]),
     ("3080", "rtx-3080", ["rtx-3080-12gb"]),
     ("4060 Ti", "rtx-4060-ti-16gb", ["rtx-4060-ti-8gb"]),
     ("NVIDIA GeForce RTX 4060 Ti", "rtx-4060-ti-16gb", ["rtx-4060-ti-8gb"]),
     ("5060ti", "rtx-5060-ti-16gb", ["rtx-5060-ti-8gb"]),
     ("rtx5060ti", "rtx-5060-ti-16gb", ["rtx-5060-ti-8gb"]),
     ("a100", "a100-sxm4-80gb", ["a100-pcie-40gb", "a100-sxm4-40gb", "a100-pcie-80gb"]),
     ("a100 pcie", "a100-pcie-40gb", ["a100-pcie-80gb"]),
     ("A100-SXM", "a100-sxm4-80gb", ["a100-sxm4-40gb"]),
     ("a100 80gb", "a100-sxm4-80gb", ["a100-pcie-80gb"]),
     ("a100-80", "a100-sxm4-80gb", ["a100-pcie-80gb"]),
     ("a100 40", "a100-sxm4-40gb", ["a100-pcie-40gb"]),
     ("h100", "h100-sxm", ["h100-pcie", "h100-nvl"]),
     ("h200", "h200-sxm", ["h200-nvl"]),
     ("v100", "v100-sxm2-16gb", ["v100-sxm2-32gb", "v100-pcie-16gb", "v100-pcie-32gb"]),
     ("3080 laptop", "rtx-3080-8gb-laptop", ["rtx-3080-16gb-laptop"]),
     ("rtx pro 6000", "rtx-pro-6000-blackwell",
      ["rtx-pro-6000-blackwell-maxq", "rtx-pro-6000-blackwell-server"]),
     ("Orin", "jetson-agx-orin-64gb", ["jetson-agx-orin-32gb", "jetson-orin-nano-super-8gb"])],
)  # fmt: skip
def test_an_ambiguous_name_says_what_it_was_taken_for(
    text: str, slug: str, others: list[str]
) -> None:
    match = find_gpu(text)
    assert (match.gpu.slug, match.exact) == (slug, False)
    assert match.note is not None
    assert match.note.startswith(f'"{text}" is taken as ')
    assert [word.strip(",") for word in match.note.split() if word.strip(",") in others] == others


def test_the_only_size_in_the_catalogue_is_named() -> None:
    """Other sizes of these are sold, but not described here."""
    for text in ("3050", "a2000", "9060 xt"):
        match = find_gpu(text)
        assert not match.exact
        assert match.note is not None
        assert match.note.endswith(", the only one known by that name")


def test_the_note_reads_well() -> None:
    assert find_gpu("3060").note == (
        '"3060" is taken as RTX 3060 12 GB; for the 8 GB card write rtx-3060-8gb'
    )


@pytest.mark.parametrize(
    "text", ["rtx-4090", "RTX-3060", "h100-sxm", "H200 NVL", "NVIDIA H200", "4090 24gb", "l40",
             "NVIDIA A100-SXM4-80GB", "3060 8gb", "h100 pcie", "3060-12", "4060ti 16",
             # Cards with more memory soldered on are no second meaning of a name.
             "rtx4090", "2080 Ti"]
)  # fmt: skip
def test_a_name_that_says_enough_is_exact(text: str) -> None:
    match = find_gpu(text)
    assert (match.exact, match.note) == (True, None)


def test_a_model_whose_other_sizes_are_not_in_the_catalogue_is_not_exact() -> None:
    match = find_gpu("RTX 2060")  # sold with 6 GB as well
    assert (match.gpu.slug, match.exact) == ("rtx-2060-12gb", False)
    assert not find_gpu("AMD Radeon Graphics").exact


@pytest.mark.parametrize(
    "text", ["4909", "rtx 409o", "h1000", "409", "40900", "a10 0", "M4", "RTX 6000", "rtx 4000",
             "quadro 4000", "3090 12gb", "A100-SXM-64GB", "4090 max-q", "l40s laptop", "gtx 1080",
             "RTX", "NVIDIA", "GPU", "x", "", " ", "+", "Apple M4", "a100 nvl", "rtx 4090 server",
             "4090 3090", "h100-sxm-foo"]
)  # fmt: skip
def test_a_name_that_is_nothing_is_refused(text: str) -> None:
    with pytest.raises(UnknownGpu) as caught:
        find_gpu(text)
    message = str(caught.value)
    assert message.startswith(f'Unknown GPU "{text.strip()}".')
    assert "\n" not in message
    with pytest.raises(UnknownGpu):
        find_gpu(text, memory_bytes=24 * GIB)


def test_near_misses_are_suggested_in_the_error_only() -> None:
    with pytest.raises(
        HardwareError, match=r"^Unknown GPU \"4909\"\. Did you mean: rtx-4090, "
    ) as e:
        find_gpu("4909")
    assert str(e.value).endswith('? See "vplan gpus".')
    with pytest.raises(UnknownGpu) as caught:
        find_gpu("3090 12gb")
    assert caught.value.suggestions[0] == "rtx-3090"


def test_errors_never_echo_terminal_escapes() -> None:
    with pytest.raises(UnknownGpu) as caught:
        find_gpu("4090\x1b]0;owned\x07\u202e\n" + "y" * 500)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("name", "mib", "slug"),
    [("NVIDIA GeForce RTX 3060", 8192, "rtx-3060-8gb"),
     ("NVIDIA GeForce RTX 3060", 12036, "rtx-3060"),
     ("NVIDIA GeForce RTX 3080", 20480, "rtx-3080-20gb"),
     ("NVIDIA GeForce RTX 4090", 49140, "rtx-4090-48gb"),
     ("Orin", 7607, "jetson-orin-nano-super-8gb"),
     ("h100", 95830, "h100-nvl"), ("NVIDIA H100 PCIe", 81559, "h100-pcie"),
     ("NVIDIA RTX 6000 Ada Generation", 46068, "rtx-6000-ada"),  # ECC switched on
     ("10de:2684", 24564, "rtx-4090")],
)  # fmt: skip
def test_memory_decides_between_cards_of_one_name(name: str, mib: int, slug: str) -> None:
    match = find_gpu(name, memory_bytes=mib * MIB)
    assert (match.gpu.slug, match.exact) == (slug, True)


@pytest.mark.parametrize(
    ("name", "mib", "slug"),
    [("NVIDIA GeForce RTX 4090", 98280, "rtx-4090-48gb"),
     ("NVIDIA GeForce RTX 5090", 16384, "rtx-5090"),
     ("NVIDIA GeForce RTX 2060", 6144, "rtx-2060-12gb"), ("rtx-4090", 49140, "rtx-4090")],
)  # fmt: skip
def test_memory_that_no_such_card_has_is_called_out(name: str, mib: int, slug: str) -> None:
    match = find_gpu(name, memory_bytes=mib * MIB)
    assert (match.gpu.slug, match.exact) == (slug, False)
    assert match.note is not None
    assert "modified or partitioned" in match.note


def test_a_search_among_some_names_finds_what_one_among_all_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a text holds the number of a model, only GPUs that have it in a name are indexed."""
    texts = set()
    for gpu in all_gpus():
        for name in (gpu.slug, gpu.name, *gpu.aliases, *gpu.reported_names, *gpu.pci_ids):
            together = re.sub(r"[^0-9A-Za-z]", "", name)
            for way in (name, name.replace("-", " "), together, *name.split()):
                texts |= {way, f"{way} 24GB", f"{way} 80", f"141gb {way}"}
    sizes = (None, 12 * GIB, 80 * GIB)
    asked = [(text, size) for text in sorted(texts) for size in sizes]
    found = [match_gpu(text, memory_bytes=size) for text, size in asked]
    monkeypatch.setattr("hardware_db.catalogue._MODEL_NUMBER", re.compile("(?!)"))  # all of them
    assert [match_gpu(text, memory_bytes=size) for text, size in asked] == found
    assert sum(match is not None for match in found) > 4000
