"""A part of benchmarks/mutations.py: spoilt inputs end in a plan or one clear line, quickly."""

from __future__ import annotations

import mutations
import pytest
from mutators import KINDS


def test_spoilt_inputs() -> None:
    outcome = mutations.run_all(250, seed=9, processes=1)
    assert outcome.faults == []
    assert outcome.peak_bytes < mutations.BYTES
    assert {kind for kind, _ in outcome.counts} == set(KINDS)
    # Some are bad, some impossible, and some good enough to be planned.
    assert {verdict for _, verdict in outcome.counts} == {"clear error", "no", "plan"}


@pytest.mark.parametrize(
    ("status", "out", "err", "fault"),
    [(0, "fine\n", "", None), (1, "no\n", "vplan: it does not start\n", None),
     (2, "", "vplan: what is wrong\n", None), (2, "", "vplan: one\nvplan: two\n", "status 2"),
     (2, "", "vplan: a.json is broken; renamed a.json.broken\nvplan: what is wrong\n", None),
     (2, "", "vplan: a.json was written by a newer vplan; this one leaves it alone\nvplan: no\n",
      None),
     (2, "partial\n", "vplan: what is wrong\n", "status 2"), (2, "", "", "status 2"),
     (0, "\x1b[2J\n", "", "raw"), (1, "", "", "status 1"), (130, "", "", "status 130"),
     (1, "", "Traceback (most recent call last):\n", "status 1")],
)  # fmt: skip
def test_the_judge_knows_a_fault(status: int, out: str, err: str, fault: str | None) -> None:
    _, found = mutations._judge(status, out, err, as_json=False)
    assert (found is None) == (fault is None)
    assert fault is None or fault in (found or "")


def test_the_judge_stops_what_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    import signal

    def endless(arguments: list[str]) -> int:
        while True:
            pass

    monkeypatch.setattr("planner.cli.app.run", endless)
    monkeypatch.setattr(mutations, "SECONDS", 0.05)
    before = signal.signal(signal.SIGVTALRM, mutations._stop)
    try:
        verdict, fault, _ = mutations.run_case([])
    finally:
        signal.signal(signal.SIGVTALRM, before)
    assert verdict == "fault"
    assert "more than" in str(fault)
