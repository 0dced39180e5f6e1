"""`vplan check --fix`: the corrected command, what changed and why."""

from __future__ import annotations

from typing import Final

from hardware_db import Rig
from planner.cli.console import fail, print_json, say, say_item, say_verbatim
from planner.cli.export import JSON, Target, printed_to
from planner.cli.format import chance
from planner.cli.status import Status
from planner.command.exports import export
from planner.command.parse import ServeCommand
from planner.command.secrets import is_secret
from planner.diagnosis.fix import Fixed, fix_command
from planner.errors import PlanError
from planner.memory.verdict import Answer

_STATUS: Final = {Answer.YES: Status.YES, Answer.NO: Status.NO, Answer.RISKY: Status.RISKY}


def put_out_fixed(command: ServeCommand, rig: Rig, wanted: Target | None, *, offline: bool) -> int:
    """Print the corrected command, or write it in a format; the exit status is its verdict."""
    fixed = fix_command(command, rig, offline=offline)
    if wanted is not None and wanted.format == JSON:
        from planner.report.check import CheckReport

        with printed_to(wanted):
            print_json(CheckReport.of(fixed.check, fixed))
    elif wanted is not None:
        wanted.write(_exported(fixed, wanted.format))
    if wanted is None or wanted.path is not None:
        _print(fixed, with_command=wanted is None)
    if not fixed.mended:
        _complain(fixed)
    return _STATUS[fixed.check.answer]


def _exported(fixed: Fixed, format: str) -> str:
    memory = fixed.check.memory
    if memory is None:
        raise PlanError(f"no plan can be made of the command: {_reason(fixed)}")
    return export(memory, format, command=fixed.command, environ=fixed.environ)


def _print(fixed: Fixed, *, with_command: bool) -> None:
    if with_command:
        plain = [f"{name}={value} " for name, value in fixed.environ if not is_secret(name)]
        say_verbatim("".join(plain) + fixed.command.shell())
        say()
    if not fixed.changes:
        say("Nothing had to be changed.")
    else:
        say("What changed, and why:")
    for change in fixed.changes:
        say_item(f"{change.what}: {change.why}")
    secrets = [name for name, _ in fixed.environ if is_secret(name)]
    if secrets:
        say_item(f"{', '.join(secrets)}: not shown; set where it runs")
    say()
    risk = chance(fixed.check.chance_of_refusal)
    if fixed.mended:
        say(f"It starts; chance that vLLM refuses: {risk}.", "green")


def _complain(fixed: Fixed) -> None:
    state = "may not start" if fixed.check.answer is Answer.RISKY else "does not start"
    fail(f"the corrected command still {state}: {_reason(fixed)}")


def _reason(fixed: Fixed) -> str:
    errors = [f.text for f in fixed.check.findings if f.severity.value == "error"]
    memory = fixed.check.memory
    return errors[0] if errors else memory.starts.reason if memory is not None else "no plan"
