"""What the files' headers say against what a config says of a modelled network: the files win.

vLLM builds the network from the config and fills it from the files, so each difference is judged
by what vLLM 0.33 does with it. A check that cannot be sure says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from model_cards.architectures.decoder import Body
from model_cards.card import count_elements, count_same, module_bytes
from model_cards.inventory import Inventory, StoredTensor
from model_cards.modules import NO_HEAD

# Differences below this share are scales, buffers and the like.
_TOLERANCE: Final = 0.005


def keeps_head(inventory: Inventory, says_tied: bool) -> bool:
    """Whether vLLM keeps an output head of its own for a network whose class ties it.

    It loads one that is stored, and ties it again if it repeats the embedding; nobody having
    looked, it is taken to do so where the config itself says that they are tied.
    """
    if inventory.lm_head is None:
        return False
    if inventory.head_is_copy is not None:
        return not inventory.head_is_copy
    return not says_tied


def own_matrices(inventory: Inventory) -> tuple[bool, bool]:
    """Whether a drafting head brings an embedding and an output head, as vLLM sees it: by name."""
    embedding = any("embed_tokens" in name for name in inventory.tensors)
    return embedding, any("lm_head" in name for name in inventory.tensors)


def check_body(body: Body, inventory: Inventory, *, class_ties: bool) -> Body:
    """The network without the drafts that the files do not hold, and notes on what differs.

    `class_ties`: without a look at the files its output head would be its embedding.
    """
    notes = list(body.notes)
    drafts = body.drafts
    if drafts and not inventory.drafts(len(body.layers)):
        drafts = ()
        notes.append("its files hold no MTP layers, so it cannot draft for itself")
    notes += _head_notes(body, inventory, class_ties)
    notes += _layer_notes(body, inventory)
    unreadable = body.unreadable or _misfit(body, inventory)
    return replace(body, drafts=drafts, notes=tuple(notes), unreadable=unreadable)


def total_note(body: Body, inventory: Inventory, dtype_bytes: int) -> str | None:
    """That the modules of the network and the stored tensors do not add up to the same.

    Encoders and drafting layers are left out: vLLM's classes skip parts of them.
    """
    modules = [module for layer in body.layers for module in layer.modules]
    modules += [body.embedding, *body.final, *body.beside]
    modules += [body.lm_head] if body.lm_head is not None else []
    stored = dict(_served(body, inventory))
    # vLLM casts the model's own numbers to its dtype, whatever width they are stored in.
    own = {name for name, tensor in stored.items() if tensor.plain and "scale" not in name}
    if len(own) == len(stored):
        modelled = count_elements(modules)
        held = sum(tensor.elements for tensor in stored.values())
    else:
        modelled = sum(count * module_bytes(m, dtype_bytes) for m, count in count_same(modules))
        held = sum(
            tensor.elements * dtype_bytes if name in own else tensor.bytes
            for name, tensor in stored.items()
        )
    if abs(held - modelled) <= _TOLERANCE * modelled:
        return None
    more_or_less = "more" if held > modelled else "less"
    return (
        f"its files hold {abs(held / modelled - 1):.1%} {more_or_less} for the language model than "
        "its config describes; its weights are estimated"
    )


def _head_notes(body: Body, inventory: Inventory, class_ties: bool) -> Iterator[str]:
    stored, copied = inventory.lm_head is not None, inventory.head_is_copy
    if class_ties and stored and not copied:
        held = "its files hold an output head although the config ties it to the embedding"
        size = f"{body.embedding.elements * 2 / 2**30:.2f} GiB"
        if copied is False:
            yield f"{held}; they differ, so vLLM keeps both ({size} more)"
        elif body.lm_head is None:
            yield f"{held}; taken as a copy, which vLLM drops again (if it differs: {size} more)"
        else:
            yield f"{held}; vLLM keeps it unless it is a copy (then {size} less)"
    elif body.lm_head not in (None, NO_HEAD) and _lacks_head(inventory):
        yield (
            "its files hold no output head although the config does not tie it to the embedding; "
            "vLLM would generate text with one that was never loaded"
        )


def _lacks_head(inventory: Inventory) -> bool:
    return inventory.embedding is not None and not inventory.names_a_head


def _layer_notes(body: Body, inventory: Inventory) -> Iterator[str]:
    count, stored = len(body.layers), inventory.layer_indices
    missing = count - len([index for index in stored if index < count])
    if stored and missing:
        yield f"its files hold {count - missing} of the config's {count} decoder layers"
    elif stored and max(stored) >= count and not body.drafts:
        yield f"its files hold layers behind the config's {count}, which vLLM does not serve"


def _misfit(body: Body, inventory: Inventory) -> str | None:
    """Why vLLM stops at loading the embedding, whose rows and width it insists on."""
    if inventory.embedding is None:
        return None
    name, tensor = inventory.embedding
    wanted = (body.embedding.rows, body.embedding.width)
    if not tensor.plain or len(tensor.shape) != 2 or tensor.shape == wanted:
        return None
    return (
        f"it describes an embedding of {wanted[0]} x {wanted[1]}, but {name} has "
        f"{tensor.shape[0]} x {tensor.shape[1]}"
    )


def _served(body: Body, inventory: Inventory) -> Iterator[tuple[str, StoredTensor]]:
    """The tensors that vLLM loads for the language model."""
    copied = inventory.lm_head[0] if body.lm_head is None and inventory.lm_head else None
    for name, tensor in inventory.served.items():
        place = inventory.places.get(name)
        if name != copied and (place is None or place[1] < len(body.layers)):
            yield name, tensor
