"""Logs as vLLM writes them, release by release, made from its message formats."""

from __future__ import annotations

from msgspec import Struct

RELEASES = ("0.8.5", "0.10.2", "0.12.0", "0.16.0", "0.20.2", "0.25.1", "0.30.0", "0.33.0")


class Said(Struct, frozen=True):
    """What a log of `cuda_log` says, in GiB and seconds."""

    weights: float = 14.99
    activation: float = 1.23
    non_torch: float = 0.31
    graphs_estimated: float = 0.71
    graphs: float = 0.54
    kv_cache: float = 54.12
    tokens: int = 443_328
    length: int = 32_768


def key(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


class Writer:
    """Lines with the prefixes of a release, a second apart."""

    def __init__(self, release: str) -> None:
        self.release = key(release)
        self.lines: list[str] = []

    def source(self, process: str, rank: int | None, ranks: int) -> str:
        """The process in front of a record: none alone before 0.11, ranks by name later."""
        if self.release < (0, 10):
            return f"(VllmWorker rank={rank} pid={900 + rank}) " if rank and ranks > 1 else ""
        if (process == "Worker" and ranks == 1) or rank is None:
            return f"({'EngineCore' if process == 'Worker' else process} pid=700) "
        suffix = f"_TP{rank}" if self.release >= (0, 11) else f" TP{rank}"
        return (
            f"({'Worker' if self.release >= (0, 11) else 'VllmWorker'}{suffix} pid={900 + rank}) "
        )

    def say(
        self,
        text: str,
        process: str = "EngineCore",
        rank: int | None = None,
        ranks: int = 1,
        level: str = "INFO",
    ) -> None:
        seconds = len(self.lines)
        stamp = f"04-09 23:{58 + seconds // 60:02}:{seconds % 60:02}"
        source = self.source(process, rank, ranks)
        self.lines.append(f"{source}{level} {stamp} [some_file.py:{100 + seconds}] {text}")


def cuda_log(release: str, said: Said, ranks: int = 1) -> list[str]:
    """A start of that release on one GPU or several, up to its readiness."""
    log = Writer(release)
    at = log.release
    log.say(f"vLLM API server version {release}", "APIServer")
    log.say("non-default args: {'model': 'org/model', 'api_key': ['sk-secret']}", "APIServer")
    log.say(f"Using max model len {said.length}", "APIServer")
    log.say(
        f"Initializing a V1 LLM engine (v{release}) with config: model='org/model', "
        f"speculative_config=None, tokenizer='org/model', dtype=torch.bfloat16, "
        f"max_seq_len={said.length}, download_dir=None, tensor_parallel_size={ranks}, "
        "pipeline_parallel_size=1, quantization=None"
    )

    def worker(text: str) -> None:
        for rank in range(ranks):
            log.say(text, "Worker", rank, ranks)

    worker("Starting to load model org/model...")
    if at < (0, 11):
        worker("Using Flash Attention backend on V1 engine.")
    else:
        worker("Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN'].")
    log.lines.append("Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:05<00:00]")
    worker("Loading weights took 5.12 seconds")
    memory = " memory" if at >= (0, 12) else ""
    digits = 4 if at < (0, 16) else 2
    worker(f"Model loading took {said.weights:.{digits}f} GiB{memory} and 6.250000 seconds")
    tag = "[backbone] " if at >= (0, 32) else ""
    takes = "takes" if at < (0, 20) else "took"
    worker(f"{tag}torch.compile {takes} 21.50 s in total")
    if at >= (0, 20):
        worker(f"Estimated CUDA graph memory: {said.graphs_estimated:.2f} GiB total")
    if at >= (0, 10):
        worker(f"Available KV cache memory: {said.kv_cache:.2f} GiB")
    concurrency = f"{said.tokens / said.length:.2f}x"
    if at < (0, 30):
        log.say(f"GPU KV cache size: {said.tokens:,} tokens")
        log.say(f"Maximum concurrency for {said.length:,} tokens per request: {concurrency}")
    else:
        log.say(
            f"GPU KV cache size: {said.tokens:,} tokens, Maximum concurrency for "
            f"{said.length:,} tokens per request: {concurrency}"
        )
    worker(f"Graph capturing finished in 12 secs, took {said.graphs:.2f} GiB")
    if at >= (0, 20):
        worker(
            f"CUDA graph pool memory: {said.graphs:.2f} GiB (actual), "
            f"{said.graphs_estimated:.2f} GiB (estimated), difference: 0.17 GiB (31.5%)."
        )
    if at >= (0, 10):
        worker(_summary(at, said))
    took = "40.25 seconds" if at < (0, 20) else "40.25 s (compilation: 21.50 s)"
    log.say(f"init engine (profile, create kv cache, warmup model) took {took}")
    log.lines.append("INFO:     Started server process [700]")
    log.lines.append("INFO:     Application startup complete.")
    return log.lines


def _summary(at: tuple[int, ...], said: Said) -> str:
    """One line that sums up the memory."""
    if at < (0, 30):
        usage = (
            f"{said.weights:.2f} GiB for weight, {said.activation:.2f} GiB for peak activation, "
            f"{said.non_torch:.2f} GiB for non-torch memory, and {said.graphs:.2f} GiB for "
            "CUDAGraph memory."
        )
    else:
        usage = (
            f"{said.weights + said.non_torch:.2f} GiB for consumed memory (weights + non-torch), "
            f"{said.activation:.2f} GiB for peak activation, and {said.graphs:.2f} GiB for "
            "CUDAGraph memory."
        )
    return (
        "Free memory on device (78.60/79.11 GiB) on startup. Desired GPU memory utilization is "
        f"(0.9, 71.20 GiB). Actual usage is {usage} Replace gpu_memory_utilization config with "
        "`--kv-cache-memory=57123456789` (53.20 GiB) to fit into requested memory, or "
        "`--kv-cache-memory=64123456789` (59.72 GiB) to fully utilize gpu memory. Current kv cache "
        f"memory in use is {said.kv_cache:.2f} GiB."
    )


V0_LOG = """\
INFO 05-30 06:40:19 [api_server.py:1043] vLLM API server version 0.8.5
INFO 05-30 06:40:21 [llm_engine.py:240] Initializing a V0 LLM engine (v0.8.5) with config: \
model='org/old', speculative_config=None, max_seq_len=4096, tensor_parallel_size=1
INFO 05-30 06:40:49 [model_runner.py:1120] Model loading took 2.8884 GiB and 9.500000 seconds
INFO 05-30 06:40:55 [worker.py:287] Memory profiling takes 5.61 seconds
INFO 05-30 06:40:55 [worker.py:287] the current vLLM instance can use total_gpu_memory (14.56GiB) \
x gpu_memory_utilization (0.50) = 7.28GiB
INFO 05-30 06:40:55 [worker.py:287] model weights take 2.89GiB; non_torch_memory takes 0.01GiB; \
PyTorch activation peak memory takes 2.02GiB; the rest of the memory reserved for KV Cache is \
2.36GiB.
INFO 05-30 06:40:56 [executor_base.py:112] # cuda blocks: 5517, # CPU blocks: 9362
INFO 05-30 06:40:56 [executor_base.py:117] Maximum concurrency for 4096 tokens per request: 21.55x
INFO 05-30 06:41:50 [model_runner.py:1592] Graph capturing finished in 48 secs, took 0.19 GiB
INFO 05-30 06:41:51 [llm_engine.py:437] init engine (profile, create kv cache, warmup model) took \
61.90 seconds
INFO:     Application startup complete.
""".splitlines()

CPU_LOG = """\
(APIServer pid=10) INFO 01-01 00:00:01 [api_utils.py:286] non-default args: {'model': '/m/tiny'}
(EngineCore pid=20) INFO 01-01 00:00:09 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with \
config: model='/m/tiny', max_seq_len=8192, tensor_parallel_size=1
(Worker pid=30) INFO 01-01 00:00:20 [cpu_model_runner.py:68] Starting to load model /m/tiny...
(Worker pid=30) INFO 01-01 00:00:30 [cpu_worker.py:260] Auto set (2.64/23.54) GiB for KV cache on \
node 0, with 4.71 GiB requested memory for the worker. 2.07 GiB memory was consumed by non-kv \
usages.
(EngineCore pid=20) INFO 01-01 00:00:30 [kv_cache_utils.py:2477] Auto-fit max_model_len: reduced \
from 32768 to 8192 to fit in available KV cache memory (2.64 GiB CPU)
(EngineCore pid=20) INFO 01-01 00:00:30 [kv_cache_utils.py:2327] CPU KV cache size: 230,528 \
tokens, Maximum concurrency for 8,192 tokens per request: 28.14x
(EngineCore pid=20) INFO 01-01 00:00:40 [core.py:402] init engine (profile, create kv cache, \
warmup model) took 9.85 s
INFO:     Application startup complete.
(APIServer pid=10) INFO 01-01 00:00:50 [loggers.py:335] Engine 000: Avg prompt throughput: 4.5 \
tokens/s, Avg generation throughput: 2.5 tokens/s, Running: 1 reqs, Waiting: 0 reqs, \
CPU KV cache usage: 0.4%, Prefix cache hit rate: 0.0%
(APIServer pid=10) INFO 01-01 00:01:00 [loggers.py:335] Engine 000: Avg prompt throughput: 0.0 \
tokens/s, Avg generation throughput: 13.9 tokens/s, Running: 4 reqs, Waiting: 2 reqs, \
Preemptions: 3, CPU KV cache usage: 98.5%, Prefix cache hit rate: 0.0%
""".splitlines()

STOP = """\
(APIServer pid=10) INFO 01-01 00:01:10 [launcher.py:254] [shutdown] API server: shutdown triggered
(APIServer pid=10) ERROR 01-01 00:01:11 [async_llm.py:900] AsyncLLM output_handler failed.
(APIServer pid=10) ERROR 01-01 00:01:11 [async_llm.py:900] vllm.v1.engine.exceptions.\
EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.
INFO:     Shutting down
""".splitlines()

# Message of vLLM, its class, and some of its numbers.
FAILURES: list[tuple[str, str, dict[str, object]]] = [
    ("ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB "
     "KV cache is needed, which is larger than the available KV cache memory (4.25 GiB). Based on "
     "the available memory, the estimated maximum model length is 34816. Try increasing",
     "kv_room", {"needed": 16 * 2**30, "asked_len": 131072, "longest_len": 34816}),
    ("ValueError: To serve at least one request with the model's max seq len (131072), (16.00 GiB "
     "KV cache is needed, which is larger than the available KV cache memory (0.25 GiB). Try",
     "kv_room", {"available": 2**28, "longest_len": None}),
    ("ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that "
     "can be stored in KV cache (12976). Try increasing `gpu_memory_utilization`",
     "kv_room", {"asked_len": 32768, "longest_len": 12976}),
    ("ValueError: No available memory for the cache blocks. Try increasing", "kv_room", {}),
    ("ValueError: Free memory on device (20.50/23.64 GiB) on startup is less than desired GPU "
     "memory utilization (0.9, 21.28 GiB). Decrease GPU memory utilization or reduce",
     "free_memory", {"available": round(20.5 * 2**30), "utilization": 0.9}),
    ("ValueError: Free memory on device cuda:1 (20.50/23.64 GiB) on startup is less than desired "
     "GPU memory utilization (0.92, 21.75 GiB). Decrease", "free_memory", {"utilization": 0.92}),
    ("ValueError: Available memory on node 0 (18.49/23.54 GiB) on startup is less than desired CPU "
     "memory utilization (0.99, 23.31 GiB).", "free_memory", {"utilization": 0.99}),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 0 has a total "
     "capacity of 23.64 GiB of which 512.00 MiB is free. Including non-PyTorch memory",
     "out_of_memory", {"needed": round(1.16 * 2**30), "available": 512 * 2**20}),
    ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total "
     "capacity of 191.98 GiB of which 12.00 MiB is free.",
     "out_of_memory", {"needed": 224 * 2**20, "available": 12 * 2**20}),
    ("torch.AcceleratorError: CUDA error: out of memory", "out_of_memory", {}),
    ("vllm: error: unrecognized arguments: --swap-space 4", "option",
     {"subject": "--swap-space 4"}),
    ("api_server.py: error: argument --kv-cache-dtype: invalid choice: 'fp9' (choose from auto)",
     "option", {"subject": "--kv-cache-dtype"}),
    ("OSError: [Errno 98] Address already in use", "port", {}),
    ("huggingface_hub.errors.GatedRepoError: 401 Client Error. Cannot access gated repo for url "
     "https://huggingface.co/meta-llama/Llama-3.1-8B/resolve/main/config.json.", "model",
     {"subject": "meta-llama/Llama-3.1-8B"}),
    ("OSError: org/none is not a local folder and is not a valid model identifier listed on",
     "model", {"subject": "org/none"}),
    ("OSError: Can't load tokenizer for '/m/tiny'. If you were trying to load it", "tokenizer",
     {"subject": "/m/tiny"}),
    ("ValueError: Model architectures ['FooForCausalLM'] are not supported for now. Supported",
     "unsupported_architecture", {"subject": "'FooForCausalLM'"}),
    ("  Value error, User-specified max_model_len (65536) is greater than the derived "
     "max_model_len (max_position_embeddings=32768 or model_max_length=None in model's",
     "max_model_len", {"asked_len": 65536, "longest_len": 32768}),
    ("ValueError: No common block size for 16 (CPU_ATTN: [MultipleOf(32)]).", "backend", {}),
    ("ValueError: Selected backend AttentionBackendEnum.FLASHINFER is not valid for this "
     "configuration. Reason: ['compute capability not supported']", "backend", {}),
    ("ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.",
     "dtype", {}),
    ("RuntimeError: CUDA error: no kernel image is available for execution on the device",
     "wheel", {}),
    ("  Value error, Total number of attention heads (40) must be divisible by tensor parallel "
     "size (3).", "divisible", {}),
    ("ValueError: World size (4) is larger than the number of available GPUs (1) in this node.",
     "nodes", {}),
    ("ValueError: The quantization method modelopt is not supported for the current GPU. Minimum "
     "capability: 89.", "quantization", {"subject": "modelopt"}),
    ("RuntimeError: Failed to infer device type", "device", {}),
    ("RuntimeError: NCCL error: unhandled cuda error", "communication", {}),
    ("OSError: [Errno 28] No space left on device", "disk", {}),
    ("  Value error, Invalid something in a setting", "config", {}),
    ("AssertionError: something that nobody has seen", "crash", {}),
]  # fmt: skip
