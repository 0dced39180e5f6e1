"""A pasted command against a rig: will it start, what is wrong with it, what would mend it."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from hardware_db import Rig
from model_cards import CardError, ModelCard, open_card
from model_cards.known_drafts import known_draft_card
from planner.command.parse import ServeCommand
from planner.diagnosis.formats import about_formats
from planner.diagnosis.generation import about_generation
from planner.diagnosis.later_risks import later_risks
from planner.diagnosis.messages import own_message
from planner.diagnosis.remedies import Remedy, is_about_memory, remedies
from planner.diagnosis.wasted import wasted
from planner.engine.device import Platform
from planner.engine.refusal import Refusal
from planner.engine_config import EngineConfig
from planner.findings import Finding, Severity
from planner.memory.plan import MemoryPlan, Refused, plan_memory
from planner.memory.verdict import Answer


class Check(Struct, frozen=True):
    """The verdict on a command. `memory` is None where there is no budget to make."""

    command: ServeCommand
    card: ModelCard
    config: EngineConfig  # with the speculative method that vLLM infers
    rig: Rig
    memory: MemoryPlan | None
    findings: tuple[Finding, ...]
    remedies: tuple[Remedy, ...]

    @property
    def answer(self) -> Answer:
        """Whether the command starts as it is."""
        if self.memory is None or any(f.severity is Severity.ERROR for f in self.findings):
            return Answer.NO
        return self.memory.starts.answer

    @property
    def chance_of_refusal(self) -> float:
        """Probability that vLLM refuses."""
        if self.memory is None:
            return 1.0
        starts = self.memory.starts
        counted = starts.refusal.kind.value if starts.refusal is not None else None
        if any(f.severity is Severity.ERROR and f.code != counted for f in self.findings):
            return 1.0
        return starts.chance_of_refusal


def check_command(command: ServeCommand, rig: Rig, *, offline: bool = False) -> Check:
    """Judge a command. Raises `CardError` for an unknown model, `PlanError` for an unusable rig."""
    card = open_card(command.model, revision=command.revision, offline=offline)
    found = list(command.findings)
    config, draft, about_draft = _draft(command, card, offline)
    found += about_draft
    needed = config.world_size * config.data_parallel_size
    if needed > rig.gpu_count:
        found.append(
            Finding(
                "world_size",
                Severity.ERROR,
                f"{needed} GPUs are asked for (tensor x pipeline x data parallel), and "
                f"{rig.spec} has {rig.gpu_count}",
                f"--gpu {needed}x{rig.smallest.gpu.slug}, or smaller parallel sizes",
            )
        )
        return Check(command, card, config, rig, None, tuple(found), ())
    environ = command.server_environ
    try:
        memory = plan_memory(card, rig, config, draft=draft, environ=environ, vllm=command.release)
    except Refused as error:
        found += [_finding(refusal) for refusal in error.refusals]
        return Check(command, card, config, rig, None, tuple(found), ())
    found += [_finding(refusal) for refusal in memory.refusals]
    found += _about_memory(memory)
    found += _about_draft_ranks(memory)
    found += _about_speed(memory)
    found += _about_synthetic(command, memory)
    found += about_formats(memory)
    found += wasted(command, memory)
    if not memory.refusals:
        found += later_risks(memory)
    if memory.config.speculation is not None and not memory.refusals:
        from planner.diagnosis.speculation import about_speculation  # few commands need it

        found += about_speculation(memory, draft)
    found += about_generation(command, card)
    said = card.generation.note()  # of the launch itself just now
    found += [Finding("note", Severity.INFO, note) for note in memory.notes if note != said]
    mends: tuple[Remedy, ...] = ()
    if memory.starts.answer is not Answer.YES and not memory.refusals:
        mends = remedies(memory, draft, environ)
    return Check(command, card, config, rig, memory, tuple(found), mends)


def _draft(
    command: ServeCommand, card: ModelCard, offline: bool
) -> tuple[EngineConfig, ModelCard | None, list[Finding]]:
    """The settings with the method that vLLM infers, the draft's card, and what is wrong."""
    config = command.config
    given = config.speculative_config
    if given is None or given.model is None:
        return config, None, []
    try:
        draft = open_card(given.model, offline=offline)
    except CardError as error:
        usual = known_draft_card(given.model, card)
        if usual is None:
            finding = Finding("unknown_draft", Severity.ERROR, f"the draft cannot be had: {error}")
            return replace(config, speculative_config=None), None, [finding]
        text = f"the draft's own config cannot be had; {usual.notes[-1].partition(': ')[2]}"
        return config, usual, [Finding("unknown_draft", Severity.WARNING, text)]
    if command.infers_method and draft.head is not None:
        config = replace(config, speculative_config=replace(given, method=draft.head.method))
    return config, draft, []


def _finding(refusal: Refusal) -> Finding:
    return Finding(refusal.kind.value, Severity.ERROR, refusal.reason)


def _about_memory(memory: MemoryPlan) -> list[Finding]:
    refusal = memory.starts.refusal
    if refusal is None or not is_about_memory(refusal.kind):
        return []
    severity = Severity.ERROR if memory.starts.answer is Answer.NO else Severity.WARNING
    chance = 100 * memory.starts.chance_of_refusal
    text = refusal.reason
    if severity is Severity.WARNING:
        text += f" (chance that vLLM refuses: {chance:.0f} %)"
    own = own_message(memory)
    return [Finding(refusal.kind.value, severity, text, f"vLLM says: {own}" if own else None)]


def _about_draft_ranks(memory: MemoryPlan) -> list[Finding]:
    """A draft split otherwise than its target: the older model runner refuses, the newer does not
    look (v1/spec_decode/draft_model.py, v1/worker/gpu/spec_decode)."""
    given, ranks = memory.config.given.speculative_config, memory.config.given.tensor_parallel_size
    if given is None or given.method != "draft_model":
        return []
    split = given.draft_tensor_parallel_size
    if split in (None, ranks):
        return []
    asked = f"draft_tensor_parallel_size {split} with --tensor-parallel-size {ranks}"
    fix = "leave draft_tensor_parallel_size out"
    if memory.config.model_runner_v2:
        text = f"{asked} has no effect: the draft is split as the target"
        return [Finding("draft_ranks", Severity.WARNING, text, fix)]
    text = f"{asked}: this vLLM's model runner refuses to split a draft otherwise than its target"
    return [Finding("draft_ranks", Severity.ERROR, text, fix)]


def _about_synthetic(command: ServeCommand, memory: MemoryPlan) -> list[Finding]:
    """Which vllm/utils/cpu_triton_utils.py asserts, once a draft is to be judged."""
    on_cpu = memory.device.platform is Platform.CPU
    if command.synthetic is None or not on_cpu or not memory.release.at_least("0.25.0"):
        return []
    text = "drafts are not accepted at a set rate on CPUs: the server dies of the first one"
    fix = 'leave "rejection_sample_method" out'
    return [Finding("speculation", Severity.ERROR, text, fix)]


def _about_speed(memory: MemoryPlan) -> list[Finding]:
    if not memory.config.given.enforce_eager:
        return []
    text = "--enforce-eager runs without CUDA graphs: less memory, but slower"
    if memory.device.platform is Platform.CPU:  # which has no graphs: it compiles alone
        text = "--enforce-eager runs without compilation: ready sooner, but slower"
    elif memory.config.speculation is not None:
        text += "; the small passes of a draft lose most"
    return [Finding("eager", Severity.WARNING, text, "leave it out if it is not needed")]
