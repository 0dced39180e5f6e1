"""Launches over several nodes: what vLLM starts on each."""

from __future__ import annotations

from hardware_db import Rig
from planner.engine.refusal import Refusal, RefusalKind
from planner.engine_config import EngineConfig


def too_few_gpus(rig: Rig, config: EngineConfig) -> list[Refusal]:
    """Whether vLLM lacks GPUs on a node: it has to be told of others than its own."""
    here, world = len(rig.devices), config.world_size
    if _on_ray(config):
        return []
    reason = None
    if world > here * config.nnodes:
        reason = (
            f"world size ({world}) is larger than the {here} GPUs of a node: --nnodes, or "
            "--distributed-executor-backend ray, spreads it over several"
        )
    elif world * _local_replicas(config) > here * (config.nnodes if world > here else 1):
        reason = (
            f"{world * _local_replicas(config)} GPUs are asked of a node that has {here}: "
            f"--data-parallel-size-local {here // world} with --data-parallel-address, on each "
            "node, or --nnodes, spreads the replicas over several"
        )
    elif 0 < _local_replicas(config) * rig.nodes < config.data_parallel_size:
        reason = (
            f"{_local_replicas(config)} of {config.data_parallel_size} replicas are started on "
            f"each node, {rig.nodes} in all: vLLM waits for the others"
        )
    return [Refusal(RefusalKind.NODES, reason)] if reason is not None else []


def _local_replicas(config: EngineConfig) -> int:
    """Replicas that vLLM starts on a node: as many as are said, else an even share of all."""
    if config.data_parallel_size_local is not None:
        return config.data_parallel_size_local
    return max(1, config.data_parallel_size // config.nnodes)


def _on_ray(config: EngineConfig) -> bool:
    return "ray" in (config.distributed_executor_backend, config.data_parallel_backend)
