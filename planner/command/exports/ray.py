"""Ray: a config of Ray Serve LLM on one machine, KubeRay's RayService on several."""

from __future__ import annotations

from typing import Any, Final

from planner.command.exports.deployment import RAY_PORT, Deployment
from planner.command.exports.kubernetes import environment, resources, storage
from planner.command.exports.shell import ADDRESS
from planner.command.exports.yaml_text import to_yaml
from planner.command.render import Flag
from planner.command.values import convert
from planner.engine.device import Platform
from planner.engine.options import known_option
from planner.errors import PlanError

# The Ray whose config schemas these files follow.
RAY: Final = "2.60.0"
_SECRETS: Final = ("HF_TOKEN",)  # Ray's own server asks for no key
_HTTP: Final = 8000  # where Ray Serve listens
# What Ray decides itself: where workers run, who listens where, what the model is called.
_RAYS_OWN: Final = frozenset(
    {"host", "port", "served_model_name", "nnodes", "node_rank", "master_addr", "master_port",
     "headless", "distributed_executor_backend", "api_server_count", "api_key", "uds", "config",
     "data_parallel_size_local", "data_parallel_address", "data_parallel_backend"}
)  # fmt: skip


def render(deployment: Deployment) -> str:
    """For `serve run FILE`, or for `kubectl apply -f FILE`."""
    if deployment.memory.device.platform is Platform.CPU:
        raise PlanError("Ray Serve LLM schedules GPUs: take another format for CPUs")
    image = (
        f"Ray Serve LLM {RAY} is made for one release of vLLM; this plan is for "
        f"{deployment.memory.release.name}, so the image must hold that one."
    )
    if deployment.nodes == 1:
        start = f"ray start --head --num-gpus={deployment.gpus_per_node} && serve run FILE"
        return deployment.comment(image, start) + to_yaml(_served(deployment))
    return deployment.comment(
        image,
        f"Needs KubeRay; image {_image(deployment)} is yours to build, for example",
        f'  FROM {deployment.image} and RUN pip install "ray[serve]=={RAY}" pyarrow pandas',
        "Without Kubernetes: what serveConfigV2 holds is the FILE of serve run FILE, after",
        f"  ray start --head --port={RAY_PORT}",
        f"  ray start --address={ADDRESS}:{RAY_PORT}, on each other machine",
    ) + to_yaml(_ray_service(deployment))


def _served(deployment: Deployment) -> dict[str, Any]:
    """The config of Ray Serve: one application with one model."""
    config = _llm_config(deployment)
    arguments: dict[str, Any]
    if deployment.memory.config.given.data_parallel_size > 1:
        builder, arguments = "build_dp_openai_app", {"llm_config": config}
    else:
        builder, arguments = "build_openai_app", {"llm_configs": [config]}
    application = {
        "name": deployment.name,
        "route_prefix": "/",
        "import_path": f"ray.serve.llm:{builder}",
        "args": arguments,
    }
    return {
        "proxy_location": "EveryNode",
        "http_options": {"host": "0.0.0.0", "port": _HTTP},
        "applications": [application],
    }


def _llm_config(deployment: Deployment) -> dict[str, Any]:
    command = deployment.served()
    name = next((f.value for f in command.flags if f.name == "--served-model-name"), None)
    config: dict[str, Any] = {
        "model_loading_config": {
            "model_id": name or command.model,
            "model_source": command.model,
        },
        "engine_kwargs": dict(filter(None, map(_keyword, command.flags))),
        "deployment_config": {"num_replicas": 1},
    }
    if deployment.variables:
        config["runtime_env"] = {"env_vars": dict(deployment.variables)}
    return config


def _keyword(flag: Flag) -> tuple[str, Any] | None:
    """An option as the keyword of vLLM's `AsyncEngineArgs` behind it; None if Ray sees to it."""
    option = known_option(flag.name)
    if option is None or option.dest in _RAYS_OWN:
        return None
    if flag.value is None:
        return option.dest, not option.negation
    values = [convert(option.type, value) for value in (flag.value, *flag.more)]
    return option.dest, values if flag.more else values[0]


def _ray_service(deployment: Deployment) -> dict[str, Any]:
    worker = {
        "groupName": "gpus",
        "replicas": deployment.nodes,
        "minReplicas": deployment.nodes,
        "maxReplicas": deployment.nodes,
        "rayStartParams": {"num-gpus": str(deployment.gpus_per_node)},
        "template": {"spec": _worker(deployment)},
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": deployment.name},
        "spec": {
            "serveConfigV2": to_yaml(_served(deployment)),
            "rayClusterConfig": {
                "rayVersion": RAY,
                "headGroupSpec": {
                    "rayStartParams": {"num-cpus": "0", "num-gpus": "0"},
                    "template": {"spec": _head(deployment)},
                },
                "workerGroupSpecs": [worker],
            },
        },
    }


def _image(deployment: Deployment) -> str:
    return f"vllm-ray:{deployment.memory.release.name}-{RAY}"


def _head(deployment: Deployment) -> dict[str, Any]:
    ports = {"gcs": RAY_PORT, "dashboard": 8265, "serve": _HTTP}
    container = {
        "name": "ray-head",
        "image": _image(deployment),
        "ports": [{"name": name, "containerPort": port} for name, port in ports.items()],
        "env": environment(deployment, _SECRETS),
        "resources": {"requests": {"cpu": "2", "memory": "8Gi"}, "limits": {"memory": "8Gi"}},
    }
    return {"enableServiceLinks": False, "containers": [container]}


def _worker(deployment: Deployment) -> dict[str, Any]:
    mounts, volumes = storage(deployment)
    container = {
        "name": "ray-worker",
        "image": _image(deployment),
        "env": environment(deployment, _SECRETS),
        "resources": resources(deployment),
        "volumeMounts": mounts,
    }
    return {"enableServiceLinks": False, "containers": [container], "volumes": volumes}
