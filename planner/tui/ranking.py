"""The ranking as a table: its filters, its columns, and what each is sorted by."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from planner.cli.format import gib, rate_band, seconds, short_count
from planner.errors import PlanError
from planner.recommendation.licences import ANY_LICENCE, Licences
from planner.recommendation.rank import Choice
from planner.recommendation.requirements import Requirements
from planner.workload import token_count, use_case_workload


class Filters(Struct, frozen=True):
    """What was written into the filters; nothing written is no filter."""

    use_case: str
    context: str = ""
    licence: str = ""
    pace: str = ""  # tokens per second for each user, at least

    def requirements(self, concurrency: int) -> Requirements:
        """What a model must satisfy. Raises `PlanError` for what is no filter."""
        return Requirements(
            use_case_workload(self.use_case, concurrency),
            self.use_case,
            context=token_count(self.context, "the context") if self.context.strip() else None,
            licences=Licences.named(self.licence) if self.licence.strip() else ANY_LICENCE,
            min_tokens_per_second=_pace(self.pace) if self.pace.strip() else None,
        )


def _pace(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise PlanError(f"{text.strip()!r} is no number of tokens per second") from None


class Column(Struct, frozen=True):
    """A column. `key` is what rows are sorted by, None last; `best` first: the largest or not."""

    name: str
    text: Callable[[Choice, bool], str]  # True: there is room for bands
    key: Callable[[Choice], float | str | None]
    largest_first: bool = True
    is_number: bool = True  # and stands at the right


def _pace_of(choice: Choice) -> float | None:
    speed = choice.settled.speed
    return speed.per_user.value if speed is not None else None


def _pace_text(choice: Choice, roomy: bool) -> str:
    speed = choice.settled.speed
    if speed is None:
        return "-"
    return rate_band(speed.per_user) if roomy else f"{speed.per_user.value:.0f}"


def _quality_text(choice: Choice, roomy: bool) -> str:
    quality = choice.quality
    return f"{quality.score:.1f}" + (f" ± {quality.error:.1f}" if roomy else "")


def _about(choice: Choice) -> str:
    return "" if choice.card.exact else "~"


def _answer(choice: Choice) -> float | None:
    answer = choice.seconds_per_answer
    return answer.value if answer is not None else None


def _at_once(choice: Choice) -> float:
    memory = choice.settled.memory
    return memory.requests_at(memory.config.max_model_len).value


def _answer_text(choice: Choice, roomy: bool) -> str:
    answer = choice.seconds_per_answer
    return seconds(answer.value) if answer is not None else "-"


COLUMNS: Final = (
    Column("tier", lambda each, _: str(each.tier), lambda each: each.tier, False),
    Column("model", lambda each, _: each.model_id, lambda each: each.model_id.lower(), False,
           False),
    Column("format", lambda each, _: each.card.format_kind, lambda each: each.card.format_kind,
           False, False),
    Column("quality", _quality_text, lambda each: each.quality.score),
    Column("GiB", lambda each, _: _about(each) + gib(each.settled.memory.tightest.weights.value),
           lambda each: each.settled.memory.tightest.weights.value, False),
    Column("KV tokens", lambda each, _: _about(each)
           + short_count(each.settled.memory.kv_tokens.value),
           lambda each: each.settled.memory.kv_tokens.value),
    Column("tok/s", _pace_text, _pace_of),
    Column("answer", _answer_text, _answer, False),
    Column("at once", lambda each, _: f"{_at_once(each):.1f}", _at_once),
    Column("released", lambda each, _: each.released, lambda each: each.released, True, False),
    Column("licence", lambda each, _: each.card.license or "-",
           lambda each: each.card.license, False, False),
)  # fmt: skip


def ordered(choices: Iterable[Choice], column: Column | None, *, backwards: bool) -> list[Choice]:
    """Choices by a column, None: as they were ranked; those without a value last."""
    rows = list(choices)
    if column is None:
        return rows[::-1] if backwards else rows
    known = [each for each in rows if column.key(each) is not None]
    known.sort(key=lambda each: column.key(each) or 0, reverse=column.largest_first != backwards)
    return known + [each for each in rows if column.key(each) is None]
