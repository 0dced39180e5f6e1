"""Parameters of a network, counted over its modules."""

from __future__ import annotations

from collections.abc import Iterator

from model_cards.architectures.decoder import Body
from model_cards.card import count_same
from model_cards.modules import Experts, Linear, Module

_PACKED_FLOATS = frozenset({"nvfp4", "mxfp4"})


def _modules(body: Body) -> Iterator[tuple[Module, int]]:
    """The modules of the served model, with how often each occurs."""
    for layer, count in count_same(body.layers):
        yield from ((module, count) for module in layer.modules)
    for tower in body.towers:
        yield from count_same(tower.modules)
    alone = (body.embedding, *body.final, *body.beside)
    yield from ((module, 1) for module in alone)
    if body.lm_head is not None:
        yield body.lm_head, 1


def count_parameters(body: Body) -> int:
    """Logical parameters."""
    return sum(count * module.elements for module, count in _modules(body))


def count_packed(body: Body) -> int:
    """Parameters where two 4-bit floats in a byte count as one, and scales not at all."""

    def elements(module: Module) -> int:
        packed = isinstance(module, (Linear, Experts)) and module.format.kind in _PACKED_FLOATS
        return module.elements // 2 if packed else module.elements

    return sum(count * elements(module) for module, count in _modules(body))
