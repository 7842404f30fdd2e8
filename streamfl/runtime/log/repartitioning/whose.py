"""Whose a message is, by what it says itself."""

from collections.abc import Sequence
from dataclasses import dataclass

from streamfl.protocol.reasons import Reason, ReasonCode
from streamfl.runtime.log.intake import LogMessage, client_named
from streamfl.runtime.ports import RecordFormat

NO_CLIENT = Reason("its key is not a client's name of 1 to 256 bytes", ReasonCode.NO_CLIENT)


@dataclass(frozen=True, slots=True)
class Whose:
    """What is known of a message: whose it is, by which id, or why it cannot be used."""

    client: str = ""  # the client of a record, "" if it names none; a label has none yet
    id: str = ""  # the id of the record, "" if it has none
    reason: str = ""  # what is wrong with it, "" if nothing is
    is_mark: bool = False  # whether it marks the end of its partition


MARK = Whose(is_mark=True)


def whose_by_key(messages: Sequence[LogMessage], ids: RecordFormat | None) -> list[Whose]:
    """Return whose are records whose key is their client; with a format, also their ids.

    >>> from types import SimpleNamespace
    >>> whose_by_key([SimpleNamespace(offset=0, key=b"m07", value=b"")], None)
    [Whose(client='m07', id='', reason='', is_mark=False)]
    """
    known = {} if ids is None else _ids(messages, ids)
    return [
        Whose(client, known.get(message.offset, ("", ""))[0], "" if client else NO_CLIENT)
        for message in messages
        for client in [client_named(message.key)]
    ]


def whose_by_field(messages: Sequence[LogMessage], records: RecordFormat) -> list[Whose]:
    """Return whose are records that name their client in a field, and their ids if the format reads them."""
    decoded = records.decode([one.offset for one in messages], [one.value for one in messages])
    ids = [""] * len(decoded.positions) if decoded.half is None else decoded.half.keys.tolist()
    found = {at: Whose(*both) for at, *both in zip(decoded.positions.tolist(), decoded.clients, ids, strict=True)}
    for bad, client in zip(decoded.rejected, decoded.rejected_clients, strict=True):
        found[bad.position] = Whose(client, bad.key, "" if client else bad.reason)
    return [found[message.offset] for message in messages]


def whose_labels(messages: Sequence[LogMessage], labels: RecordFormat) -> list[Whose]:
    """Return whose are labels; those that say no id are stray, and clients refuse those that say nothing else."""
    found = _ids(messages, labels)
    return [Whose("", key, "" if key else reason) for key, reason in (found[message.offset] for message in messages)]


def _ids(messages: Sequence[LogMessage], form: RecordFormat) -> dict[int, tuple[str, str]]:
    """Return the id in each message, by offset, and what is wrong with it."""
    decoded = form.decode([one.offset for one in messages], [one.value for one in messages])
    keys = [] if decoded.half is None else decoded.half.keys.tolist()
    good = {at: (key, "") for at, key in zip(decoded.positions.tolist(), keys, strict=True)}
    return good | {bad.position: (bad.key, bad.reason) for bad in decoded.rejected}
