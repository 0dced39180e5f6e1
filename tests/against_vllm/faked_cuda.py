"""Commands through vLLM's own parser and config layer, on a GPU that is not there.

    python faked_cuda.py --inspect < ARCHITECTURES
    python faked_cuda.py < COMMANDS > ANSWERS

Each line of COMMANDS is a JSON object: `arguments` (what follows `vllm serve`), and, for the config
layer, the `gpu` (name, capability, bytes, count). Each line of ANSWERS says what refused it,
`parser` or `config`, with the package's message; null for what accepted it.

To be run by the Python of a vLLM for CPUs, each time in a process of its own: the CUDA platform is
put in the place of the CPU's before anything of vLLM is imported. First let it --inspect.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import io
import json
import os
import sys
import types
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", VLLM_LOGGING_LEVEL="ERROR")

GPU: dict[str, Any] = {"name": "NVIDIA H100 80GB HBM3", "capability": [9, 0], "bytes": 80 << 30,
                       "count": 8}  # fmt: skip


# Compiled parts of the CUDA wheel that are imported, and what they are asked while that is done.
EXTENSIONS = (
    "vllm._C_stable_libtorch", "vllm.vllm_flash_attn._vllm_fa2_C",
    "vllm.vllm_flash_attn._vllm_fa3_C",
)  # fmt: skip
ASKED = (
    "cutlass_scaled_mm_supports_fp8", "cutlass_scaled_mm_supports_block_fp8",
    "cutlass_scaled_mm_supports_fp4", "cutlass_group_gemm_supported",
)  # fmt: skip


def pretend() -> None:
    """Make vLLM believe in CUDA; must come before anything of it is imported."""
    for extension in EXTENSIONS:
        sys.modules[extension] = types.ModuleType(extension)
    import vllm.platforms as platforms
    from vllm.platforms.cuda import CudaPlatformBase
    from vllm.platforms.interface import DeviceCapability

    class Pretended(CudaPlatformBase):
        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> Any:
            return DeviceCapability(*GPU["capability"])

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:
            return str(GPU["name"])

        @classmethod
        def get_device_uuid(cls, device_id: int = 0) -> str:
            return f"GPU-{device_id}"

        @classmethod
        def get_device_total_memory(cls, device_id: int = 0) -> int:
            return int(GPU["bytes"])

        @classmethod
        def device_count(cls) -> int:
            return int(GPU["count"])

        @classmethod
        def num_compute_units(cls, device_id: int = 0) -> int:
            return 132

        @classmethod
        def is_fully_connected(cls, device_ids: list[int]) -> bool:
            return True

        @classmethod
        def log_warnings(cls) -> None:
            pass

    platforms._current_platform = Pretended()
    import vllm._custom_ops as operations

    for name in ASKED:
        setattr(operations, name, lambda *_: True)


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes `torchvision` importable where it is not there: what it holds is never called."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.partition(".")[0] != "torchvision":
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        return Hollow(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class Anything(type):
    """A class that has whatever is asked of it."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, (), {})


class Hollow(types.ModuleType):
    """A module of such classes."""

    __getattr__ = Anything.__getattr__


def inspect(architectures: Iterable[str]) -> None:
    """Let vLLM look at its classes and keep what it saw: under CUDA they cannot be imported here.

    It looks at each in a process of its own, 20 s for one; in this process that is quick.
    """
    sys.meta_path.append(Absent())
    real = metadata.version
    metadata.version = lambda name: "0.28.0" if name == "torchvision" else real(name)
    import vllm.model_executor.models.registry as registry

    def here(function: Callable[[], Any]) -> Any:
        return function()

    registry._run_in_subprocess = here
    known = set(architectures)
    if "drafts" in known:
        known |= set(registry._SPECULATIVE_DECODING_MODELS)
    for name in sorted(known):
        with contextlib.suppress(Exception):  # what cannot be imported is refused later, and said
            model = registry.ModelRegistry.models.get(name)
            if model is not None:
                model.inspect_model_cls()


def parser() -> Any:
    from vllm.entrypoints.cli.serve import ServeSubcommand
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    whole = FlexibleArgumentParser()
    ServeSubcommand().subparser_init(whole.add_subparsers(dest="subparser"))
    return whole


def refused_by_parser(parse: Any, arguments: list[str]) -> tuple[Any, str | None]:
    """The parsed arguments, else the message."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parsed = parse.parse_args(["serve", *arguments])
            from vllm.entrypoints.launchers.cli_args import validate_parsed_serve_args

            validate_parsed_serve_args(parsed)
    except SystemExit:
        return None, said.getvalue().strip().splitlines()[-1]
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
    return parsed, None


def refused_by_config(parsed: Any) -> str | None:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext

    parsed.model = parsed.model_tag or parsed.model
    try:
        arguments = AsyncEngineArgs.from_cli_args(parsed)
        arguments.create_engine_config(
            UsageContext.OPENAI_API_SERVER, headless=bool(parsed.headless)
        )
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return None


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what vLLM prints is no answer
    if sys.argv[1:] == ["--inspect"]:
        inspect(line.strip() for line in sys.stdin)
        return
    pretend()
    parse = parser()
    for line in sys.stdin:
        asked = json.loads(line)
        parsed, message = refused_by_parser(parse, asked["arguments"])
        answer: dict[str, str | None] = {"parser": message}
        if parsed is not None and "gpu" in asked:
            GPU.update(asked["gpu"])
            answer["config"] = refused_by_config(parsed)
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
