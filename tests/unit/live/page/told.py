"""What a coordinator tells, for tests of the page: messages with only the fields that matter in each."""

from streamfl.live.page.history import PageHistory
from streamfl.protocol.alarm import Reading
from streamfl.protocol.messages import (
    Accepted,
    Joined,
    Left,
    LocalDrift,
    Refusal,
    Restarted,
    RoundClosed,
    RoundOpened,
    Served,
)
from streamfl.protocol.records import Span

IMAGE = "<img src=x onerror=\"document.title='owned'\">"


def joined(client):
    return Joined(client=client, nonce="a", incarnation=1, entry=1, positions={}, read=0)


def left(client):
    return Left(client=client, nonce="a")


def opened(entry, epoch=1, **more):
    fields = {"round": entry, "block": 1, "registry": 1, "slots": (), "serves": "rung-1", "known_labels": 2}
    return RoundOpened(entry=entry, epoch=epoch, **(fields | more))


def accepted(client, records, start=0, rejected=0, measured=None):
    spans = (Span(f"r.{client}/0", start, start + records + rejected),)
    return Accepted(client=client, attempt="1", spans=spans, records=records, rejected=rejected, measured=measured)


def closed(entry, updates, correct=0, no_change=0.0, **more):
    """An entry with updates as pairs of client and records."""
    taken = tuple(one if isinstance(one, Accepted) else accepted(*one) for one in updates)
    records = sum(one.records for one in taken)
    fields = {
        "round": entry,
        "epoch": 1,
        "block": 1,
        "records": records,
        "trained": records,
        "rejected": sum(one.rejected for one in taken),
        "losses": {"rung-1": 0.25},
        "serves": "rung-1",
        "readings": {"excess": Reading(3.5, 9.25)},
        "served": Served(
            records=records, correct=correct, no_change=no_change, shares={"fern": 0.5 * min(max(records, 0), 1000)}
        ),
        "model": "ab" * 32,
        "registry": 1,
    }
    return RoundClosed(entry=entry, accepted=taken, **(fields | more))


def restarted(round_, epoch, **more):
    fields = {"cause": "excess", "statistic": 113.8, "threshold": 9.21, "chosen": "scratch", "since": round_ - 1}
    return Restarted(round=round_, epoch=epoch, **(fields | more))


def drifted(round_, state, clients=("c0",), **more):
    fields = {"epoch": 1, "statistic": 23.4, "threshold": 9.2, "since": round_ - 1}
    return LocalDrift(round=round_, state=state, clients=clients, **(fields | more))


def refused(client, reason="a loss of NaN", **more):
    return Refusal(client=client, incarnation=1, entry=1, reason=reason, **more)


def heard(*messages, history=None):
    """The history after some messages, each taken by the log a minute after the one before."""
    history = history or PageHistory()
    for i, message in enumerate(messages):
        history.hear(message, 1_700_000_000_000 + 60_000 * i)
    return history
