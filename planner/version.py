"""The version of vplan: read by the build, and by `vplan --version` before anything is imported."""

from typing import Final

VERSION: Final = "0.1.0"
