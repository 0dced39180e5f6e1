"""How fast a plan serves, as `vplan recommend` and `vplan check` say it: text, JSON, pictures."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from program import Vplan

MODEL = ("recommend", "--gpu", "4090", "--model", "Qwen/Qwen3-8B", "--context", "16k", "--offline")
COMMAND = ("--", "vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "8192")


def test_a_table_of_loads(vplan_here: Vplan) -> None:
    run = vplan_here(*MODEL, "--concurrency", "8", "--price-per-hour", "0.5")
    assert run.status == 0
    assert "tok/s for each user" in run.out
    assert "physical" in run.out
    assert "at once   tok/s for each   tok/s in total   first token" in run.out
    rows = [line.split() for line in run.out.splitlines() if line.strip()[:2] in ("1 ", "8 ")]
    assert [row[0] for row in rows] == ["1", "8"]
    assert float(rows[0][1]) > float(rows[1][1])  # each
    assert float(rows[0][3]) < float(rows[1][3])  # in total
    assert "A million tokens of answers: " in run.out
    assert "J a token" in run.out


def test_targets_and_a_rate(vplan_here: Vplan) -> None:
    run = vplan_here(*MODEL, "--max-tpot", "0.03", "--request-rate", "20", "--json")
    serving = json.loads(run.out)["serving"]
    assert serving["speed"] is None  # that many pile up
    assert serving["max_requests_per_second"] < 20
    assert 1 <= serving["target_users"] < serving["cache_users"]
    assert serving["launches"] == -(-20 // serving["target_requests_per_second"])
    shown = vplan_here(*MODEL, "--max-tpot", "0.03", "--request-rate", "20").out
    assert f"{serving['launches']} such launches side by side" in shown
    slower = vplan_here(*MODEL, "--max-tpot", "0.001")
    assert "Not even one user gets token at most 1 ms" in slower.out


def test_energy_and_price_by_hand(vplan_here: Vplan) -> None:
    """450 W over the tokens of a second; half a dollar an hour over those of an hour."""
    serving = json.loads(vplan_here(*MODEL, "--price-per-hour", "0.5", "--json").out)["serving"]
    total = serving["speed"]["tokens_per_second_total"]["value"]
    assert serving["joules_per_token"]["value"] == pytest.approx(450 / total)
    assert serving["price_per_million_tokens"]["value"] == pytest.approx(0.5e6 / 3600 / total)


def test_check_says_how_fast(vplan_here: Vplan) -> None:
    run = vplan_here("check", "--gpu", "4090", "--offline", "--concurrency", "4", *COMMAND)
    assert run.status == 0
    assert "Speed: " in run.out
    report = json.loads(vplan_here("check", "--gpu", "4090", "--offline", "--json", *COMMAND).out)
    loads = report["serving"]["loads"]
    assert [load["concurrency"] for load in loads][:3] == [1, 2, 4]
    refused = vplan_here("check", "--gpu", "3060", "--offline", "--json", *COMMAND)
    assert json.loads(refused.out)["serving"] is None


def test_pictures(vplan_here: Vplan, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawing, picture = tmp_path / "speed.svg", tmp_path / "speed.png"
    assert vplan_here(*MODEL, "--plot", str(drawing)).status == 0
    assert ElementTree.parse(drawing).getroot().tag.endswith("svg")
    assert "Roofline" in drawing.read_text()
    check = ("check", "--gpu", "4090", "--offline", "--plot", str(picture))
    assert vplan_here(*check, *COMMAND).status == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    again = vplan_here(*MODEL, "--plot", str(drawing))
    assert again.status == 2
    assert "--force overwrites it" in again.err
    assert vplan_here(*MODEL, "--plot", str(drawing), "--force").status == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [(("--plot", "speed.pdf"), "ends in .svg or .png"), (("--max-ttft", "-1"), "more than 0"),
     (("--request-rate", "nan"), "more than 0"), (("--price-per-hour", "-2"), "makes no sense"),
     (("--shared-prefix", "1.5"), "less than 1"), (("--concurrency", "0"), "between 1 and")],
)  # fmt: skip
def test_options_that_make_no_sense(vplan_here: Vplan, options: tuple[str, ...], said: str) -> None:
    for run in (
        vplan_here(*MODEL, *options),
        vplan_here("check", "--gpu", "4090", "--offline", *options, *COMMAND),
    ):
        assert run.status == 2
        assert said in run.err
        assert len(run.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--model", "Qwen/Qwen3-8B", "--request-rate", "2"), "chat: 2 requests a second, 1024 +"),
        (("--model", "Qwen/Qwen3-8B", "-n", "4"), "chat: 4 requests at a time, 1024 + 384"),
        (("--model", "BAAI/bge-m3"), "prompts of up to 8,192 tokens, each read at once"),
    ],
)
def test_the_load_is_said_first(vplan_here: Vplan, arguments: tuple[str, ...], said: str) -> None:
    run = vplan_here("recommend", "--gpu", "h100-sxm", "--offline", *arguments)
    assert run.out.splitlines()[1].startswith(said)
    assert "no difference that is predicted" not in run.out
