"""Names → GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from hardware_db.gpu import Gpu
from hardware_db.names import Name, run_together, spellings

_ByWords = dict[frozenset[str], list[Gpu]]


class NameIndex:
    """Which of ``gpus`` a name fits. Where it fits several, their order decides."""

    def __init__(self, gpus: Iterable[Gpu]):
        self.pci: dict[str, list[Gpu]] = defaultdict(list)
        # What the catalogue itself calls a card (slug, name, aliases): by key, and by words.
        self._listed: dict[str, tuple[Gpu, Name]] = {}
        self._listed_words: dict[tuple[frozenset[str], int | None], tuple[Gpu, Name]] = {}
        self._reported: dict[str, list[Gpu]] = defaultdict(list)
        # Every name, without its memory size, and also without the words of a variant.
        self._loose: _ByWords = defaultdict(list)
        self._family: _ByWords = defaultdict(list)
        self._families: dict[str, dict[frozenset[str], None]] = {}
        self._variants: dict[str, frozenset[str]] = {}
        for gpu in gpus:
            self._add(gpu)

    def _add(self, gpu: Gpu) -> None:
        for pci_id in gpu.pci_ids:
            self.pci[pci_id].append(gpu)
        listed = spellings(gpu.slug, gpu.name, *gpu.aliases)
        for name in listed:
            self._listed.setdefault(name.key, (gpu, name))
            self._listed.setdefault(run_together(name.key), (gpu, name))
            self._listed_words.setdefault((name.loose, name.size_gb), (gpu, name))
        reported = spellings(*gpu.reported_names)
        for name in reported:
            self._reported[name.key].append(gpu)
        names = (*listed, *reported)
        for words in {name.loose for name in names}:
            self._loose[words].append(gpu)
        self._families[gpu.slug] = {name.family: None for name in names}
        for words in self._families[gpu.slug]:
            self._family[words].append(gpu)
        self._variants[gpu.slug] = frozenset().union(*[name.variant for name in names])

    def listed(self, name: Name) -> tuple[Gpu, Name] | None:
        """The card that the catalogue lists under ``name``, and the listed form of it."""
        return self._listed.get(name.key) or self._listed_words.get((name.loose, name.size_gb))

    def fitting(self, name: Name) -> list[Gpu]:
        """The cards that ``name`` alone fits, the one it means first."""
        if (listed := self.listed(name)) is not None:
            return [listed[0]]
        sized = _of_size(self._loose.get(name.loose, ()), name)
        return self._meant_first(name, self.reported(name) or sized)

    def possible(self, name: Name) -> list[Gpu]:
        """Every card that ``name`` may mean if its memory is to decide, the likeliest first.

        "H100" may be any H100; only a driver's name is complete.
        """
        any_size = self._loose.get(name.loose, []) if name.size_gb is None else []
        found = self.reported(name) or [*self.fitting(name), *any_size, *self.siblings(name)]
        return self._meant_first(name, list(dict.fromkeys(found)))

    def reported(self, name: Name) -> list[Gpu]:
        """The cards that drivers report under ``name``."""
        return self._reported.get(name.key, [])

    def siblings(self, name: Name) -> list[Gpu]:
        """The cards of the model whose variant and size do not contradict ``name``."""
        families: Iterable[frozenset[str]] = [name.family]
        if (listed := self.listed(name)) is not None:
            families, name = self._families[listed[0].slug], listed[1]
        model = dict.fromkeys(gpu for words in families for gpu in self._family.get(words, ()))
        return [gpu for gpu in _of_size(model, name) if name.variant <= self._variants[gpu.slug]]

    def resembling(self, name: Name) -> tuple[str, ...]:
        """Slugs of up to three cards with a similar name, the most similar first."""
        from difflib import get_close_matches  # slow to import, needed for errors only

        close = get_close_matches(name.key, self._listed, n=12, cutoff=0.6)
        fuller = [gpu for words, gpus in self._loose.items() if name.loose < words for gpu in gpus]
        similar = [
            *self._loose.get(name.loose, ()),
            *(fuller if name.loose else ()),
            *(self._listed[key][0] for key in close),
        ]
        return tuple(dict.fromkeys(gpu.slug for gpu in similar))[:3]

    def _meant_first(self, name: Name, gpus: list[Gpu]) -> list[Gpu]:
        """Of several cards with one name, the one listed under the bare model is meant."""
        meant = self._listed.get(name.model)
        return sorted(gpus, key=lambda gpu: meant is None or gpu is not meant[0])


def _of_size(gpus: Iterable[Gpu], name: Name) -> list[Gpu]:
    return [gpu for gpu in gpus if name.size_gb in (None, gpu.memory.nominal_gb)]
