"""What `streamfl init` sees in topics of records, and in a topic of later labels, each with its record's id."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from streamfl.live.operator.init.doubted import doubted, has_commas
from streamfl.live.operator.init.layout import LabelsLayout, RecordsLayout, interval_of
from streamfl.live.operator.init.of_topic import columns_of, object_of
from streamfl.live.operator.init.roles import Looked, Roles, roles_of
from streamfl.records.objects import Object, flat
from streamfl.records.request import LABEL_NAMES, Request
from streamfl.records.values.cells import Cells, listed, quoted, text
from streamfl.runtime.log.intake import client_named
from streamfl.runtime.log.repartitioning.sampled import (
    Matched,
    busiest,
    match,
    needed_window,
    rate_of,
    unseen_span,
)
from streamfl.runtime.log.repartitioning.whose import Whose
from streamfl.runtime.ports import ClientBy, TopicSample

# A window is made so many times as large as what the sample needs, and no smaller than the default.
ROOM, LEAST, MOST = 2, 10_000, 1_000_000

# The share of records that must differ in a field for it to name them.
DISTINCT = 0.5

# So many labels should have come before they are relied on: docs/choices.md, "What init takes from messages".
ENOUGH_LABELS = 50


@dataclass(frozen=True, slots=True)
class _Message:
    key: bytes | None
    time: float
    fields: Object


@dataclass(frozen=True, slots=True)
class _Joined:
    """Records and labels, each once and in the order of time, and what joins them."""

    records: Sequence[_Message]
    labels: Sequence[_Message]
    key: str  # the field, in both, with the record's id
    owners: Sequence[str]  # the client of each record
    by: ClientBy  # what names it
    found: Matched


def looked_at(
    request: Request,
    topics: Sequence[str],
    of_labels: str,
    ends: Sequence[tuple[TopicSample, TopicSample]],
    client: str | None,
) -> tuple[Request, Roles, RecordsLayout, str]:
    """Return how messages are read, the roles of their fields, the layout, and how many messages were looked at.

    What records show alone, such as categories, counters and codes of missing values, is taken from all of them: most
    labels may still be to come.

    Parameters
    ----------
    ends
        Records and labels at each end of their topics, the newest first.

    Raises
    ------
    UsageError
        There are no records or labels, no field names the records in both, or no field is the label.
    """
    of_records, of_their_labels = zip(*ends, strict=True)
    records, labels = _messages(of_records), _messages(of_their_labels)
    if not (records and labels):
        what = f"no JSON labels in {of_labels}" if records else "no JSON records"
        raise request.refusal(what, "start the program that writes there; once some have come, run init again")
    joined = _joined(request, of_records, records, labels, client)
    if not joined.key:
        raise request.refusal(f"no field has the same ids in records and in {of_labels}", _remedy(records, labels))
    request = replace(request, label=_label(request, labels, joined.key))
    request, roles = _roles(request, joined, client)
    clients = sorted({*joined.owners} - {""})
    ids = [(Whose(owner), 0) for owner in joined.owners]
    needed = needed_window(joined.found, busiest(ids, max(of_records[0].partitions.values())))
    window = min(MOST, max(LEAST, -(-ROOM * needed // 1000) * 1000))
    rate = joined.found.rate / max(1, len(clients))
    layout = RecordsLayout(
        topics,
        joined.by,
        max(1, len(clients)),
        interval=interval_of(rate),
        rate=rate or None,
        labels=LabelsLayout(of_labels, joined.key, window),
    )
    looked = f"{len(records):,} records and {len(labels):,} labels"
    notes = (*_notes(joined, clients, of_labels), _extent(looked, of_records[1], of_their_labels[1]))
    return request, replace(roles, notes=(*notes, *roles.notes)), layout, looked


def _messages(ends: Sequence[TopicSample]) -> list[_Message]:
    """Return the objects at both ends of topics, the oldest first."""
    found = []
    for sample in ends:
        for name, messages in sample.messages.items():
            keys = sample.keys.get(name, [None] * len(messages))
            for (time, value), key in zip(messages, keys, strict=True):
                one = object_of(value)
                if one is not None:
                    found.append(_Message(key, time, flat(one)))
    return sorted(found, key=lambda message: message.time)


def _joined(
    request: Request,
    samples: Sequence[TopicSample],
    records: Sequence[_Message],
    labels: Sequence[_Message],
    client: str | None,
) -> _Joined:
    key = _key(records, labels)
    records = _without_duplicates(records, key) if key else records
    owners, by = _owners(request, records, client) if key else ([], "field")
    newest, oldest = (
        [[1000 * time for time, _ in sample.messages.get(name, ())] for name in samples[0].messages]
        for sample in samples
    )
    rate = rate_of(newest) or rate_of(oldest)
    found = match(_ids(records, key), _ids(labels, key), rate, unseen_span(oldest, newest))
    return _Joined(records, labels, key, owners, by, found)


def _without_duplicates(records: Sequence[_Message], key: str) -> list[_Message]:
    """Return records without those whose id came before: a program may send a record twice."""
    first = {text(one.fields.get(key)) or at: one for at, one in reversed([*enumerate(records)])}
    return [*reversed(first.values())]


def _roles(request: Request, joined: _Joined, client: str | None) -> tuple[Request, Roles]:
    """Return how messages are read, and the roles of the fields of records, and of the label's of the labels."""
    label = request.label or ""
    every = columns_of(request, [one.fields for one in joined.records])
    named = _that_name_the_client(every, joined, client)
    without = {joined.key, label, *named}
    fields = {name: cells for name, cells in every.items() if name not in without}
    fields[label] = [one.fields[label] for one in joined.labels if label in one.fields]
    if has_commas(request, fields):
        request = replace(request, decimal=",")
    return doubted(request, roles_of(request, Looked(fields, named, as_messages=True), client), fields, joined.owners)


def _key(records: Sequence[_Message], labels: Sequence[_Message]) -> str:
    """Return the field whose values find most labels a record; "" if none does."""
    names = {name for one in labels for name in one.fields} & {name for one in records for name in one.fields}
    ids = {name: {text(one.fields.get(name)) for one in records} - {""} for name in sorted(names)}
    fitting = [name for name, values in ids.items() if len(values) >= DISTINCT * len(records)]
    hits = {name: sum(text(one.fields.get(name)) in ids[name] for one in labels) for name in fitting}
    best = max(hits, key=lambda name: hits[name], default="")
    return best if hits.get(best) else ""


def _ids(messages: Sequence[_Message], key: str) -> list[tuple[Whose, int]]:
    return [(Whose(id=text(one.fields.get(key))), int(1000 * one.time)) for one in messages]


def _remedy(records: Sequence[_Message], labels: Sequence[_Message]) -> str:
    record, label = ({**part[0].fields} if part else {} for part in (records, labels))
    both = [f"a {what} has {listed([*fields])}" for what, fields in (("record", record), ("label", label))]
    return f"{' and '.join(both)}; write the record's id to both, in a field of the same name"


def _label(request: Request, labels: Sequence[_Message], key: str) -> str:
    names = [name for name in dict.fromkeys(name for one in labels for name in one.fields) if name != key]
    usual = [name for name in names if name.rpartition(".")[2].lower() in LABEL_NAMES]
    label = request.label or (usual[0] if usual else names[0] if len(names) == 1 else None)
    if label is None or label not in names:
        what = f"no field of labels is named {quoted(label)}" if label else "it is not clear which field is the label"
        raise request.refusal(f"{what}; labels have {listed(names)}", "name it with --label")
    return label


def _owners(request: Request, records: Sequence[_Message], client: str | None) -> tuple[list[str], ClientBy]:
    """Return the client of each record, and what names it."""
    if client is not None:
        return [text(one.fields.get(client)) for one in records], "field"
    owners = [client_named(one.key) for one in records]
    distinct = {*owners} - {""}
    if not distinct or len(distinct) > DISTINCT * len(records):
        what = "messages have no keys" if not distinct else "nearly every message has another key"
        raise request.refusal(f"{what}, so keys do not name clients", "name the field with the client by --client")
    return owners, "message-key"


def _that_name_the_client(fields: Mapping[str, Cells], joined: _Joined, client: str | None) -> dict[str, str]:
    """Return the fields that always are the name of the client, with the reason for leaving them out."""
    what = "the key of the message" if client is None else f"the field {quoted(client)}"
    return {
        name: f"equals {what}, which names the client"
        for name, cells in fields.items()
        if name not in {client, joined.key} and _are_owners(cells, joined.owners)
    }


def _are_owners(cells: Cells, owners: Sequence[str]) -> bool:
    said = [(text(cell), owner) for cell, owner in zip(cells, owners, strict=True) if owner]
    return any(word for word, _ in said) and all(word in {"", owner} for word, owner in said)


def _notes(joined: _Joined, clients: Sequence[str], of_labels: str) -> list[str]:
    came = len({one.id for one, _ in _ids(joined.labels, joined.key)})
    few = (
        f"only {came} labels have come to {of_labels}; init infers the task and `window` from labels. When more have "
        "come, delete the settings file and run init again"
    )
    joins = f"by the field {joined.key!r}, {joined.found}"
    return [*([few] if came < ENOUGH_LABELS else []), joins, f"clients seen: {', '.join(clients)}"]


def _extent(looked: str, records: TopicSample, labels: TopicSample) -> str:
    """Return a sentence on what was looked at, given what is there of the oldest."""
    newer = records.messages or labels.messages
    return f"looked at {looked}" + (", the newest and the oldest of all partitions" if newer else ", which are all")
