"""The files of releases are tables that can be taken apart, and a release can be added to them.

What changed when is in the release notes and sources of vLLM.
"""

from __future__ import annotations

from typing import Any

import pytest
from add_release import difference, with_release
from release_tables import compress, expand, read

from planner.engine.options import (
    closed_choices,
    default_of,
    has_config_key,
    has_speculative_method,
    is_deprecated,
    is_mtp_method,
    known_option,
    knows_variable,
    releases_with_method,
    releases_with_variable,
)
from planner.engine.releases import find_release, known_releases

TABLES = expand(*read())


def test_the_files_are_the_tables_of_all_releases() -> None:
    assert [table["release"] for table in TABLES] == list(known_releases())
    assert compress(TABLES) == read()


@pytest.mark.parametrize("name", ["0.8.5", "0.18.1", "0.32.0", "0.33.0"])
def test_a_release_that_is_added_again_changes_nothing(name: str) -> None:
    table = next(each for each in TABLES if each["release"] == name)
    others = [each for each in TABLES if each is not table]
    assert compress(others) != read()
    assert compress(with_release(others, table)) == read()


def test_a_new_release_leaves_the_others_as_they_were() -> None:
    """One that drops an option, changes a default, and brings a KV cache dtype."""
    newest: dict[str, Any] = TABLES[-1]
    new = {
        **newest,
        "release": "0.34.0",
        "names": {n: row for n, row in newest["names"].items() if n != "--seed"},
        "settings": {
            **{d: each for d, each in newest["settings"].items() if d != "seed"},
            "gpu_memory_utilization": {"default": 0.95, "choices": None, "deprecated": False},
        },
        "choices": {**newest["choices"], "kv_cache_dtype": [*newest["choices"]["kv_cache_dtype"],
                                                             "zfp3"]},
    }  # fmt: skip
    tables = expand(*compress(with_release(TABLES, new)))
    assert tables == [*TABLES, new]
    assert difference(newest, new) == [
        "- names: --seed",
        "+ kv_cache_dtype: zfp3",
        "= default of gpu_memory_utilization: 0.92 -> 0.95",
    ]


@pytest.mark.parametrize(
    ("dest", "defaults"),
    [
        ("gpu_memory_utilization", {"0.8.5": 0.9, "0.19.1": 0.9, "0.20.0": 0.92}),
        ("model", {"0.9.2": "facebook/opt-125m", "0.10.0": "Qwen/Qwen3-0.6B"}),
        ("prefix_caching_hash_algo", {"0.10.1.1": "builtin", "0.10.2": "sha256"}),
        ("seed", {"0.11.2": None, "0.12.0": 0}),
        ("allowed_origins", {"0.31.0": ["*"], "0.32.0": None}),
        ("disable_cascade_attn", {"0.17.1": False, "0.18.0": True, "0.32.0": None}),
        ("optimization_level", {"0.11.2": None, "0.12.0": 2}),
        ("swap_space", {"0.17.1": 4, "0.18.0": None}),
    ],
)
def test_defaults(dest: str, defaults: dict[str, Any]) -> None:
    assert {name: default_of(dest, find_release(name)) for name in defaults} == defaults


def test_what_an_option_takes_changed() -> None:
    """`--max-model-len auto` parses from 0.14.0 on, `8k` batched tokens from 0.9.1 on."""
    kinds = {
        name: (
            known_option("--max-model-len", find_release(name)),
            known_option("--max-num-batched-tokens", find_release(name)),
        )
        for name in ("0.9.0", "0.9.1", "0.13.0", "0.14.0")
    }
    types = {name: [each.type for each in pair if each] for name, pair in kinds.items()}
    assert types["0.9.0"] == ["human_readable_int", "int"]
    assert types["0.9.1"] == ["human_readable_int", "human_readable_int"]
    assert types["0.13.0"] == types["0.9.1"]
    assert types["0.14.0"] == ["human_readable_int_or_auto", "human_readable_int"]


def test_choices_that_the_parser_closes() -> None:
    assert closed_choices("block_size", find_release("0.8.5")) == (
        "1",
        "128",
        "16",
        "32",
        "64",
        "8",
    )
    assert "256" in closed_choices("block_size", find_release("0.11.1"))
    assert closed_choices("block_size", find_release("0.18.0")) == ()
    assert "nvfp4" in closed_choices("kv_cache_dtype", find_release("0.32.0"))
    assert closed_choices("kv_cache_dtype", find_release("0.33.0")) == ()


def test_deprecations_methods_keys_and_variables() -> None:
    old, new = find_release("0.12.0"), find_release("0.33.0")
    assert is_deprecated("task", old)
    assert not is_deprecated("task", find_release("0.10.0"))
    assert has_speculative_method("medusa", find_release("0.32.0"))
    assert not has_speculative_method("medusa", new)
    assert releases_with_method("dflash") == ("0.20.0", "0.33.0")
    assert is_mtp_method("deepseek_mtp", new)
    assert not is_mtp_method("eagle", new)
    assert has_config_key("compilation_config", "level", find_release("0.17.1"))
    assert not has_config_key("compilation_config", "level", find_release("0.18.0"))
    assert has_config_key("hf_overrides", "anything", new)
    assert knows_variable("VLLM_ATTENTION_BACKEND", find_release("0.14.1"))
    assert not knows_variable("VLLM_ATTENTION_BACKEND", find_release("0.15.1"))
    assert releases_with_variable("VLLM_NO_SUCH_THING") is None
