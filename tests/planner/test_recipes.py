"""Official commands: vplan's lint takes them for commands that start (benchmarks/recipes.py)."""

from __future__ import annotations

from functools import cache

from recipes import (
    FAULTS,
    REFUSALS,
    RISKS,
    Recipe,
    Score,
    fault,
    is_elsewhere,
    judge,
    lint_errors,
    recipes,
    refusal,
    risk,
)

from planner.command.parse import read_command
from planner.errors import PlanError


@cache
def errors() -> tuple[int, tuple[tuple[Recipe, str], ...]]:
    """How many commands there are, and the first error of each that has one."""
    count, found = 0, []
    for recipe in recipes():
        if is_elsewhere(recipe):
            continue
        count += 1
        try:
            wrong = lint_errors(read_command(recipe.words, recipe.release or "0.33.0"))
        except PlanError as error:
            wrong = [str(error)]
        found += [(recipe, text) for text in wrong[:1]]
    return count, tuple(found)


def test_hardly_any_official_command_is_taken_for_wrong() -> None:
    count, found = errors()
    assert count > 1000
    false = [(recipe.words, text) for recipe, text in found if fault(text) is None]
    assert len(false) <= 0.03 * count, false


def test_known_faults_are_still_found() -> None:
    """They are errors for 0.33: a lint that finds none of them has stopped looking."""
    named = {fault(text) for _, text in errors()[1]}
    assert set(FAULTS) <= named


def test_every_official_command_starts_where_it_is_listed_or_it_is_known_why_not() -> None:
    """Of those that vLLM refuses, its own check is named; nearly all start by the plan."""
    score = Score()
    for recipe in recipes():
        judge(recipe, score, "0.33.0", compares=False)
    assert score.planned > 800
    why = [(refusal(recipe, text), recipe, spec, text) for recipe, spec, text in score.refused]
    assert [each for each in why if each[0] is None] == []
    perhaps = [(risk(text), recipe, spec, text) for recipe, spec, text in score.risky]
    assert [each for each in perhaps if each[0] is None] == []
    assert {each[0] for each in why} == set(REFUSALS.values())
    assert {each[0] for each in perhaps} == set(RISKS.values())
    assert len(score.refused) <= 0.04 * score.planned
