"""`vplan models`: what is listed, and that its two forms agree."""

from __future__ import annotations

import json

import pytest
from program import Vplan


@pytest.mark.parametrize("name", ["qwen3-8b", "eagle3", "Qwen/Qwen3-8B"])
def test_json_lists_what_the_table_lists(name: str, vplan_here: Vplan) -> None:
    text, as_json = vplan_here("models", name), vplan_here("models", name, "--json")
    assert (text.status, as_json.status) == (0, 0)
    names = [model["id"] for model in json.loads(as_json.out)["models"]]
    if "/" in name:
        assert names == [name]
        assert name in text.out
    else:
        assert all(name in each.lower() for each in names)
        assert f"{len(names)} models." in text.out


def test_drafts_are_counted_and_found_by_name(vplan_here: Vplan) -> None:
    everything, heads = vplan_here("models"), vplan_here("models", "eagle3")
    assert "drafts for speculative decoding" in everything.out
    assert "EAGLE3" in heads.out or "eagle3" in heads.out


def test_what_is_stored_in_32_bits_is_called_so(vplan_here: Vplan) -> None:
    """OLMo 2 32B: 32.2 billion parameters of 4 bytes, served in half of that."""
    shown = vplan_here("models", "allenai/OLMo-2-0325-32B", "--offline")
    assert "120.08 GiB as 32bit" in shown.out
    assert "half" in shown.out
