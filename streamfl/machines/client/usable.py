"""Checks of every message from the coordinator before a client uses it.

A client cannot detect a plausible forgery. But a message with wrong shapes or impossible numbers must not end it: the
message is dropped and reported, and the client asks for what it lacks.
"""

from typing import Any

from streamfl.bounds import MOST_POSITIONS, NAMED, is_name
from streamfl.learning.online_models import OnlineModels
from streamfl.learning.pooling.masks import KEY_DIGITS
from streamfl.machines.client.settings import ClientSettings
from streamfl.protocol.changes import wrong
from streamfl.protocol.messages import (
    FromCoordinator,
    Joined,
    ModelPublished,
    ModelsChanged,
    OnlinePublished,
    RegistryPublished,
    Roster,
    RoundOpened,
    Score,
    wrong_slots,
)

# The squared outputs of larger weights may overflow, and the scores of such a model would be useless.
LARGEST_WEIGHT = 1e100


def unusable(message: FromCoordinator, online: OnlineModels[Any, Any] | None) -> str | None:
    """Return why a client cannot use a message, or None if it can.

    Parameters
    ----------
    online
        What learns online; None if nothing does.

    Examples
    --------
    >>> import numpy as np
    >>> model = ModelPublished(slot="m", version=1, registry=1, weights=np.array([[np.nan]]))
    >>> unusable(model, None)
    'the weights are not a matrix of finite numbers, or are far too large'
    """
    match message:
        case RegistryPublished(registry=registry):
            return registry.wrong
        case ModelPublished():
            possible = message.largest_weight <= LARGEST_WEIGHT  # false also of NaN
            return None if possible else "the weights are not a matrix of finite numbers, or are far too large"
        case ModelsChanged():
            return wrong(message)
        case OnlinePublished() if online is not None:
            return online.unusable(message)
        case Joined():
            numbers = (
                message.entry,
                message.rejected + 1,
                message.read - message.rejected + 1,
                message.resumed,
                *message.positions.values(),
            )
            if message.watermark is not None:
                numbers += message.watermark.counts
            if message.disclosed is not None:
                numbers += (message.disclosed.entry, message.disclosed.records, *message.disclosed.ends.values())
            possible = min(numbers[:3]) > 0 and min(numbers) >= 0 and max(numbers) < MOST_POSITIONS
            return None if possible else "the place is impossible"
        case Roster():
            return _wrong_roster(message)
        case RoundOpened():
            return message.wrong
        case Score():
            return wrong_slots(message.slots)
        case _:
            return None


def unprotected(opened: RoundOpened, settings: ClientSettings) -> str | None:
    """Return why a round tells more of a client's records than its settings allow, or None."""
    sums = ("masked" if opened.totals.roster else "pooled") if opened.totals.pooled else "off"
    if sums != settings.secure_aggregation:
        return (
            f"the round has secure_aggregation {sums}, but this client's settings have {settings.secure_aggregation}"
        )
    if sums == "masked" and opened.scores_again:
        return "the round scores old records again, and two totals could tell about one client"
    if settings.noise is None:
        return None
    if opened.scores_again:
        return "the round scores old records again, and noise could not hide each of them"
    steps = all(slot.whitened for slot in opened.slots if slot.trained)
    if not steps or opened.asks.moments:
        return "the round asks for sums that one record can change without bound, and noise could not hide it"
    return None


def _wrong_roster(roster: Roster) -> str | None:
    """Return why there can be no such roster; a key that is none is found out when it is used."""
    if not 0 < roster.version < MOST_POSITIONS or len(roster.keys) > NAMED.clients:
        return "the roster has far too many clients, or its number is missing"
    named = all(is_name(client) and len(key) == KEY_DIGITS for client, key in roster.keys.items())
    return None if named else "the roster has a client without a name or a key"
