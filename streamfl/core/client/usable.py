"""Whether what a coordinator tells can be used: what is checked of every message before a client takes it.

A client cannot know a forged message that is plausible. But what has the wrong shape, or numbers that are none, must
not end it: it is dropped and told, and the client asks for what it lacks.
"""

from math import isfinite
from typing import Any

from streamfl.core.bounds import MOST_POSITIONS
from streamfl.core.learning.between_rounds import BetweenRounds
from streamfl.core.protocol.messages import (
    BetweenPublished,
    FromCoordinator,
    Joined,
    ModelPublished,
    RegistryPublished,
    RoundOpened,
    Score,
)
from streamfl.core.protocol.registry import wrong_registry

# Outputs of larger weights may have squares that overflow: who scored such a model could say nothing that counts.
LARGEST_WEIGHT = 1e100


def unusable(told: FromCoordinator, between: BetweenRounds[Any, Any] | None) -> str | None:
    """Return why a client cannot use a message, or None if it can.

    Parameters
    ----------
    told
        The message.
    between
        What learns between rounds there, if anything does.

    Examples
    --------
    >>> import numpy as np
    >>> model = ModelPublished(slot="m", version=1, registry=1, weights=np.array([[np.nan]]))
    >>> unusable(model, None)
    'weights that are no matrix of finite numbers, or far too large'
    """
    match told:
        case RegistryPublished(registry=registry):
            return wrong_registry(registry)
        case ModelPublished():
            possible = told.largest_weight <= LARGEST_WEIGHT  # false also of NaN
            return None if possible else "weights that are no matrix of finite numbers, or far too large"
        case BetweenPublished() if between is not None:
            return between.unusable(told)
        case Joined():
            numbers = told.entry, told.rejected + 1, told.read - told.rejected + 1, *told.positions.values()
            possible = min(numbers[:3]) > 0 and min(numbers) >= 0 and max(numbers) < MOST_POSITIONS
            return None if possible else "a place that is none"
        case RoundOpened() | Score():
            return _wrong_slots(told) or (_wrong_opening(told) if isinstance(told, RoundOpened) else None)
        case _:
            return None


def _wrong_slots(told: RoundOpened | Score) -> str | None:
    if len({slot.name for slot in told.slots}) != len(told.slots):
        return "a model twice"
    return None if all(isfinite(slot.eta) for slot in told.slots) else "a step that is no number"


def _wrong_opening(opened: RoundOpened) -> str | None:
    held = opened.held.per_label if opened.held is not None else 0
    if min(opened.entry, opened.round) < 1 or min(opened.known_labels, opened.keep, held) < 0:
        return "a round with impossible numbers"
    return None if opened.closes is None or isfinite(opened.closes) else "a round that closes at no time"
