"""What a client has received on the models topic, until it is superseded."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from streamfl.core.arrays import FloatArray
from streamfl.core.messages import ModelPublished, RegistryPublished, Slot
from streamfl.core.registry import Registry

V = TypeVar("V")

# The open round's version and the one that may arrive before its RoundOpened.
VERSIONS = 2


@dataclass
class Published:
    """The newest versions of the registry and of every slot; messages may come in any order, and twice.

    >>> import numpy as np
    >>> here = Published()
    >>> here.add(ModelPublished(slot="rung-0", version=3, registry=1, weights=np.ones((1, 2))))
    >>> slot = Slot(name="rung-0", version=3, eta=0.1)
    >>> here.has(1, [slot]), here.weights([slot])
    (False, {'rung-0': array([[1., 1.]])})
    """

    registries: dict[int, Registry] = field(default_factory=dict)
    slots: dict[str, dict[int, FloatArray]] = field(default_factory=dict)

    def add(self, message: RegistryPublished | ModelPublished) -> None:
        """Take a message in; older versions than the newest two are dropped."""
        if isinstance(message, RegistryPublished):
            self.registries.setdefault(message.registry.version, message.registry)
            self.registries = _newest(self.registries)
            return
        versions = self.slots.setdefault(message.slot, {})
        versions[message.version] = message.weights
        self.slots[message.slot] = _newest(versions)

    def has(self, registry: int, slots: Iterable[Slot]) -> bool:
        """Tell whether the registry and all the slots are here in the versions named."""
        return registry in self.registries and all(s.version in self.slots.get(s.name, {}) for s in slots)

    def registry(self, version: int) -> Registry:
        """Return the registry of a version that is here."""
        return self.registries[version]

    def weights(self, slots: Iterable[Slot]) -> dict[str, FloatArray]:
        """Return the weights of slots that are here."""
        return {slot.name: self.slots[slot.name][slot.version] for slot in slots}

    def forget_before(self, slots: Sequence[Slot]) -> None:
        """Drop what no round can name any more: versions before the oldest that is live."""
        oldest = min((slot.version for slot in slots), default=0)
        kept = {name: {v: W for v, W in versions.items() if v >= oldest} for name, versions in self.slots.items()}
        self.slots = {name: versions for name, versions in kept.items() if versions}


def _newest(versions: dict[int, V]) -> dict[int, V]:
    return versions if len(versions) <= VERSIONS else {v: versions[v] for v in sorted(versions)[-VERSIONS:]}
