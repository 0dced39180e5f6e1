"""A server that looks like vLLM's from outside: its log, its endpoints, its processes, its ills.

`fake_vllm.py serve MODEL --port N [--fake ILL]`; it imports nothing, to be quick.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

BLOCK, TOKENS = 128, int(os.environ.get("FAKE_TOKENS", "131072"))
KEY = os.environ.get("VLLM_API_KEY", "")


def say(text: str, source: str = "EngineCore") -> None:
    stamp = time.strftime("%m-%d %H:%M:%S")
    print(f"({source} pid={os.getpid()}) INFO {stamp} [fake.py:1] {text}", flush=True)


def metrics() -> str:
    labels = {
        "block_size": str(BLOCK), "num_gpu_blocks": str(TOKENS // BLOCK),
        "kv_cache_size_tokens": str(TOKENS), "kv_cache_max_concurrency": str(TOKENS / LENGTH),
        "cache_dtype": "auto", "sliding_window": "None", "gpu_memory_utilization": "0.92",
        "kv_cache_memory_bytes": str(TOKENS * 2048), "user_specified_block_size": "False",
    }  # fmt: skip
    text = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return (
        "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig\n"
        "# TYPE vllm:cache_config_info gauge\n"
        f"vllm:cache_config_info{{{text}}} 1.0\n"
        "# HELP vllm:generation_tokens_total Tokens\n"
        "# TYPE vllm:generation_tokens_total counter\n"
        'vllm:generation_tokens_total{engine="0"} 96.0\n'
    ) + (SPECULATION if ILL == "speculates" else "")


SPECULATION = """\
# TYPE vllm:spec_decode_num_drafts counter
vllm:spec_decode_num_drafts_total{engine="0"} 20.0
# TYPE vllm:spec_decode_num_draft_tokens counter
vllm:spec_decode_num_draft_tokens_total{engine="0"} 60.0
# TYPE vllm:spec_decode_num_accepted_tokens counter
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 25.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 15.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 8.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="2"} 2.0
"""
REQUESTS: list[str] = []
KEY_OF_A_HUB = "hf_" + "a1B2" * 8


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass

    def answer(self, body: str, status: int = 200) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self) -> None:
        if self.path == "/health":
            self.answer("")
        elif self.path == "/metrics":
            self.answer(metrics())
        elif self.path == "/version":
            self.answer('{"version": "0.32.0+cpu"}')
        elif self.headers["Authorization"] != f"Bearer {KEY}":
            self.answer('{"error": "Unauthorized"}', 401)
        elif self.path == "/v1/models":
            card = {"id": MODEL, "root": MODEL, "max_model_len": LENGTH}
            self.answer(json.dumps({"data": [card]}))
        elif self.path.startswith("/server_info") and "VLLM_SERVER_DEV_MODE" in os.environ:
            scheduler = {"max_num_seqs": 128, "max_num_batched_tokens": 2048}
            self.answer(json.dumps({"vllm_config": {"scheduler_config": scheduler}}))
        else:
            self.answer("{}", 404)

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if ILL == "crash-on-request":
            print("RuntimeError: shape '[-1, 768]' is invalid", flush=True)
            print(
                "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
                flush=True,
            )
            self.answer('{"error": "EngineDeadError"}', 500)
            os._exit(1)
        if ILL == "silent-on-request":
            time.sleep(60)
        REQUESTS.append(self.path)
        if ILL == "dies-under-load" and len(REQUESTS) > 6:
            print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
            print("EngineDeadError: EngineCore encountered an issue.", flush=True)
            os._exit(1)
        self.send_response(200)
        self.end_headers()
        for number in range(request["max_tokens"]):
            event = {"choices": [{"text": f"{number} ", "index": 0}]}
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        prompt = request["prompt"]
        length = len(prompt) if isinstance(prompt, list) else 9
        usage = {"prompt_tokens": length, "completion_tokens": request["max_tokens"]}
        self.wfile.write(f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")


def option(name: str, default: str) -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def main() -> None:
    say("vLLM API server version 0.32.0", "APIServer")
    if ILL == "bad-option":
        sys.exit("vllm: error: unrecognized arguments: --fake")
    if ILL == "refuses":
        print("\033[1;31mpydantic_core._pydantic_core.ValidationError: 1 validation error for X")
        print(
            "  Value error, Model Runner V2 \a requires Triton, says " + KEY_OF_A_HUB + "."
            " [type=value_error, input_value=ArgsKwargs((), {'model_co...})]\033[0m"
        )
        sys.exit(1)  # fmt: skip
    # An engine in its group, and a worker that has left it; neither ends by itself.
    sleeper = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    engine = subprocess.Popen([sys.executable, "-c", sleeper])
    worker = subprocess.Popen([sys.executable, "-c", sleeper], start_new_session=True)
    pids = [os.getpid(), os.getppid(), engine.pid, worker.pid]
    if "FAKE_PIDS" in os.environ:
        Path(os.environ["FAKE_PIDS"]).write_text(json.dumps(pids))
    say(
        f"Initializing a V1 LLM engine (v0.32.0) with config: model='{MODEL}', "
        f"max_seq_len={LENGTH}, tensor_parallel_size=1,"
    )
    say("Starting to load model fake...")
    if ILL == "hang":
        time.sleep(600)
    if ILL == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    if ILL == "free-memory" and float(option("--gpu-memory-utilization", "0.92")) > 0.62:
        sys.exit(
            "ValueError: Available memory on node 0 (12.49/20.00 GiB) on startup is less than "
            "desired CPU memory utilization (0.92, 18.40 GiB)."
        )
    if ILL == "kv-room-2048" and LENGTH > 2048:
        sys.exit(
            "ValueError: To serve at least one request with the model's max seq len (4096), (0.38 "
            "GiB KV cache is needed, which is larger than the available KV cache memory (0.12 "
            "GiB). Based on the available memory, the estimated maximum model length is 2048."
        )
    if ILL == "kv-room":
        print(
            "ValueError: To serve at least one request with the model's max seq len (32768), (0.38 "
            "GiB KV cache is needed, which is larger than the available KV cache memory (0.12 "
            "GiB). Based on the available memory, the estimated maximum model length is 10752."
        )
        sys.exit(1)  # fmt: skip
    if "--kv-cache-memory-bytes" not in sys.argv:
        say(
            "Auto set (0.25/23.54) GiB for KV cache on node 0, with 0.85 GiB requested memory for "
            "the worker. 0.60 GiB memory was consumed by non-kv usages."
        )
    else:
        say("Explicitly set (0.25/23.54) GiB for KV cache on node 0.")
    say(
        f"CPU KV cache size: {TOKENS:,} tokens, Maximum concurrency for {LENGTH:,} tokens per "
        f"request: {TOKENS / LENGTH:.2f}x"
    )
    say("init engine (profile, create kv cache, warmup model) took 0.12 s")
    server = ThreadingHTTPServer((option("--host", "0.0.0.0"), PORT), Handler)

    def end(*_: Any) -> None:
        say("[shutdown] API server: shutdown triggered", "APIServer")
        engine.kill()
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    print("INFO:     Application startup complete.", flush=True)
    server.serve_forever()


MODEL = option("--model", option("serve", "none"))
PORT = int(option("--port", "8000"))
LENGTH = int(option("--max-model-len", "4096"))
ILL = os.environ.get("FAKE_ILL", "")
if __name__ == "__main__":
    main()
