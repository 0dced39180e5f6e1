"""Planning a vLLM launch: memory, speed, recommendation, command.

from hardware_db import find_rig
from model_cards import open_card
from planner import EngineConfig, Workload, plan_memory, predict_speed

memory = plan_memory(open_card("Qwen/Qwen3-8B"), find_rig("4090"),
                     EngineConfig(max_model_len=16384), vllm="0.33.0")
memory.starts, memory.kv_tokens, predict_speed(memory, Workload(concurrency=8))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.command.render import Command, render_command
    from planner.comparison import Comparison, Side, compare_plans
    from planner.engine_config import EngineConfig, SpeculativeConfig
    from planner.errors import PlanError
    from planner.memory.plan import MemoryPlan, plan_memory
    from planner.memory.sweep import Sweep, sweep_memory
    from planner.quantity import Basis, Quantity
    from planner.recommendation.rank import Recommendation, recommend
    from planner.recommendation.requirements import Requirements
    from planner.recommendation.settle import Settled, Unfit, settle
    from planner.speed.serving import SpeedEstimate, predict_speed
    from planner.speed.speculation_choice import SpeculationChoice, choose_speculation
    from planner.workload import Workload

# Imported when first used, so that a command pays only for what it needs.
_HOMES = {
    "Basis": "planner.quantity",
    "Command": "planner.command.render",
    "Comparison": "planner.comparison",
    "EngineConfig": "planner.engine_config",
    "MemoryPlan": "planner.memory.plan",
    "PlanError": "planner.errors",
    "Quantity": "planner.quantity",
    "Recommendation": "planner.recommendation.rank",
    "Requirements": "planner.recommendation.requirements",
    "Settled": "planner.recommendation.settle",
    "Side": "planner.comparison",
    "SpeculationChoice": "planner.speed.speculation_choice",
    "SpeculativeConfig": "planner.engine_config",
    "SpeedEstimate": "planner.speed.serving",
    "Sweep": "planner.memory.sweep",
    "Unfit": "planner.recommendation.settle",
    "Workload": "planner.workload",
    "choose_speculation": "planner.speed.speculation_choice",
    "compare_plans": "planner.comparison",
    "plan_memory": "planner.memory.plan",
    "predict_speed": "planner.speed.serving",
    "recommend": "planner.recommendation.rank",
    "render_command": "planner.command.render",
    "settle": "planner.recommendation.settle",
    "sweep_memory": "planner.memory.sweep",
}

__all__ = [
    "Basis",
    "Command",
    "Comparison",
    "EngineConfig",
    "MemoryPlan",
    "PlanError",
    "Quantity",
    "Recommendation",
    "Requirements",
    "Settled",
    "Side",
    "SpeculationChoice",
    "SpeculativeConfig",
    "SpeedEstimate",
    "Sweep",
    "Unfit",
    "Workload",
    "choose_speculation",
    "compare_plans",
    "plan_memory",
    "predict_speed",
    "recommend",
    "render_command",
    "settle",
    "sweep_memory",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
