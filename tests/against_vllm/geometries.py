"""Random launches that vLLM accepts, in hyperparameters: neither vplan's types nor vLLM's.

What makes them valid: dimensions divide over the ranks, a block size that somebody asks for is one
that every backend takes, and the first attention layer has the head size of the model's config.
"""

from __future__ import annotations

from enum import Enum
from math import lcm

from hypothesis import strategies as st
from msgspec import Struct

GIB = 2**30


class Kernels(Struct, frozen=True):
    """Block sizes an attention backend takes: multiples of the one, or exactly these."""

    sizes: tuple[int, ...]
    multiples: bool

    @property
    def smallest(self) -> int:
        return min(self.sizes)


class Reach(Enum):
    FULL = "full"
    SLIDING = "sliding"
    CHUNKED = "chunked"
    MLA = "mla"
    INDEXER = "indexer"


class Heads(Struct, frozen=True):
    """An attention layer. MLA: `size` is that of the latent vector, `kv_heads` 1."""

    reach: Reach
    kernels: Kernels
    kv_heads: int = 1
    size: int = 0
    size_v: int = 0
    tokens: int | None = None  # of the window or chunk


class Mixer(Enum):
    MAMBA1 = "mamba1"
    MAMBA2 = "mamba2"
    GDN = "gdn"
    SHORT_CONV = "short_conv"
    LINEAR = "linear"


class State(Struct, frozen=True):
    """A recurrent layer, in the hyperparameters of its kind."""

    mixer: Mixer
    heads: int
    head_size: int
    kernel: int
    groups: int = 1  # of Mamba 2; key heads of the gated delta net
    state_size: int = 0  # of Mamba; size of a key head of the gated delta net
    dtype: str = "auto"  # of the temporal state


Cache = Heads | State


class Launch(Struct, frozen=True):
    """A model and the settings of one launch."""

    layers: tuple[tuple[Cache, ...], ...]
    drafts: tuple[Heads, ...]
    draft_method: str
    tensor_parallel: int
    pipeline_parallel: int
    decode_context: int  # ranks that share the tokens of a request
    dtype: str
    kv_cache_dtype: str
    block_size: int | None
    prefix_caching: bool
    speculative_tokens: int
    disable_hybrid: bool
    block_outermost: bool  # layout of the cache
    max_model_len: int
    auto_length: bool
    batched_tokens: int
    async_scheduling: bool
    runner_v2: bool
    pools: tuple[int, ...]  # bytes on each pipeline stage
    blocks_override: int | None

    @property
    def caches(self) -> tuple[Cache, ...]:
        """All caches in order, the draft's last."""
        return (*(cache for layer in self.layers for cache in layer), *self.drafts)

    @property
    def states(self) -> tuple[State, ...]:
        return tuple(dict.fromkeys(c for c in self.caches if isinstance(c, State)))

    @property
    def attentions(self) -> tuple[Heads, ...]:
        """The different attention layers of the model and its draft, in order."""
        return tuple(dict.fromkeys(c for c in self.caches if isinstance(c, Heads)))


_KERNELS = st.sampled_from(
    [
        Kernels((16,), True),
        Kernels((32,), True),
        Kernels((64,), True),
        Kernels((16, 32, 64), False),
        Kernels((32, 64), False),
        Kernels((64,), False),
        Kernels((128,), False),
    ]
)
_KV_DTYPES = st.sampled_from(["auto", "auto", "auto", "fp8", "fp8_e5m2", "bfloat16"])
_PER_HEAD_KV_DTYPES = ["fp8_per_token_head", "int8_per_token_head", "int4_per_token_head"]
_HEAD_SIZES = st.sampled_from([32, 64, 80, 96, 128, 192, 256, 512])
_LATENTS = st.sampled_from([192, 320, 512 + 64, 256 + 32])
_WINDOWS = st.one_of(st.sampled_from([128, 512, 1024, 4096, 8192]), st.integers(1, 40000))


@st.composite
def launches(draw: st.DrawFn) -> Launch:
    """A launch of any kind of model."""
    tensor = draw(st.sampled_from([1, 1, 1, 2, 4, 8]))
    kernels = draw(st.one_of(_KERNELS.map(lambda each: [each]), st.lists(_KERNELS, min_size=2)))
    kinds = draw(_kinds(tensor, kernels))
    layers = draw(_layers(kinds))
    drafts = draw(_drafts(tensor, kinds, kernels))
    pipeline = draw(_stages(layers))
    max_model_len = draw(
        st.one_of(
            st.sampled_from([1024, 4096, 8192, 32768, 131072, 1048576]), st.integers(1, 300000)
        )
    )
    states = any(isinstance(kind, State) for kind in kinds)
    attends = [kind for kind in (*kinds, *drafts) if isinstance(kind, Heads)]
    aligned = lcm(*(kind.kernels.smallest for kind in attends)) if attends else 16
    pool = draw(st.one_of(st.integers(2**20, 2 * GIB), st.integers(2**28, 200 * GIB)))
    shares = st.floats(0.3, 1.0)
    packed = any(kind.reach in (Reach.MLA, Reach.INDEXER) for kind in attends) or any(
        kind.size % 2 for kind in attends
    )
    return Launch(
        layers=layers,
        drafts=drafts,
        draft_method=draw(st.sampled_from(["eagle", "mtp"])),
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
        decode_context=draw(st.sampled_from([1] if drafts else _context_ranks(tensor, attends))),
        dtype=draw(st.sampled_from(["bfloat16", "bfloat16", "float16", "float32"])),
        kv_cache_dtype=draw(
            _KV_DTYPES
            if packed
            else st.one_of(_KV_DTYPES, _KV_DTYPES, st.sampled_from(_PER_HEAD_KV_DTYPES))
        ),
        block_size=draw(
            st.one_of(st.none(), st.none(), st.integers(1, 8).map(lambda n: n * aligned))
        ),
        prefix_caching=draw(st.booleans()) if states else draw(st.just(True)),
        speculative_tokens=draw(st.integers(1, 8)) if drafts else draw(_undrafted()),
        disable_hybrid=draw(st.integers(0, 9)) == 0,
        block_outermost=draw(st.integers(0, 4)) == 0,
        max_model_len=max_model_len,
        auto_length=draw(st.integers(0, 3)) == 0,
        batched_tokens=draw(st.one_of(st.sampled_from([2048, 8192, 16384]), st.integers(1, 65536))),
        async_scheduling=draw(st.booleans()),
        runner_v2=draw(st.booleans()),
        pools=tuple(
            pool if draw(st.booleans()) else int(pool * draw(shares)) for _ in range(pipeline)
        ),
        blocks_override=draw(
            st.one_of(st.none(), st.none(), st.none(), st.none(), st.integers(1, 100000))
        ),
    )


def _context_ranks(tensor: int, attends: list[Heads]) -> list[int]:
    """Where no rank holds what another has, and every layer attends in full."""
    if any(kind.tokens is not None for kind in attends):
        return [1]
    most = min((tensor // kind.kv_heads for kind in attends), default=1)
    return [ranks for ranks in (1, 2, 4, 8) if ranks == 1 or (most % ranks == 0 and ranks <= most)]


def _undrafted() -> st.SearchStrategy[int]:
    """Tokens drafted without a network (n-grams), mostly none."""
    return st.one_of(st.just(0), st.just(0), st.just(0), st.integers(1, 5))


@st.composite
def _kinds(draw: st.DrawFn, tensor: int, kernels: list[Kernels]) -> list[Cache]:
    """The different caches of a model."""
    family = draw(
        st.sampled_from(
            [*["dense"] * 3, *["mla"] * 2, "sparse mla", *["hybrid"] * 3, "mla hybrid", "states"]
        )
    )
    kinds: list[Cache] = []
    if family in ("dense", "hybrid"):
        kinds += draw(st.lists(_dense(tensor, kernels), min_size=1, max_size=4))
    if family.startswith(("mla", "sparse")):
        kinds.append(
            Heads(Reach.MLA, draw(st.sampled_from(kernels)), size=draw(_LATENTS), size_v=0)
        )
    if family == "mla":
        kinds += draw(st.lists(_dense(tensor, kernels), max_size=1))
    if family == "sparse mla":
        kinds.append(Heads(Reach.INDEXER, draw(st.sampled_from(kernels)), size=132))
    if family.endswith(("hybrid", "states")):
        kinds += draw(st.lists(_states(tensor), min_size=1, max_size=2, unique=True))
    return list(dict.fromkeys(kinds))


@st.composite
def _dense(draw: st.DrawFn, tensor: int, kernels: list[Kernels]) -> Heads:
    reach = draw(st.sampled_from([Reach.FULL, Reach.FULL, Reach.SLIDING, Reach.CHUNKED]))
    size = draw(_HEAD_SIZES)
    wide = reach is not Reach.CHUNKED and draw(st.integers(0, 4)) == 0
    kv_heads = draw(
        st.sampled_from(
            [n for n in (1, 2, 4, 8, 16, 3, 6, 10, 24) if not (n % tensor and tensor % n)]
        )
    )
    return Heads(
        reach,
        draw(st.sampled_from(kernels)),
        kv_heads,
        size,
        draw(_HEAD_SIZES) if wide else size,
        None if reach is Reach.FULL else draw(_WINDOWS),
    )


@st.composite
def _states(draw: st.DrawFn, tensor: int) -> State:
    mixer = draw(st.sampled_from(Mixer))
    ranks = draw(st.integers(1, 8)) * tensor
    return State(
        mixer,
        heads=ranks,
        head_size=draw(st.sampled_from([32, 64, 128, 256])),
        kernel=draw(st.integers(2, 5)),
        groups=draw(st.sampled_from([1, 2, 8])) if mixer is Mixer.MAMBA2 else ranks,
        state_size=draw(st.sampled_from([16, 64, 128])),
        dtype=draw(st.sampled_from(["auto", "float32", "float16"])),
    )


@st.composite
def _layers(draw: st.DrawFn, kinds: list[Cache]) -> tuple[tuple[Cache, ...], ...]:
    """Layers of these caches: in a repeating pattern or in any order, some with two caches."""
    one: list[tuple[Cache, ...]] = [(kind,) for kind in kinds]
    if isinstance(kinds[0], Heads) and kinds[0].reach is Reach.MLA and len(kinds) > 1:
        one = [tuple(kinds[:2]), *one[1:]] if kinds[1].__class__ is Heads else one
    elif len(kinds) > 1 and draw(st.integers(0, 5)) == 0:
        one.append(tuple(kinds[:2]))  # attention beside a recurrent state
    if draw(st.integers(0, 9)) == 0:
        one.append(())  # shares the cache of another layer
    pattern = draw(st.lists(st.sampled_from(one), min_size=1, max_size=12))
    if draw(st.booleans()):
        pattern = (pattern * draw(st.integers(1, 12)))[:48]
    return _first_attention_first(tuple(pattern), kinds)


def _first_attention_first(
    layers: tuple[tuple[Cache, ...], ...], kinds: list[Cache]
) -> tuple[tuple[Cache, ...], ...]:
    """At least one layer of the first kind, which is the one the model's config describes."""
    if any(kinds[0] in layer for layer in layers):
        return layers
    return ((kinds[0],), *layers)


@st.composite
def _drafts(
    draw: st.DrawFn, tensor: int, kinds: list[Cache], kernels: list[Kernels]
) -> tuple[Heads, ...]:
    """Attention layers of a draft: like one of the target's, or of its own kind."""
    if draw(st.integers(0, 3)):
        return ()
    attends = [kind for kind in kinds if isinstance(kind, Heads)]
    like = [kind for kind in attends if kind.reach is not Reach.INDEXER]
    options = [_dense(tensor, kernels)] + ([st.sampled_from(like)] if like else [])
    return tuple(draw(st.lists(st.one_of(options), min_size=1, max_size=6)))


def _stages(layers: tuple[tuple[Cache, ...], ...]) -> st.SearchStrategy[int]:
    return st.sampled_from([n for n in (1, 1, 1, 2, 3, 4) if n <= len(layers)])
