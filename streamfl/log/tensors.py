"""Messages for the models topic, not for the control topic, which people read: their slot, version and key."""

from streamfl.core.protocol.messages import BetweenPublished, ModelPublished, ModelsChanged, RegistryPublished

Tensors = RegistryPublished | ModelPublished | ModelsChanged | BetweenPublished

# Slots that no ladder has: the registry, the changes of all models of a round, and the models that learn between
# rounds, as changes or complete. They stay in the log.
REGISTRY, MODELS, CHANGES, WHOLE = "", "models-changed", "between-changes", "between"
STAYING = frozenset((REGISTRY, MODELS, CHANGES, WHOLE))

# A model's key holds its version modulo this: the two newest versions of every slot survive compaction.
VERSIONS = 2


def slot_of(message: Tensors) -> str:
    """Return the slot of a message."""
    match message:
        case RegistryPublished():
            return REGISTRY
        case ModelsChanged():
            return MODELS
        case BetweenPublished():
            return WHOLE if message.is_whole else CHANGES
    return message.slot


def version_of(message: Tensors) -> int:
    """Return the version of a message; the versions of a slot grow."""
    return message.registry.version if isinstance(message, RegistryPublished) else message.version


def key_of(message: Tensors) -> str:
    """Return the key of a message, without the number of the part.

    >>> import numpy as np
    >>> key_of(ModelPublished(slot="step 16", version=7, registry=1, weights=np.zeros((1, 1))))
    'step 16/1'
    """
    return f"{slot_of(message)}/{version_of(message) % VERSIONS}"
