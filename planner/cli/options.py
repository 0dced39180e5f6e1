"""Options that several commands have, each said once, and the load that some of them describe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from planner.workload import USE_CASES, Workload, token_count, use_case_workload

Gpu = Annotated[
    str | None,
    typer.Option(
        "--gpu",
        "-g",
        help='The hardware: "4090", "2x3090+nvlink", "4090+wsl", "8xh100-sxm", "2x8xh100-sxm" '
        '(nodes x GPUs), "custom:23.5GiB@1008,bf16=165,cc=8.9", "cpu", or "auto" (detect).',
    ),
]
FreeMemory = Annotated[
    str | None, typer.Option(help='What is free on each GPU, for example "21GiB".')
]
Reserve = Annotated[
    str | None, typer.Option(help='What to leave for other programs on each GPU: "1GiB".')
]
VllmVersion = Annotated[
    str | None, typer.Option(help="The vLLM release; the installed one, else the newest known.")
]
Offline = Annotated[bool, typer.Option("--offline", help="Do not ask the Hub.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

# --- what is asked of a server ---

Context = Annotated[
    str | None,
    typer.Option("--context", "-c", help="Tokens one request may grow to: 16384, 32k, 1m."),
]
UseCase = Annotated[
    str | None,
    typer.Option(
        "--use-case",
        "-u",
        help=f"Lengths of {', '.join(USE_CASES)}.",
        show_default="chat",
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option("--concurrency", "-n", help="Requests at the same time.", show_default="1"),
]
PromptTokens = Annotated[str | None, typer.Option(help="Prompt length, instead of the use case's.")]
OutputTokens = Annotated[str | None, typer.Option(help="Answer length, instead of the use case's.")]
SharedPrefix = Annotated[
    float,
    typer.Option(help="Share of a prompt that others have too (0 to 1): cached, not computed."),
]

# --- what is asked of its speed ---

RequestRate = Annotated[
    float | None,
    typer.Option(help="Requests a second, at random times, instead of users who wait for answers."),
]
MaxTtft = Annotated[
    float | None, typer.Option(help="Seconds to the first token, at most: how many users, then?")
]
MaxTpot = Annotated[
    float | None, typer.Option(help="Seconds between tokens, at most: how many users, then?")
]
PricePerHour = Annotated[
    float | None, typer.Option(help="Of all GPUs together: what do a million tokens cost?")
]
Plot = Annotated[
    Path | None,
    typer.Option(help="Draw the roofline, and latency against throughput: FILE.svg or FILE.png."),
]


def asked_load(
    use_case: str | None,
    concurrency: int | None,
    prompt_tokens: str | None = None,
    output_tokens: str | None = None,
    shared_prefix: float = 0.0,
) -> Workload:
    """The load that the options describe, the use case's where they are left out.

    Raises `PlanError` for what is no load.
    """
    typical = use_case_workload(use_case or "chat", 1 if concurrency is None else concurrency)
    lengths = {"prompt_tokens": prompt_tokens, "output_tokens": output_tokens}
    given = {
        name: token_count(text, f"--{name.replace('_', '-')}")
        for name, text in lengths.items()
        if text is not None
    }
    return replace(typical, shared_prefix=shared_prefix, **given)


def asked_context(text: str | None) -> int | None:
    """Tokens of `--context`; None where it is left out."""
    return token_count(text, "--context") if text is not None else None
