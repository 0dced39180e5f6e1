"""An installation of the program that looks like vLLM, for `vplan validate` to start."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from program import Run, Vplan

from hardware_db.host import HostMemory

FAKE = Path(__file__).with_name("fake_vllm.py")
CACHE = ("--kv-cache-memory-bytes", str(256 * 2**20))
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
    "vocab_size": 512, "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 8,
    "num_key_value_heads": 4, "num_hidden_layers": 4, "head_dim": 32, "hidden_act": "silu",
    "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
}  # fmt: skip


class Fake:
    """An installation of the fake, and what it left behind."""

    def __init__(self, root: Path, vplan: Vplan, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.vplan, self.monkeypatch = root, vplan, monkeypatch
        self.model = root / "tiny"
        self.model.mkdir()
        (self.model / "config.json").write_text(json.dumps(CONFIG))
        for name, value in {
            "PATH": f"{root / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(root / "site"),
            "XDG_DATA_HOME": str(root / "data"),
            "FAKE_PIDS": str(root / "pids"),
            "HF_TOKEN": "hf_of_the_user",
        }.items():
            monkeypatch.setenv(name, value)
        memory = HostMemory(32 * 2**30, 24 * 2**30)  # whatever else runs beside the tests
        monkeypatch.setattr("hardware_db.rig_text.cpu_memory", lambda: memory)
        self.install("vllm", "0.32.0+cpu")

    def install(self, distribution: str, version: str) -> None:
        self.uninstall()
        info = self.root / "site" / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "METADATA").write_text(f"Name: {distribution}\nVersion: {version}\n")
        script = self.root / "bin" / "vllm"
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"#!{sys.executable}\nimport runpy\n"
                          f"runpy.run_path({str(FAKE)!r}, run_name='__main__')\n")  # fmt: skip
        script.chmod(0o755)
        package = self.root / "site" / "vllm" / "entrypoints" / "openai"
        package.mkdir(parents=True, exist_ok=True)
        (package / "api_server.py").write_text(script.read_text())

    def uninstall(self) -> None:
        for metadata in (self.root / "site").glob("*.dist-info/METADATA"):
            metadata.unlink()

    def ill(self, name: str) -> None:
        self.monkeypatch.setenv("FAKE_ILL", name)

    def __call__(self, *words: str, before: tuple[str, ...] = ()) -> Run:
        command = words or ("vllm", "serve", str(self.model), "--max-model-len", "4096", *CACHE)
        return self.vplan("validate", *before, "--", *command)

    @property
    def started(self) -> bool:
        return (self.root / "pids").exists() and (self.root / "pids").stat().st_size > 0

    def folder(self) -> Path:
        (folder,) = (self.root / "data" / "vplan" / "launches").iterdir()
        return folder

    def alive(self) -> list[int]:
        """Processes of the run, other than zombies."""
        left = []
        for pid in json.loads((self.root / "pids").read_text()):
            status = Path(f"/proc/{pid}/stat")
            if status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z":
                left.append(pid)
        return left
