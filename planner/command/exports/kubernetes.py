"""Kubernetes: a Deployment on one machine, a LeaderWorkerSet on several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from planner.command.exports.deployment import SECRETS, Deployment
from planner.command.exports.docker import CACHE, ray_script, replica_script
from planner.command.exports.yaml_text import to_yaml
from planner.engine.device import Platform

SECRET: Final = "vllm"
# Resource names of the vendors' device plugins.
_GPUS: Final = {
    Platform.CUDA: "nvidia.com/gpu",
    Platform.ROCM: "amd.com/gpu",
    Platform.XPU: "gpu.intel.com/xe",
}
# A label that LWS gives to pods: "0" is the leader.
_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"


def render(deployment: Deployment) -> str:
    """Manifests for `kubectl apply -f`."""
    literals = " ".join(f'--from-literal={name}="${name}"' for name in SECRETS)
    usage = [f"Optional, for gated models and to ask clients for a key: kubectl create secret "
             f"generic {SECRET} {literals}"]  # fmt: skip
    if deployment.nodes == 1:
        documents = [_claim(deployment), _deployment(deployment), _service(deployment)]
    else:
        usage.append("Needs LeaderWorkerSet: https://lws.sigs.k8s.io")
        documents = [_leader_worker_set(deployment), _service(deployment)]
    return deployment.comment(*usage) + to_yaml(*documents)


def _deployment(deployment: Deployment) -> dict[str, Any]:
    labels = {"app": deployment.name}
    words = [escaped(word) for word in deployment.contained().arguments]
    pod = pod_spec(deployment, ["vllm", "serve"], words, answers=True)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": deployment.name, "labels": labels},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},  # the GPUs are taken until the old pod is gone
            "progressDeadlineSeconds": deployment.startup_seconds + 600,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _leader_worker_set(deployment: Deployment) -> dict[str, Any]:
    labels = {"app": deployment.name}
    templates = [
        {"metadata": {"labels": labels}, "spec": _member(deployment, leads=leads)}
        for leads in (True, False)
    ]
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": deployment.name, "labels": labels},
        "spec": {
            "replicas": 1,
            "leaderWorkerTemplate": {
                "size": deployment.nodes,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": templates[0],
                "workerTemplate": templates[1],
            },
        },
    }


def _member(deployment: Deployment, *, leads: bool) -> dict[str, Any]:
    """The pod of one machine of several; LWS says who leads, and gives the others numbers."""
    address = "$(LWS_LEADER_ADDRESS)"
    command = deployment.contained()
    if deployment.on_ray:
        argv = [escaped(word) for word in command.argv]
        script = ray_script(argv, 0 if leads else 1, address)
        return pod_spec(deployment, ["bash", "-c"], [script], answers=leads)
    if not leads and deployment.counts_in_shell:
        where, number = "$LWS_LEADER_ADDRESS", "LWS_WORKER_INDEX"
        script = escaped(replica_script(deployment, command.argv, where, number))
        return pod_spec(deployment, ["bash", "-c"], [script], answers=False)
    words = [escaped(word) for word in command.arguments]
    words += deployment.member_words(address, 0 if leads else "$(LWS_WORKER_INDEX)")
    return pod_spec(deployment, ["vllm", "serve"], words, answers=leads)


def _claim(deployment: Deployment) -> dict[str, Any]:
    """Where the files of the model stay between starts."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": deployment.name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": f"{deployment.checkpoint_gib}Gi"}},
        },
    }


def _service(deployment: Deployment) -> dict[str, Any]:
    selector, name = {"app": deployment.name}, deployment.name
    if deployment.nodes > 1:  # LWS has a service of the plain name
        selector, name = {**selector, _INDEX: "0"}, f"{name}-leader"
    port = {"name": "http", "port": deployment.port, "targetPort": "http"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": selector, "ports": [port]},
    }


def pod_spec(
    deployment: Deployment, command: list[str], words: list[str], *, answers: bool
) -> dict[str, Any]:
    """A pod that takes the GPUs of one machine; `answers`: requests come to it."""
    container: dict[str, Any] = {
        "name": "vllm",
        "image": deployment.image,
        "command": command,
        "args": words,
        "env": environment(deployment),
    }
    if answers:
        container["ports"] = [{"name": "http", "containerPort": deployment.port}]
    container["resources"] = resources(deployment)
    mounts, volumes = storage(deployment)
    container["volumeMounts"] = mounts
    if answers:
        container |= _probes(deployment)
    # Links to services become variables named VLLM_..., which vLLM takes for its own.
    return {"enableServiceLinks": False, "containers": [container], "volumes": volumes}


def environment(
    deployment: Deployment, secret_names: Sequence[str] = SECRETS
) -> list[dict[str, Any]]:
    """Variables of a container, secrets by reference."""
    secrets: list[dict[str, Any]] = [
        {
            "name": name,
            "valueFrom": {"secretKeyRef": {"name": SECRET, "key": name, "optional": True}},
        }
        for name in secret_names
    ]
    plain = [{"name": name, "value": escaped(value)} for name, value in deployment.variables]
    return secrets + plain


def resources(deployment: Deployment) -> dict[str, Any]:
    """GPUs, and a core for each process of vLLM's: the server, the engines and their workers."""
    given = deployment.memory.config.given
    cores = 1 + max(1, given.data_parallel_size // deployment.nodes) + deployment.gpus_per_node
    requests = {"cpu": str(cores)}
    offloaded = given.cpu_offload_gb * deployment.gpus_per_node
    if offloaded:
        requests["memory"] = f"{offloaded:.0f}Gi"
    gpu = _GPUS.get(deployment.memory.device.platform)
    if gpu is None:
        return {"requests": requests}
    return {"requests": requests, "limits": {gpu: str(deployment.gpus_per_node)}}


def storage(deployment: Deployment) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Volume mounts and volumes: shared memory, the files of the model, folders of the machine."""
    mounts: list[dict[str, Any]] = [
        {"name": "shared-memory", "mountPath": "/dev/shm"},
        {"name": "huggingface", "mountPath": CACHE},
    ]
    files: dict[str, Any] = {"persistentVolumeClaim": {"claimName": deployment.name}}
    if deployment.nodes > 1:  # every machine has its own copy
        files = {"emptyDir": {"sizeLimit": f"{deployment.checkpoint_gib}Gi"}}
    size = f"{deployment.shared_memory_gib}Gi"
    volumes: list[dict[str, Any]] = [
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": size}},
        {"name": "huggingface", **files},
    ]
    for number, folder in enumerate(deployment.folders):
        name = f"folder-{number}"
        mounts.append({"name": name, "mountPath": folder, "readOnly": True})
        volumes.append({"name": name, "hostPath": {"path": folder, "type": "Directory"}})
    return mounts, volumes


def _probes(deployment: Deployment) -> dict[str, Any]:
    health = {"httpGet": {"path": "/health", "port": "http"}, "timeoutSeconds": 10}
    period = 10
    return {
        "startupProbe": {
            **health,
            "periodSeconds": period,
            "failureThreshold": deployment.startup_seconds // period,
        },
        "readinessProbe": {**health, "periodSeconds": period},
        "livenessProbe": {**health, "periodSeconds": 15, "failureThreshold": 4},
    }


def escaped(text: str) -> str:
    """A word in which Kubernetes finds no variable."""
    return text.replace("$(", "$$(")
