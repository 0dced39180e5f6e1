"""Plan files: settings as YAML, to keep, to share and to open again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from model_cards.config import shorten
from planner.command.secrets import is_secret, redacted
from planner.engine.releases import find_release
from planner.engine_config import EngineConfig, as_type, setting_types
from planner.errors import PlanError
from planner.files import write_file
from planner.settings import Settings
from planner.yaml_file import read_yaml

if TYPE_CHECKING:
    from planner.command.parse import ServeCommand

_FORMAT: Final = 1
_TEXTS: Final = ("gpu", "model", "vllm")


def write_plan(path: Path, settings: Settings, *, force: bool = False) -> None:
    """Write a plan file, over another one only with `force`. Raises `PlanError` or `OSError`."""
    write_file(path, plan_text(settings), force=force)


def plan_text(settings: Settings) -> str:
    """The settings as YAML, without secrets."""
    import yaml

    given = {name: _plain(value) for name, value in settings.config.departures().items()}
    content = {
        "vplan": _FORMAT,
        "gpu": settings.gpu,
        "model": settings.model,
        "vllm": settings.vllm,
        "use_case": settings.use_case,
        "concurrency": settings.concurrency,
        "settings": given,
        "environment": {k: v for k, v in settings.environ if not is_secret(k)},
    }
    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    return redacted(text)


def read_plan(path: Path) -> Settings:
    """The settings of a plan file. Raises `PlanError`, in one line, for anything else."""
    content = read_yaml(path, "a plan file")
    if not isinstance(content, dict) or content.get("vplan") != _FORMAT:
        raise PlanError(f'{path} is not a plan file: it does not begin with "vplan: {_FORMAT}"')
    try:
        return _settings(content)
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None


def as_command(settings: Settings, release: str | None = None) -> ServeCommand:
    """The launch that settings stand for, on the release given or their own."""
    from planner.command.parse import ServeCommand

    planned = find_release(release or settings.vllm)
    return ServeCommand(settings.model, settings.config, planned, (), settings.environ)


def _settings(content: dict[Any, Any]) -> Settings:
    for name in _TEXTS:
        if not isinstance(content.get(name), str):
            raise PlanError(f"{name} is missing, or is no text (in YAML, quote numbers)")
    given, environ = content.get("settings") or {}, content.get("environment") or {}
    if not isinstance(given, dict) or not isinstance(environ, dict):
        raise PlanError("settings and environment must be lists of names with values")
    settings = Settings(
        content["gpu"],
        content["model"],
        content["vllm"],
        EngineConfig(**{name: _engine_value(name, value) for name, value in given.items()}),
        as_type(str, "use_case", content.get("use_case", "chat")),
        as_type(int, "concurrency", content.get("concurrency", 1)),
        tuple((str(name), str(value)) for name, value in environ.items()),
    )
    _ = settings.workload  # refuses what no server can be asked for
    return settings


def _engine_value(name: object, value: Any) -> Any:
    if name not in setting_types() or not isinstance(name, str):
        raise PlanError(f"vLLM has no setting {shorten(name)}")
    return as_type(setting_types()[name], name, value)


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return {key: part for key, part in asdict(value).items() if part is not None}
    return value
