"""How the GPUs of one node reach each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from hardware_db.gpu import Gpu, Pcie


class Link(Struct, frozen=True):
    """The link that bounds traffic among all GPUs of a node."""

    kind: Literal["none", "pcie", "nvlink", "fabric", "unknown"]
    """A "fabric" is a maker's own, of NVLink's class."""
    gbs_per_direction: float | None
    """GB/s one way, per GPU; None means not known (or, for "none", that there is no link)."""
    source: str
    """What the figure belongs to, for people: "PCIe 4.0 x16"."""


NO_LINK = Link("none", None, "one GPU")


def default_link(gpus: Sequence[Gpu]) -> Link:
    """What joins ``gpus`` as sold: NVLink where it is built in, else PCIe, never a bridge."""
    if len(gpus) == 1:
        return NO_LINK
    first = gpus[0]
    alike = all(gpu.slug == first.slug for gpu in gpus)
    if alike and first.nvlink is not None and first.nvlink.generation and not first.nvlink.bridge:
        return nvlink(first)
    if any(gpu.nvlink is None and _has_own_fabric(gpu) for gpu in gpus):
        return Link("fabric", None, "a link of its own, rate not known")
    return pcie_link([gpu.pcie for gpu in gpus])


def nvlink(gpu: Gpu) -> Link:
    """NVLink among several of ``gpu``: half of the bidirectional figure each way."""
    if gpu.nvlink is None or not gpu.nvlink.generation:
        return Link("nvlink", None, "NVLink, rate not known")
    kind = " bridge" if gpu.nvlink.bridge else ""
    return Link("nvlink", gpu.nvlink.gbs_bidirectional / 2, f"NVLink {gpu.nvlink.generation}{kind}")


def pcie_link(links: Sequence[Pcie | None]) -> Link:
    """PCIe among cards with these links: the slowest bounds all."""
    known = [link for link in links if link is not None]
    if not known or len(known) < len(links):
        return Link("unknown", None, "link not known")
    slowest = min(known, key=lambda link: link.gbs_per_direction)
    return Link("pcie", slowest.gbs_per_direction, str(slowest))


def _has_own_fabric(gpu: Gpu) -> bool:
    """Parts that reach each other by other means than PCIe (Infinity Fabric, Ethernet, C2C)."""
    other_vendor = gpu.category == "datacenter" and gpu.vendor in ("amd", "intel")
    return gpu.category == "superchip" or other_vendor
