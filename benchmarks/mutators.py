"""Inputs of vplan, spoilt: one function for each kind, from a seed to an argument list.

Each writes what its command reads into `folder` and says what it changed. Configs come from the
bundled models, command lines from the option tables, logs from vLLM's message formats; another
part is made up by hypothesis, which knows no example.
"""

from __future__ import annotations

import copy
import json
import random
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from checkpoint_files import llama_tensors
from launch_logs import RELEASES, Said, cuda_log
from mutated_configs import ORIGINALS, STRANGE, change
from mutated_configs import changed as changed_config
from mutated_files import gguf_file, hub_answer, own_files
from spoiling import WORDS, Case, spoil
from tiny_models import LLAMA

from planner.engine.releases import read_data

RIGS = (
    "4090",
    "h100",
    "8xh100-sxm",
    "mi300x",
    "2x3090",
    "gb10",
    "custom:24GiB@900",
    "cpu",
    "2x8xh100",
)
MODELS = ("Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B", "google/gemma-3-4b-it", "openai/gpt-oss-20b",
          "deepseek-ai/DeepSeek-V3", "BAAI/bge-m3", "no/such-model")  # fmt: skip
# Of JSON options; the first ones are of speculation.
_KEYS = ("method", "model", "num_speculative_tokens", "draft_tensor_parallel_size", "quantization",
         "parallel_drafting", "num_speculative_tokens_per_batch_size", "max_model_len", "mode",
         "num_redundant_experts", "window_size", "cudagraph_capture_sizes", "x")  # fmt: skip
_PARTS = ("ngram", "eagle3", 3, -1, None, [], {}, "Qwen/Qwen3-0.6B", float("inf"), True,
          [[1, 4, 3]], 2**70, "\x1b[2J")  # fmt: skip
_STARTS = (
    ["vllm", "serve"], ["python", "-m", "vllm.entrypoints.openai.api_server"],
    ["docker", "run", "vllm/vllm-openai:v0.19.1"], ["VLLM_USE_V1=0", "vllm", "serve"],
)  # fmt: skip


def config(rng: random.Random, folder: Path) -> Case:
    """A config.json (and ModelOpt's side file) with values replaced or taken out, or made up."""
    if rng.random() < 0.1:
        made = copy.deepcopy(made_up_config(rng))
        for _ in range(rng.randrange(3)):
            change(made, rng)
        (folder / "config.json").write_text(json.dumps(made))
        what = f"made up: {json.dumps(made):.300}"
    else:
        checkpoint = changed_config(rng)
        text = json.dumps(checkpoint.config)
        what = checkpoint.what
        if rng.random() < 0.1:
            text, how = spoil(rng, text)
            what = f"{what}; {how}"
        (folder / "config.json").write_bytes(text.encode("utf-8", "surrogatepass"))
        if checkpoint.side is not None:
            (folder / "hf_quant_config.json").write_text(json.dumps(checkpoint.side))
    words = _asking(rng)
    return Case([words[0], "--json", *words[1:]] if rng.random() < 0.5 else words, what)


def header(rng: random.Random, folder: Path) -> Case:
    """A safetensors header, or an index, with entries or bytes replaced."""
    config = {**LLAMA, "architectures": [rng.choice(("LlamaForCausalLM", "FutureForCausalLM"))]}
    (folder / "config.json").write_text(json.dumps(config))
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, (dtype, shape) in llama_tensors(LLAMA).items():
        size = 2
        for each in shape:
            size *= each
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, start + size]}
        start += size
    kinds = ["nothing changed"]
    for _ in range(rng.choice((1, 1, 2, 4))):
        kinds.append(change(entries, rng))
    text, how = json.dumps(entries), ""
    if rng.random() < 0.3:
        text, how = spoil(rng, text)
    body = text.encode("utf-8", "surrogatepass")
    length = len(body)
    if rng.random() < 0.2:
        length = rng.choice((0, 1, length - 1, length + 1, 2**24, 2**31, 2**63, 2**64 - 1))
    content = struct.pack("<Q", max(0, length)) + body
    if rng.random() < 0.1:
        content = content[: rng.randrange(len(content) + 1)]
    (folder / "model.safetensors").write_bytes(content)
    if rng.random() < 0.2:
        index: dict[str, Any] = {
            "metadata": {"total_size": start},
            "weight_map": dict.fromkeys(list(entries)[1:], "model.safetensors"),
        }
        kinds.append(f"index {change(index, rng)}")
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    command = ["models", "."] if rng.random() < 0.5 else _asking(rng)
    return Case(command, f"{'; '.join(kinds[1:])} {how} length {length}")


def command(rng: random.Random, folder: Path) -> Case:
    """A vLLM command with options of any release and values of any kind."""
    options = read_data("options.json")["options"]
    words = list(rng.choice(_STARTS))
    start = len(words) if rng.random() < 0.9 else 0  # what begins a command is mostly left
    words.append(rng.choice(MODELS))
    for _ in range(rng.randrange(6)):
        flag = rng.choice(list(options))
        words.append(flag)
        if options[flag][1] != "switch" or rng.random() < 0.1:
            words.append(_value(rng, options[flag]))
    what = "options"
    for _ in range(rng.randrange(3)):
        place = rng.randrange(start, len(words) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            del words[place : place + 1]
        elif kind == 1:
            words.insert(place, rng.choice(WORDS))
        elif kind == 2:
            words.insert(place, rng.choice(words or ["vllm"]))
        else:
            rest = words[start:]
            rng.shuffle(rest)
            words[start:] = rest
    gpu = rng.choice(RIGS) if rng.random() < 0.9 else rng.choice(WORDS)
    before = ["check", "--gpu", gpu, "--offline"]
    if rng.random() < 0.2:
        before += ["--vllm-version", rng.choice(("0.8.5", "0.19.0", "0.33.0", *WORDS))]
    if rng.random() < 0.3:
        text, what = spoil(rng, " ".join(words))
        words = [text]
    if rng.random() < 0.3:
        before.append("--json")
    # An argument of a process holds neither null bytes nor broken surrogates.
    words = [w.replace("\0", "").encode("utf-8", "replace").decode() for w in words]
    return Case([*before, "--", *words], what)


def own_options(rng: random.Random, folder: Path) -> Case:
    """vplan's own options with values of any kind."""
    words: list[str] = [rng.choice(("recommend", "gpus", "models", "diagnose", "schema", "check"))]
    flags = ("--gpu", "--model", "--context", "--concurrency", "--use-case", "--prompt-tokens",
             "--output-tokens", "--free-memory", "--reserve", "--vllm-version", "--limit", "--json",
             "--sort", "--min-params", "--capability", "--vendor", "--format",
             "--revision")  # fmt: skip
    if words == ["recommend"]:
        words += ["--gpu", rng.choice(RIGS)]
        if rng.random() < 0.7:
            words += ["--model", rng.choice(MODELS)]
    for _ in range(rng.randrange(1, 4)):
        words += [rng.choice(flags), rng.choice(WORDS)]
    words = [w.replace("\0", "").encode("utf-8", "replace").decode() for w in words]
    if words[0] in ("recommend", "models"):
        words.append("--offline")
    return Case(words, "own options")


def plan_file(rng: random.Random, folder: Path) -> Case:
    """A plan file with values, or bytes, replaced."""
    content: dict[str, Any] = {
        "vplan": 1, "gpu": rng.choice(RIGS), "model": rng.choice(MODELS), "vllm": "0.33.0",
        "use_case": "chat", "concurrency": 4,
        "settings": {"tensor_parallel_size": 2, "max_model_len": 8192, "kv_cache_dtype": "fp8",
                     "speculative_config": {"method": "ngram", "num_speculative_tokens": 3}},
        "environment": {"VLLM_USE_V1": "1"},
    }  # fmt: skip
    changes = [change(content, rng) for _ in range(rng.choice((1, 1, 2, 3)))]
    text = json.dumps(content, indent=1)  # which YAML is made to hold
    if rng.random() < 0.4:
        text, how = spoil(rng, text)
        changes.append(how)
    (folder / "plan.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    return Case(["recommend", "--plan", "plan.yaml", "--offline"], "; ".join(changes))


def log(rng: random.Random, folder: Path) -> Case:
    """A log of vLLM with lines lost, doubled, shuffled, and bytes replaced."""
    release = rng.choice(RELEASES)
    lines = cuda_log(release, Said(), ranks=rng.choice((1, 1, 2)))
    if rng.random() < 0.3:
        lines.append(rng.choice(_ERRORS))
    what = [release]
    for _ in range(rng.randrange(4)):
        kind, place = rng.randrange(5), rng.randrange(len(lines))
        if kind == 0 and len(lines) > 1:
            del lines[place]
        elif kind == 1:
            lines.insert(place, rng.choice(lines))
        elif kind == 2:
            lines[place], how = spoil(rng, lines[place])
            what.append(how)
        elif kind == 3:
            rng.shuffle(lines)
        else:
            lines = lines[rng.randrange(len(lines)) :]
    text = "\n".join(lines)
    if rng.random() < 0.2:
        text, how = spoil(rng, text)
        what.append(how)
    (folder / "server.log").write_bytes(text.encode("utf-8", "surrogatepass"))
    return Case(["diagnose", "server.log", *(() if rng.random() < 0.5 else ("--json",))],
                "; ".join(what))  # fmt: skip


_ERRORS = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9999999999.00 GiB.",
    "ValueError: No available memory for the cache blocks.",
    "ValueError: To serve at least one request with the models's max seq len (" + "9" * 400 + ")",
    "Traceback (most recent call last):",
    'json.decoder.JSONDecodeError: {"a": ' + "[" * 500,
)

KINDS: dict[str, tuple[Callable[[random.Random, Path], Case], int]] = {
    # with its share, in percent
    "configs": (config, 28), "headers": (header, 16), "commands": (command, 24),
    "own options": (own_options, 5), "plan files": (plan_file, 9), "logs": (log, 8),
    "GGUF": (gguf_file, 4), "own files": (own_files, 4), "hub": (hub_answer, 2),
}  # fmt: skip


def made_up_config(rng: random.Random) -> dict[str, Any]:
    """What hypothesis makes of the keys that configs have."""
    return _made_up()[rng.randrange(len(_made_up()))]


@cache
def _made_up(count: int = 150) -> list[dict[str, Any]]:
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st

    keys = sorted({key for _, values, _ in ORIGINALS for key in values} | {"text_config"})
    classes = sorted({a for _, values, _ in ORIGINALS for a in values.get("architectures", ())})
    plain = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8),
        st.sampled_from([value for values in STRANGE.values() for value in values]),
    )  # fmt: skip
    nested = st.recursive(
        plain,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(keys), inner,
                                                                   max_size=5),
        max_leaves=8,
    )  # fmt: skip
    documents = st.builds(
        lambda values, name: {**values, "architectures": [name]},
        st.dictionaries(st.sampled_from(keys), nested, max_size=20),
        st.sampled_from(classes),
    )
    found: list[dict[str, Any]] = []

    @settings(max_examples=count, database=None, derandomize=True, deadline=None,
              phases=[Phase.generate], suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(documents)
    def collect(document: dict[str, Any]) -> None:
        found.append(document)

    collect()
    return found


def _asking(rng: random.Random) -> list[str]:
    gpu = rng.choice(RIGS)
    if rng.random() < 0.4:
        words = ["check", "--gpu", gpu, "--offline"]
        extra = rng.choice(
            ([], ["--max-model-len", "2048"], ["-tp", "2"], ["--kv-cache-dtype", "fp8"])
        )
        return [*words, "--", "vllm", "serve", ".", *extra]
    use_case = rng.choice(("chat", "code", "rag"))
    return ["recommend", "--gpu", gpu, "--model", ".", "--offline", "--use-case", use_case]


def _value(rng: random.Random, option: list[Any]) -> str:
    kind = option[2]
    if rng.random() < 0.3:
        return rng.choice(WORDS)
    match kind:
        case "int" | "human_readable_int" | "human_readable_int_or_auto":
            return str(rng.choice((0, 1, 2, 4, 8, 16, 4096, 8192, 131072, -1, 2**40)))
        case "float":
            return str(rng.choice((0.0, 0.5, 0.9, 0.95, 1.0, 1.5, -1.0)))
        case "json" | "from_json" | "json_or_str":
            value = {rng.choice(_KEYS): rng.choice(_PARTS) for _ in range(rng.randrange(5))}
            return json.dumps(value)
        case _:
            return rng.choice(
                ("auto", "fp8", "bfloat16", "float16", "mp", "ray", "awq", "all", "on")
            )
