"""The registries and models that a client has received, until they are superseded."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from streamfl.arrays import FloatArray
from streamfl.errors import PeerError
from streamfl.protocol.arrived import Arrived
from streamfl.protocol.changes import followed
from streamfl.protocol.memory import MOST_KEPT
from streamfl.protocol.messages import ModelPublished, ModelsChanged, RegistryPublished, Slot
from streamfl.protocol.registry import Registry

# The most models that are kept, models for other clients included. Beyond that, or `MOST_KEPT` bytes, the oldest
# arrivals are dropped.
MODELS = 512


@dataclass
class Published:
    """The newest versions of the registry and of every slot, by arrival; messages may come in any order, and twice.

    >>> import numpy as np
    >>> here = Published()
    >>> here.add(ModelPublished(slot="step 16", version=3, registry=1, weights=np.ones((1, 2))))
    []
    >>> slot = Slot(name="step 16", version=3, eta=0.1)
    >>> here.has(1, [slot]), here.weights([slot])
    (False, {'step 16': array([[1., 1.]])})
    """

    registries: Arrived[Registry] = field(default_factory=Arrived)
    slots: dict[str, Arrived[FloatArray]] = field(default_factory=dict)
    changes: Arrived[ModelsChanged] = field(default_factory=Arrived)  # that wait for the version before
    _most: int = 0  # an upper bound of the bytes of models: dropped ones count until it is exceeded

    def add(self, message: RegistryPublished | ModelPublished | ModelsChanged) -> list[PeerError]:
        """Keep a message; all but the last few versions are dropped. Return what turned out to be forged."""
        match message:
            case RegistryPublished(registry=registry):
                self.registries.take(registry.version, registry, message.memory)
                return []
            case ModelPublished():
                self._keep(message.slot, message.version, message.weights)
            case ModelsChanged():
                self.changes.take(message.version, message)
        return self._follow()

    def _keep(self, slot: str, version: int, weights: FloatArray) -> None:
        versions = self.slots[slot] = self.slots.pop(slot) if slot in self.slots else Arrived()
        self._most += versions.take(version, weights)
        if len(self.slots) > MODELS or self._most > MOST_KEPT:
            self._shed()

    def _follow(self) -> list[PeerError]:
        """Follow the changes whose version before is here; drop those that lead to other models than they say."""
        errors = []
        for version in sorted(self.changes.versions):
            message = self.changes.versions[version]
            before = {slot: kept.versions[version - 1] for slot, kept in self.slots.items() if kept.has(version - 1)}
            try:
                models = followed(message, before)
            except PeerError as error:
                errors.append(error)
                models = {}
            if models is not None:
                self.changes.drop(version)
                for slot, weights in models.items():
                    self._keep(slot, version, weights)
        return errors

    def _shed(self) -> None:
        """Drop the slots that arrived longest ago, until the others are within bounds."""
        kept = sum([versions.memory for versions in self.slots.values()])
        while len(self.slots) > MODELS or (kept > MOST_KEPT and len(self.slots) > 1):
            kept -= self.slots.pop(next(iter(self.slots))).memory
        self._most = kept

    def has(self, registry: int, slots: Iterable[Slot], columns: Callable[[int], int] | None = None) -> bool:
        """Tell whether the registry and all slots have arrived in the versions named.

        With `columns`, the columns of a model for a number of labels, also check that the weights fit the registry.
        """
        names = self.registries.get(registry)
        if names is None:
            return False
        shape = None if columns is None else (names.rows, columns(len(names.labels)))
        weights = [self._weights(slot) for slot in slots]
        return all(W is not None and (shape is None or W.shape == shape) for W in weights)

    def registry(self, version: int) -> Registry:
        """Return the registry of a version that has arrived."""
        return self.registries.versions[version]

    def weights(self, slots: Iterable[Slot]) -> dict[str, FloatArray]:
        """Return the weights of slots that have arrived."""
        return {slot.name: self.slots[slot.name].versions[slot.version] for slot in slots}

    def forget_before(self, slots: Sequence[Slot]) -> None:
        """Drop the versions that no round can name any more: those before the oldest live one."""
        oldest = min([slot.version for slot in slots], default=0)
        for name, versions in list(self.slots.items()):
            versions.forget_before(oldest)
            if not versions.versions:
                del self.slots[name]
        self.changes.forget_before(oldest)

    def _weights(self, slot: Slot) -> FloatArray | None:
        versions = self.slots.get(slot.name)
        return None if versions is None else versions.get(slot.version)
