"""What random plans emit is in the table of their release; benchmarks/random_plans.py runs more."""

from __future__ import annotations

from random_plans import emitted, problems, random_plans

from planner.engine.releases import find_release


def test_what_plans_emit_is_in_their_release() -> None:
    releases = set()
    for plan in random_plans(250, seed=7):
        releases.add(plan.release.name)
        commands = list(emitted(plan))
        assert commands
        for words in commands:
            assert problems(words, plan.release) == [], plan.release.name
    assert len(releases) > 30


def test_the_table_tells_what_is_not_there() -> None:
    speculative = '{"method": "mtp", "no_key": 1}'
    words = ["--kv-cache-dtype", "nvfp4", "--block-size", "24", "--max-model-len", "auto"]
    words += ["--speculative-config", speculative]
    assert len(problems(words, find_release("0.12.0"))) == 5
    assert len(problems(words, find_release("0.33.0"))) == 1
