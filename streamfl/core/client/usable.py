"""Whether what a coordinator tells can be used: what is checked of every message before a client takes it.

A client cannot know a forged message that is plausible. But what has the wrong shape, or numbers that are none, must
not end it: it is dropped and told, and the client asks for what it lacks.
"""

from math import isfinite

from streamfl.core.bounds import MOST_POSITIONS
from streamfl.core.protocol.external.interface import Guest
from streamfl.core.protocol.messages import (
    FromCoordinator,
    GuestPublished,
    Joined,
    ModelPublished,
    OnlinePublished,
    RegistryPublished,
    RoundOpened,
    Score,
)
from streamfl.core.protocol.native.settings import OnlineSettings
from streamfl.core.protocol.registry import wrong_registry

# Outputs of larger weights may have squares that overflow: who scored such a model could say nothing that counts.
LARGEST_WEIGHT = 1e100


def unusable(told: FromCoordinator, online: OnlineSettings | None, guest: Guest | None) -> str | None:
    """Return why a client cannot use a message, or None if it can.

    Parameters
    ----------
    told
        The message.
    online, guest
        What learns between rounds there, if anything does.

    Examples
    --------
    >>> import numpy as np
    >>> model = ModelPublished(slot="m", version=1, registry=1, weights=np.array([[np.nan]]))
    >>> unusable(model, None, None)
    'weights that are no matrix of finite numbers, or far too large'
    """
    match told:
        case RegistryPublished(registry=registry):
            return wrong_registry(registry)
        case ModelPublished():
            possible = told.largest_weight <= LARGEST_WEIGHT  # false also of NaN
            return None if possible else "weights that are no matrix of finite numbers, or far too large"
        case OnlinePublished() if online is not None:
            return _wrong_online(told, online)
        case GuestPublished(agreed=agreed) if guest is not None:
            return guest.refusal(agreed.state)
        case Joined():
            numbers = told.entry, told.rejected + 1, told.read - told.rejected + 1, *told.positions.values()
            possible = min(numbers[:3]) > 0 and min(numbers) >= 0 and max(numbers) < MOST_POSITIONS
            return None if possible else "a place that is none"
        case RoundOpened() | Score():
            return _wrong_slots(told) or (_wrong_opening(told) if isinstance(told, RoundOpened) else None)
        case _:
            return None


def _wrong_online(told: OnlinePublished, settings: OnlineSettings) -> str | None:
    cells, rows = told.cells, settings.table_rows
    if cells is not None and (cells.ndim != 1 or not ((cells >= 0) & (cells < rows)).all()):
        return "rows of a table that has none such"
    fits = told.models.fits(settings, rows if cells is None else len(cells))
    return None if fits else "models between rounds that do not fit their names"


def _wrong_slots(told: RoundOpened | Score) -> str | None:
    if len({slot.name for slot in told.slots}) != len(told.slots):
        return "a model twice"
    return None if all(isfinite(slot.eta) for slot in told.slots) else "a step that is no number"


def _wrong_opening(opened: RoundOpened) -> str | None:
    held = opened.held.per_label if opened.held is not None else 0
    if min(opened.entry, opened.round) < 1 or min(opened.known_labels, opened.keep, held) < 0:
        return "a round with impossible numbers"
    return None if opened.closes is None or isfinite(opened.closes) else "a round that closes at no time"
