"""vLLM's scheduler, simulated step by step: the truth that the batch-level model is held against.

The rules of v1/core/sched/scheduler.py: requests that run come first, each with the tokens it still
has to process (one while it decodes), under a budget of tokens; where no block is free the last one
is preempted and starts again; then waiting requests, in order, while budget, `max_num_seqs` and
blocks last, and not in a step that preempted. The time of each step is the step-time model's.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct

from planner.speed.step import StepModel

BLOCK = 16


@dataclass
class Request:
    """One request: lengths, what is processed, and when things happened."""

    prompt: int
    answer: int
    arrived: float
    done: int = 0  # tokens processed
    written: int = 0  # tokens of the answer
    blocks: int = 0
    first_at: float = 0.0
    ended_at: float = 0.0

    @property
    def left(self) -> int:
        """Tokens to process before the next one is written."""
        return self.prompt + max(0, self.written - 1) + (1 if self.written else 0) - self.done


class Outcome(Struct, frozen=True):
    """Means over the requests that ended after warming up."""

    tpot: float
    ttft: float
    requests: float  # per second
    running: float
    preemptions: int


def simulate(
    step: StepModel,
    *,
    budget: int,
    most_running: int,
    blocks: int,
    lengths: Callable[[random.Random], tuple[int, int]],
    users: int = 0,
    rate: float = 0.0,
    count: int = 400,
    seed: int = 1,
) -> Outcome:
    """Serve until `count` requests have ended: of `users` who ask again, or at random at `rate`."""
    chance = random.Random(seed)
    arrivals: list[tuple[float, int]] = []
    for number in range(users or 1):
        heapq.heappush(arrivals, (chance.random() * 0.5 if users else 0.0, number))
    waiting: deque[Request] = deque()
    running: list[Request] = []
    ended: list[Request] = []
    free, now, preemptions, busy = blocks, 0.0, 0, []
    serial = users
    while len(ended) < count:
        while arrivals and arrivals[0][0] <= now:
            at, _ = heapq.heappop(arrivals)
            waiting.append(Request(*lengths(chance), at))
            if rate:
                serial += 1
                heapq.heappush(arrivals, (at + chance.expovariate(rate), serial))
        if not running and not waiting:
            now = arrivals[0][0]
            continue
        left, chunks, preempted = budget, [], False
        for request in list(running):
            if request not in running or left <= 0:
                continue
            tokens = min(request.left, left)
            while not (need := _needed(request, tokens)) <= free:
                victim = running.pop()
                free += victim.blocks
                victim.blocks, victim.done = 0, 0
                waiting.appendleft(victim)
                preempted, preemptions = True, preemptions + 1
                chunks = [each for each in chunks if each[0] is not victim]
                if victim is request:
                    break
            if request not in running:
                continue
            free -= need
            request.blocks += need
            left -= tokens
            chunks.append((request, tokens))
        while waiting and left > 0 and len(running) < most_running and not preempted:
            request = waiting[0]
            tokens = min(request.left, left)
            need = _needed(request, tokens)
            if need > free:
                break
            waiting.popleft()
            running.append(request)
            free -= need
            request.blocks += need
            left -= tokens
            chunks.append((request, tokens))
        now += _seconds(step, chunks)
        busy.append(len(running))
        for request, tokens in chunks:
            request.done += tokens
            if request.left > 0:
                continue
            request.written += 1
            if request.written == 1:
                request.first_at = now
            if request.written >= request.answer:
                request.ended_at = now
                running.remove(request)
                free += request.blocks
                ended.append(request)
                if users:
                    serial += 1
                    heapq.heappush(arrivals, (now, serial))
    steady = ended[len(ended) // 3 :]
    began = min(request.ended_at for request in steady)
    pace = [(r.ended_at - r.first_at) / (r.answer - 1) for r in steady if r.answer > 1]
    return Outcome(
        sum(pace) / len(pace),
        sum(r.first_at - r.arrived for r in steady) / len(steady),
        (len(steady) - 1) / (now - began),
        sum(busy[len(busy) // 3 :]) / len(busy[len(busy) // 3 :]),
        preemptions,
    )


def _needed(request: Request, tokens: int) -> int:
    """Blocks that it lacks for so many more tokens."""
    return -(-(request.done + tokens) // BLOCK) - request.blocks


def _seconds(step: StepModel, chunks: list[tuple[Request, int]]) -> float:
    decoding = [request for request, _ in chunks if request.written and request.left == 1]
    prompts = [(r, n) for r, n in chunks if not (r.written and r.left == 1)]
    context = sum(r.done for r in decoding) / len(decoding) if decoding else 0
    flops = sum(step.demand.prompt_attention_flops(r.done + n, r.done) for r, n in prompts)
    finished = sum(r.left == n for r, n in prompts)
    tokens = sum(n for _, n in prompts)
    return float(step.seconds(len(decoding), context, 1, tokens, finished, flops).total)
