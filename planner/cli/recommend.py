"""`vplan recommend`: the best models for a rig, the settings for a model, the rig for a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from hardware_db import NoGpuDetected, Rig, find_rig
from model_cards import ModelCard
from planner.cli.drawing import Drawing
from planner.cli.export import FORCE_HELP, FORMAT_HELP, JSON, OUTPUT_HELP, printed_to, target
from planner.cli.options import (
    AsJson,
    Concurrency,
    Context,
    FreeMemory,
    Gpu,
    MaxTpot,
    MaxTtft,
    Offline,
    OutputTokens,
    Plot,
    PricePerHour,
    PromptTokens,
    RequestRate,
    Reserve,
    SharedPrefix,
    UseCase,
    VllmVersion,
    asked_context,
    asked_load,
)
from planner.cli.status import Status
from planner.engine.releases import Release, find_release
from planner.errors import PlanError
from planner.recommendation.licences import ANY_LICENCE, Licences
from planner.recommendation.rank import recommend as rank
from planner.recommendation.requirements import Objective, Requirements
from planner.speed.capacity import Aims


def recommend(
    gpu: Gpu = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="A Hub id or a folder; all known models if left out."),
    ] = None,
    context: Context = None,
    concurrency: Concurrency = None,
    use_case: UseCase = None,
    prompt_tokens: PromptTokens = None,
    output_tokens: OutputTokens = None,
    optimize: Annotated[
        str | None,
        typer.Option(
            "--optimize",
            help="balanced, latency, throughput, context or quality; also picks among the "
            "checkpoints of a named model.",
        ),
    ] = None,
    min_tokens_per_second: Annotated[
        float | None,
        typer.Option(help="The least for each user; 15 for models that are not named."),
    ] = None,
    licence: Annotated[
        str | None,
        typer.Option(
            "--licence", "--license", help='Only these: "apache-2.0,mit", or "open" for such.'
        ),
    ] = None,
    max_price: Annotated[
        float | None, typer.Option(help="US dollars an hour, where vplan is to find the GPUs.")
    ] = None,
    free_memory: FreeMemory = None,
    reserve: Reserve = None,
    nodes: Annotated[
        int, typer.Option(help="Machines of that kind that there are, if --model needs several.")
    ] = 1,
    vllm_version: VllmVersion = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            help="A plan file: its hardware, model, release, load and context, where no option "
            "says otherwise."
        ),
    ] = None,
    revision: Annotated[
        str | None, typer.Option(help="The model's branch, tag or commit; also ID@REVISION.")
    ] = None,
    trust_remote_code: Annotated[
        bool,
        typer.Option("--trust-remote-code", help="Let vLLM run code of the model's repository."),
    ] = False,
    request_rate: RequestRate = None,
    max_ttft: MaxTtft = None,
    max_tpot: MaxTpot = None,
    shared_prefix: SharedPrefix = 0.0,
    price_per_hour: PricePerHour = None,
    plot: Plot = None,
    limit: Annotated[int, typer.Option(help="Rows of the ranking.")] = 8,
    everything: Annotated[
        bool, typer.Option("--all", help="Every model that works, not one of each family.")
    ] = False,
    why: Annotated[
        str | None,
        typer.Option(
            "--why", help="Say where a model stands, or why it is not in the ranking: status 1."
        ),
    ] = None,
    offline: Offline = False,
    validate: Annotated[
        bool,
        typer.Option("--validate", help="Then launch it here for a moment: see vplan validate."),
    ] = False,
    as_json: AsJson = False,
    format: Annotated[str | None, typer.Option("--format", help=FORMAT_HELP)] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help=OUTPUT_HELP)] = None,
    force: Annotated[bool, typer.Option("--force", help=FORCE_HELP)] = False,
) -> int:
    """Recommend what to run.

    With --gpu: the models worth running on it, ranked, and the command of the best. With --gpu
    and --model: the settings for that model. With --model alone: on this machine's GPUs, or if
    there are none, which GPU it needs.
    """
    length = asked_context(context)
    only_plot = plot is not None and output is None
    wanted = target(format, output, force=force and not only_plot, as_json=as_json)
    if plan is not None:
        from planner.plan_file import read_plan

        file = read_plan(plan)
        gpu, model, vllm_version = gpu or file.gpu, model or file.model, vllm_version or file.vllm
        use_case = file.use_case if use_case is None else use_case
        concurrency = file.concurrency if concurrency is None else concurrency
        length = file.context if length is None else length
    use_case = "chat" if use_case is None else use_case
    release = find_release(vllm_version)
    workload = asked_load(use_case, concurrency, prompt_tokens, output_tokens, shared_prefix)
    aims = Aims(request_rate, max_ttft, max_tpot, price_per_hour)
    if model is None and (plot is not None or aims != Aims()):
        raise PlanError(
            "--request-rate, --max-ttft, --max-tpot, --price-per-hour and --plot are about one "
            "model: give it, --model"
        )
    aims.on(workload)  # values that make no sense are refused here
    if model is None and (revision is not None or trust_remote_code):
        raise PlanError("--revision and --trust-remote-code are about a model: give it, --model")
    if model is not None and (everything or why is not None):
        raise PlanError("--all and --why are about the ranking: leave --model out")
    requirements = Requirements(
        workload,
        use_case,
        length,
        trust_remote_code,
        Objective.named(optimize) if optimize is not None else None,
        min_tokens_per_second,
        Licences.named(licence) if licence is not None else ANY_LICENCE,
    )
    rig = _rig(gpu, model, free_memory, reserve)
    card = _card(model, revision, offline=offline) if model is not None else None
    if max_price is not None and (card is None or rig is not None):
        raise PlanError("--max-price is for finding GPUs: give --model and no --gpu")
    if card is not None and not requirements.licences.allow(card.license):
        raise PlanError(f"the licence of {card.model_id} is {card.license or 'not known'}")
    if nodes != 1:
        if card is None or rig is None:
            raise PlanError("--nodes is about a model on hardware: give --model and --gpu")
        from planner.recommendation.nodes import enough_nodes

        rig = enough_nodes(card, rig, requirements, release, nodes)
    drawn = Drawing(plot, force) if plot is not None else None
    question = _Question(
        card, rig, requirements, release, limit, everything, why, max_price, aims, drawn
    )
    if validate:
        if wanted is not None and (wanted.format != JSON or wanted.path is not None):
            raise PlanError("--validate runs the command: it goes with neither --format nor -o")
        return _validated(question, gpu, as_json=wanted is not None)
    if wanted is not None and wanted.format != JSON:
        from planner.cli.recommended import put_out

        return put_out(wanted, card, rig, requirements, release)
    with printed_to(wanted):
        return _answer(question, as_json=wanted is not None)


class _Question(Struct, frozen=True):
    """What is asked; without a card for a ranking, without a rig for one that serves the card."""

    card: ModelCard | None
    rig: Rig | None
    requirements: Requirements
    release: Release
    limit: int
    everything: bool
    why: str | None
    max_price: float | None
    aims: Aims
    drawing: Drawing | None


def _validated(question: _Question, gpu: str | None, *, as_json: bool) -> int:
    """Print the answer, then launch its command, or that of the best; the launch's exit status."""
    from planner.cli.validate import Options, validate_model

    options = Options(gpu=gpu or "auto", as_json=as_json)
    if options.gpu not in ("auto", "cpu"):
        raise PlanError(f"--validate launches on this machine: --gpu auto or cpu, not {gpu}")
    if not as_json:
        _answer(question, as_json=False)
    card, rig = question.card, question.rig
    if card is None:
        assert rig is not None
        choices = rank(rig, question.requirements, vllm=question.release, limit=1).choices
        if not choices:
            return Status.NO
        card = choices[0].settled.memory.card
    return validate_model(card, question.requirements, options)


def _answer(question: _Question, *, as_json: bool) -> int:
    """Print the answer to the question that is asked; the exit status."""
    card, rig = question.card, question.rig
    requirements, release = question.requirements, question.release
    if card is not None and rig is not None:
        from planner.cli.model_on_rig import print_model_on_rig

        return print_model_on_rig(
            card, rig, requirements, release, as_json, question.aims, question.drawing
        )
    if question.drawing is not None:
        raise PlanError("--plot draws a plan on given GPUs: give them, --gpu")
    if card is not None:
        from planner.cli.which_rig import print_rigs_for

        return print_rigs_for(card, requirements, release, as_json, question.max_price)
    assert rig is not None
    if question.why is not None:
        from planner.cli.why import print_why

        return print_why(question.why, rig, requirements, release, as_json)
    from planner.cli.ranking import print_ranking

    limit, everything = question.limit, question.everything
    found = rank(rig, requirements, vllm=release, limit=limit, everything=everything)
    return print_ranking(found, as_json)


def _card(model: str, revision: str | None, *, offline: bool) -> ModelCard:
    from model_cards import open_card  # the catalogue needs no other sources

    return open_card(model, revision=revision, offline=offline)


def _rig(
    gpu: str | None, model: str | None, free_memory: str | None, reserve: str | None
) -> Rig | None:
    """The rig asked for, else the one of this machine; None to find one for a model."""
    if gpu is not None:
        return find_rig(gpu, free_memory=free_memory, reserve=reserve)
    try:
        return find_rig("auto", free_memory=free_memory, reserve=reserve)
    except NoGpuDetected:
        if model is None:
            raise
        if free_memory is not None or reserve is not None:
            raise PlanError("--free-memory and --reserve are about a GPU: give it, --gpu") from None
        return None
