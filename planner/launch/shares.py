"""Where the memory of a GPU went, as far as a log says it."""

from __future__ import annotations

from msgspec import Struct

from planner.launch.facts import LaunchFacts, RankFacts


class Share(Struct, frozen=True):
    """A part of a rank's memory, in bytes. The letter stands for it in a bar."""

    letter: str
    name: str
    size: int


class Shares(Struct, frozen=True):
    """All parts of one rank. Without a known total, `total` is their sum."""

    rank: str
    total: int
    total_known: bool
    parts: tuple[Share, ...]

    def bar(self, width: int) -> str:
        """One letter for each part of the width; what is there gets at least one."""
        text = ""
        for index, part in enumerate(self.parts):
            after = len(self.parts) - index - 1
            room = max(0, width - len(text) - after)
            letters = max(1, round(width * part.size / self.total))
            text += part.letter * (room if after == 0 else min(room, letters))
        return text[:width]


def shares(facts: LaunchFacts) -> Shares | None:
    """The parts of the tightest rank; None where the log says nothing of memory."""
    told = [rank for rank in facts.ranks if _parts(rank)]
    if not told:
        return None
    cached = [rank for rank in told if rank.kv_cache is not None]
    rank = min(cached, key=lambda rank: rank.kv_cache or 0) if cached else told[0]
    parts = _parts(rank)
    used = sum(part.size for part in parts)
    if rank.total is None:
        return Shares(rank.name, used, False, tuple(parts))
    outside = max(0, rank.total - max(used, rank.requested or 0))
    unsaid = max(0, rank.total - used - outside)
    told_all = rank.weights is not None or rank.consumed is not None
    left_over = "left over" if told_all else "left over, or not said"
    rest = [Share("?", "requested, not said what for", unsaid), Share(".", left_over, outside)]
    everything = (*parts, *(part for part in rest if part.size))
    return Shares(rank.name, max(rank.total, used), True, everything)


def _parts(rank: RankFacts) -> list[Share]:
    non_torch, both = rank.non_torch, None
    if rank.consumed is not None and rank.weights is not None and non_torch is None:
        non_torch = max(0, rank.consumed - rank.weights)
    elif rank.weights is None:
        both = rank.consumed
    graphs = rank.graphs if rank.graphs is not None else rank.graphs_estimated
    said = [
        ("W", "weights", rank.weights),
        ("W", "weights and the process", both),
        ("A", "activation peak", rank.activation),
        ("N", "outside torch", non_torch),
        ("G", "CUDA graphs", graphs),
        ("K", "KV cache", rank.kv_cache),
    ]
    return [Share(letter, name, size) for letter, name, size in said if size and size > 0]
