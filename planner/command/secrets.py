"""What must not be written down: variables and options that hold keys."""

from __future__ import annotations

import re
from typing import Final

# Options whose value is a secret, and the variable that vLLM reads instead.
SECRET_OPTIONS: Final = {"--api-key": "VLLM_API_KEY", "--hf-token": "HF_TOKEN"}
_SECRET: Final = re.compile(r"TOKEN|KEY|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)


def is_secret(variable: str) -> bool:
    """Whether an environment variable of that name likely holds one."""
    return _SECRET.search(variable) is not None
