"""Which options and values `vllm serve` accepts, release by release."""

from __future__ import annotations

from planner.engine.releases import Release, read_data
from planner.engine_config import EngineConfig


def option(field: str, value: object) -> str:
    """The option string that sets an EngineConfig field: a switch turned off is `--no-...`."""
    return f"--{'no-' if value is False else ''}{field.replace('_', '-')}"


def unknown_option(config: EngineConfig, release: Release) -> str | None:
    """The first option that `config` needs and the release's parser does not have."""
    for name, value in config.departures().items():
        if not accepts_flag(release, option(name, value)):
            return option(name, value)
    return None


def accepts_flag(release: Release, flag: str) -> bool:
    """Whether that release's parser has the option string (`--max-model-len`)."""
    return present_in(read_data("flags.json")["flags"].get(flag), release)


def accepts_choice(release: Release, option: str, value: str) -> bool:
    """Whether the release knows `value` for `option` ("kv_cache_dtype" or "quantization")."""
    return present_in(read_data("flags.json")["choices"][option].get(value), release)


def present_in(runs: list[list[int]] | None, release: Release) -> bool:
    """Whether a thing is there in a release, given the runs of releases that have it."""
    if runs is None:
        return False
    index = read_data("flags.json")["releases"].index(release.name)
    return any(first <= index <= last for first, last in runs)
