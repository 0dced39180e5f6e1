"""Whether a checkpoint brings vocabulary matrices of its own, by its files or its total."""

from __future__ import annotations

from model_cards.architectures.decoder import Body
from model_cards.card import Head
from model_cards.counting import count_parameters
from model_cards.facts import Facts
from model_cards.reconcile import keeps_head, own_matrices


def has_own_head(body: Body, says_tied: bool, facts: Facts) -> bool:
    """Whether the checkpoint has an output head although its model class ties it.

    vLLM looks for one and ties it only if it is a copy of the embedding, which it is taken to be
    where the config itself says that they are tied.
    """
    if body.lm_head is not None:
        return False
    if facts.inventory is not None:
        return keeps_head(facts.inventory, says_tied)
    if says_tied or facts.parameters is None:
        return False
    return facts.parameters == count_parameters(body) + body.embedding.elements


def drafting_head(method: str, body: Body, facts: Facts) -> Head:
    """Which vocabulary matrices a head has, by its files, else its total, else its method.

    A vocabulary of its own needs an output head of its own.
    """
    embedding, lm_head = body.embedding, body.lm_head
    own_vocabulary = lm_head is not None and lm_head.rows != embedding.rows
    if facts.inventory is not None:
        own_embedding, own_lm_head = own_matrices(facts.inventory)
        return Head(method, own_embedding, own_lm_head or own_vocabulary)
    parameters = facts.parameters
    if parameters is None:
        return Head(method, own_embedding=False, own_lm_head=own_vocabulary)
    output = lm_head.elements if lm_head is not None else 0
    rest = parameters - (count_parameters(body) - embedding.elements - output)
    own_lm_head = own_vocabulary or (output > 0 and rest >= embedding.elements + output)
    if own_lm_head:
        rest -= output
    return Head(method, own_embedding=rest >= embedding.elements, own_lm_head=own_lm_head)
