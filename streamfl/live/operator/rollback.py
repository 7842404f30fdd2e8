"""`streamfl rollback`: which model a federation can return to."""

from collections.abc import Iterable
from contextlib import closing

from streamfl.errors import UsageError
from streamfl.learning.profiles.base import model_of_round
from streamfl.live.operator.watch import heard
from streamfl.protocol.messages import FromCoordinator, RoundClosed
from streamfl.runtime.ports import Connector


def past_model(connector: Connector, entry: int) -> str:
    """Return the name of the youngest kept model that served in the round of an entry, or before.

    Raises
    ------
    UsageError
        There is no such entry, the log no longer holds it, or no model of its time is kept.
    """
    state = connector.state()
    closed = 0 if state is None else state.entry - 1
    if state is None or not 1 <= entry <= closed:
        raise UsageError(f"there is no entry {entry}: entries 1 to {closed} are closed")
    with closing(connector.watcher(last=None, letters=False)) as watcher:
        past = round_of(entry, heard(watcher.read))
    kept = state.profile.past_rounds
    for served in kept:
        if served <= past:
            return model_of_round(served)
    raise UsageError(
        f"entry {entry} closed round {past}, but no model of that time is kept: "
        + (f"those of rounds {', '.join(map(str, kept))} are" if kept else f"{state.profile.profile} keeps none")
    )


def round_of(entry: int, messages: Iterable[FromCoordinator | None]) -> int:
    """Return the round that an entry has closed.

    Parameters
    ----------
    messages
        What the coordinator told, from the oldest message on; no more is read than up to the entry.

    Examples
    --------
    >>> from streamfl.protocol.messages import Left
    >>> round_of(3, [Left(client="c0", nonce="7f")])
    Traceback (most recent call last):
    streamfl.errors.UsageError: the log no longer holds entry 3

    Raises
    ------
    UsageError
        The log no longer holds it.
    """
    for message in messages:
        if isinstance(message, RoundClosed) and message.entry >= entry:
            if message.entry == entry:
                return message.round
            break
    raise UsageError(f"the log no longer holds entry {entry}")
