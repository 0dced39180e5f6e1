"""Answers that were reviewed: a change of any must be meant.

`python tests/planner/golden_answers.py` writes them anew; what it changed is for a reviewer.
"""

from __future__ import annotations

from difflib import unified_diff

import pytest
from golden_answers import FOLDER, QUESTIONS, answer


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.usefixtures("vplan_here")
def test_the_answer_is_the_one_that_was_reviewed(name: str) -> None:
    reviewed = (FOLDER / f"{name}.txt").read_text("utf-8")
    now = answer(QUESTIONS[name])
    diff = unified_diff(reviewed.splitlines(), now.splitlines(), "reviewed", "now", lineterm="")
    assert now == reviewed, "\n".join(["differs:", *diff])


def test_every_golden_file_has_its_question() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(QUESTIONS)
