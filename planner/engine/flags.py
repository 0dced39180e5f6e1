"""Which options and values `vllm serve` accepts, release by release."""

from __future__ import annotations

from planner.engine.releases import Release, read_data


def accepts_flag(release: Release, flag: str) -> bool:
    """Whether that release's parser has the option string (`--max-model-len`)."""
    return _present(read_data("flags.json")["flags"].get(flag), release)


def accepts_choice(release: Release, option: str, value: str) -> bool:
    """Whether the release knows `value` for `option` ("kv_cache_dtype" or "quantization")."""
    return _present(read_data("flags.json")["choices"][option].get(value), release)


def _present(runs: list[list[int]] | None, release: Release) -> bool:
    if runs is None:
        return False
    index = read_data("flags.json")["releases"].index(release.name)
    return any(first <= index <= last for first, last in runs)
