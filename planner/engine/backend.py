"""What of an attention backend decides memory: block sizes, pages, and the layout it keeps."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

DEFAULT_BLOCK_SIZE: Final = 16  # vLLM's `CacheConfig.DEFAULT_BLOCK_SIZE`


class AttentionBackend(Struct, frozen=True):
    """The backend vLLM picks, and the kernel block sizes it takes.

    `multiples`: it takes any multiple of its block size as one kernel block; others split longer
    blocks into kernel blocks. `block_outermost`: pages of all layers lie side by side in a block
    (vLLM's KV cache layout), so they need not have one size.
    """

    name: str
    kernel_blocks: tuple[int, ...] = (DEFAULT_BLOCK_SIZE,)
    multiples: bool = True
    kv_cache_dtype: str | None = None  # the layout it keeps, where that is not what was asked for
    layer_block: int | None = None  # block of its layers, whatever the common one
    page_alignment: int = 1  # bytes that its pages are a multiple of
    stride_tokens: int | None = None  # its blocks lie whole pages of so many tokens apart
    block_outermost: bool = False

    @property
    def smallest_block(self) -> int:
        """Tokens of the smallest kernel block."""
        return min(self.kernel_blocks)

    @property
    def preferred_block_size(self) -> int:
        """The block size this backend gets when nobody asks for one."""
        return DEFAULT_BLOCK_SIZE if self.supports(DEFAULT_BLOCK_SIZE) else self.smallest_block

    def supports(self, block_size: int) -> bool:
        """Whether a block of this many tokens is made of whole kernel blocks."""
        return any(block_size % kernel == 0 for kernel in self.kernel_blocks)

    def runs(self, block_size: int) -> bool:
        """Whether its kernels take a block of this many tokens unsplit."""
        return self.supports(block_size) if self.multiples else block_size in self.kernel_blocks

    def local_block(self, block_size: int) -> int:
        """The block of a sliding-window layer: the longest kernel block within the common one."""
        if self.multiples:
            return max(self.smallest_block, block_size // self.smallest_block * self.smallest_block)
        return max((k for k in self.kernel_blocks if k <= block_size), default=self.smallest_block)


NO_BACKEND: Final = AttentionBackend("NO_BACKEND")
