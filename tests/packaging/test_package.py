"""The wheel as a user installs it: built from the sdist, on every Python here, at both ends of the
versions that it allows.

Takes minutes and the package index, so it runs by itself: pytest -m package tests/packaging
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.package

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
MINORS = (11, 12, 13, 14)
# What is run from the wheel, and what its answer must hold.
COMMANDS = {
    ("--version",): "vplan ",
    ("gpus", "4090"): "RTX 4090",
    ("models", "Qwen/Qwen3-8B", "--offline"): "8,190,735,360",
    ("recommend", "--gpu", "4090", "--limit", "2"): "vllm serve",
    ("check", "--gpu", "4090", "--offline", "--", "vllm", "serve", "Qwen/Qwen3-8B",
     "--max-model-len", "4096"): "It starts",
    ("schema", "gpus"): "schema_version",
    ("__complete", "recommend", "--gpu", "h200-s"): "h200-sxm",
    ("completion", "fish"): "complete -c vplan",
}  # fmt: skip
# Tests of what the dependencies do: the Hub's client, NVML, the terminal, YAML.
AT_THE_LOWER_BOUNDS = (
    "tests/model_cards/test_hub_faults.py", "tests/model_cards/test_headers_of_the_hub.py",
    "tests/hardware_db/test_gpu_detection.py", "tests/planner/test_cli_exit_status.py",
    "tests/planner/test_plan_files.py", "tests/planner/tui/test_tui_start.py",
)  # fmt: skip


@cache
def pythons() -> dict[str, str]:
    """The interpreters here by their versions, of those that the project supports."""
    found: dict[str, str] = {}
    for minor in MINORS:
        name = f"python3.{minor}"
        installed = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/{name}"))
        for candidate in (*map(str, installed), shutil.which(name)):
            if candidate is None or f"3.{minor}" in found:
                continue
            run = subprocess.run([candidate, "-c", "import venv, ensurepip"], capture_output=True)
            if run.returncode == 0:
                found[f"3.{minor}"] = candidate
    return found


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True)
    return folder


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


def environment(folder: Path, python: str, *packages: str) -> Path:
    """A clean virtual environment; the folder of its programs."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    programs = folder / "bin"
    subprocess.run([programs / "pip", "install", "--quiet", *packages], check=True)
    return programs


def run(programs: Path, folder: Path, *arguments: str) -> str:
    """What an installed vplan prints, away from the checkout."""
    nowhere = {"HF_HOME": str(folder), "XDG_DATA_HOME": str(folder), "HF_HUB_OFFLINE": "1"}
    kept = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", **nowhere}
    done = subprocess.run(
        [programs / "vplan", *arguments], cwd=folder, env=kept, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_wheel_holds_what_runs_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "hardware_db", "model_cards", "planner",
    }  # fmt: skip
    tracked = subprocess.run(
        ["git", "ls-files", "hardware_db", "model_cards", "planner"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    assert set(tracked) == {name for name in names if ".dist-info/" not in name}
    metadata = next(name for name in names if name.endswith("METADATA"))
    text = zipfile.ZipFile(wheel).read(metadata).decode()
    from planner.version import VERSION

    assert f"\nVersion: {VERSION}\n" in text
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_of_the_checkout_is_that_of_the_sdist(wheel: Path, tmp_path: Path) -> None:
    """Installers build either; nothing may be left out on the way, or differ."""
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, ROOT], check=True
    )
    (direct,) = tmp_path.glob("*.whl")
    assert direct.name == wheel.name
    assert contents(direct) == contents(wheel)


def contents(wheel: Path) -> dict[str, tuple[bytes, int]]:
    """Content and mode of every file by its name."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            each.filename: (archive.read(each), each.external_attr >> 16)
            for each in archive.infolist()
        }


def test_the_sdist_holds_the_sources_and_their_tests(built: Path) -> None:
    (found,) = built.glob("*.tar.gz")
    with tarfile.open(found) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "tests/planner/conftest.py"} <= names
    assert not any(name.startswith((".ci", ".git/", ".hypothesis", ".venv")) for name in names)


def test_classifiers_name_the_pythons_that_are_tested() -> None:
    stated = {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if ":: Python :: 3." in c}
    assert stated <= {f"3.{minor}" for minor in MINORS}
    assert set(pythons()) <= stated | {"3.14"}
    assert pythons(), "no Python to install into"


@pytest.mark.parametrize("version", [f"3.{minor}" for minor in MINORS])
def test_it_runs_from_the_wheel(version: str, wheel: Path, tmp_path: Path) -> None:
    python = pythons().get(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    programs = environment(tmp_path / "venv", python, str(wheel))
    empty = tmp_path / "empty"
    empty.mkdir()
    for arguments, words in COMMANDS.items():
        assert words in run(programs, empty, *arguments), arguments
    ranking = json.loads(run(programs, empty, "recommend", "--gpu", "4090", "--json"))
    assert ranking["kind"] == "ranking"
    # The screens, and the client of the Hub, are there although nothing above used them.
    code = "import planner.tui.app, huggingface_hub.hf_api, planner; print(planner.__file__)"
    imported = subprocess.run(
        [programs / "python", "-c", code], cwd=empty, check=True, capture_output=True, text=True
    )
    assert str(tmp_path / "venv") in imported.stdout


def lower_bounds() -> list[str]:
    """Each dependency at the oldest version that the project states."""
    return [
        f"{name}=={bounds.partition(',')[0]}"
        for name, _, bounds in (each.partition(">=") for each in PROJECT["dependencies"])
    ]


def test_it_works_at_the_lower_bounds(wheel: Path, tmp_path: Path) -> None:
    python = pythons()["3.11"]  # the oldest versions have wheels for the oldest Python
    programs = environment(
        tmp_path / "venv", python, str(wheel), *lower_bounds(), "pytest", "hypothesis",
        "jsonschema",
    )  # fmt: skip
    empty = tmp_path / "empty"
    empty.mkdir()
    for arguments, words in COMMANDS.items():
        assert words in run(programs, empty, *arguments), arguments
    subprocess.run(
        [programs / "pytest", "-p", "no:cacheprovider", *AT_THE_LOWER_BOUNDS], cwd=ROOT, check=True
    )
