"""Messages for the models topic, not for the control topic, which people read: their slot, version and key."""

from streamfl.protocol.changes import WHOLE_EVERY
from streamfl.protocol.messages import ModelPublished, ModelsChanged, OnlinePublished, RegistryPublished

Tensors = RegistryPublished | ModelPublished | ModelsChanged | OnlinePublished

# Slots that no ladder has: the registry, the changes of all models of a round, and the models that learn between
# rounds, as changes or complete. They stay in the log.
REGISTRY, MODELS, CHANGES, WHOLE = "", "models-changed", "online-changes", "online"
STAYING = frozenset((REGISTRY, MODELS, CHANGES, WHOLE))

# The key under which the end of a federation is kept among the models. Keys of slots also hold a version.
END = "ended"

# A model's key holds its version modulo this: this many newest versions of every slot survive compaction. Of changes
# those since the last round that was published whole do.
VERSIONS, CHANGED = 2, WHOLE_EVERY + 2


def slot_of(message: Tensors) -> str:
    """Return the slot of a message."""
    match message:
        case RegistryPublished():
            return REGISTRY
        case ModelsChanged():
            return MODELS
        case OnlinePublished():
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
    slot = slot_of(message)
    return f"{slot}/{version_of(message) % (CHANGED if slot in (MODELS, CHANGES) else VERSIONS)}"


def place_of(key: bytes | None) -> str:
    """Return what the signature of a part under a key, or of its removal, is for: the key without its own number.

    >>> place_of(b"step 16/1/0")
    'models step 16/1'
    """
    return f"models {(key or b'').rpartition(b'/')[0].decode(errors='replace')}"


def place_among_newest(message: Tensors) -> str:
    """Return where a message is kept for clients that begin now: of every slot the newest `VERSIONS`.

    They ask for what they lack. Under its key a message stays in the log for readers that ask for nothing, which of
    changes need many more.

    >>> import numpy as np
    >>> steps, numbers = np.zeros(1), np.zeros((1, 1))
    >>> change = ModelsChanged(version=9, slots=("m",), bases=(-1,), exponents=steps, numbers=numbers, digest="")
    >>> key_of(change), place_among_newest(change)
    ('models-changed/9', 'models-changed/1')
    """
    return f"{slot_of(message)}/{version_of(message) % VERSIONS}"
