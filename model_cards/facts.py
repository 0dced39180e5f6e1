"""What is known of a checkpoint beside its config.json."""

from __future__ import annotations

from msgspec import Struct

from model_cards.config import Config
from model_cards.generation import Generation
from model_cards.inventory import Inventory
from model_cards.pooling import PoolingFiles


class Facts(Struct, frozen=True):
    """Totals, further files, and what was assumed where something was not seen."""

    parameters: int | None = None  # logical, as the repository's safetensors headers give it
    checkpoint_bytes: int | None = None  # of the weight files
    license: str | None = None
    side_file: Config | None = None  # hf_quant_config.json
    assumed: str | None = None  # what stands in for something not seen
    draft_method: str | None = None  # where the config does not say that it is of a head
    inventory: Inventory | None = None  # every tensor, where the files' headers were read
    pooling: PoolingFiles | None = None  # where there are files that speak of it
    online: str | None = None  # `--quantization` of a checkpoint in 16 bit
    generation: Generation = Generation()
