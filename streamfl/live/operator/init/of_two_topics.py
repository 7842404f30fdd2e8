"""What `streamfl init` sees in topics of records, and in a topic of later labels, each with its record's id."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from streamfl.live.operator.init.doubted import doubted
from streamfl.live.operator.init.layout import LabelsLayout, RecordsLayout, interval_of
from streamfl.live.operator.init.of_topic import columns_of, object_of
from streamfl.live.operator.init.roles import Looked, Roles, roles_of
from streamfl.records.objects import Object, flat
from streamfl.records.request import LABEL_NAMES, Request
from streamfl.records.values.cells import listed, quoted, text
from streamfl.runtime.log.intake import client_named
from streamfl.runtime.log.repartitioning.sampled import Matched, matched, needed_window, rate_of
from streamfl.runtime.log.repartitioning.whose import Whose
from streamfl.runtime.ports import ClientBy, TopicSample

# A window is made so many times as large as what the sample needs, and no smaller than the default.
ROOM, LEAST, MOST = 2, 10_000, 1_000_000

# The share of records that must differ in a field for it to name them.
DISTINCT = 0.5


@dataclass(frozen=True, slots=True)
class _Message:
    key: bytes | None
    time: float
    fields: Object


def looked_at(
    request: Request,
    topics: Sequence[str],
    of_labels: str,
    ends: Sequence[tuple[TopicSample, TopicSample]],
    client: str | None,
) -> tuple[Request, Roles, RecordsLayout, int]:
    """Return how messages are read, the roles of their fields, the layout, and how many records were looked at.

    Parameters
    ----------
    request, topics, client
        As for topics of whole records.
    ends
        Records and labels at each end of their topics, the newest first.

    Raises
    ------
    UsageError
        There are no records or labels, no field names the records in both, or no field is the label.
    """
    every = [(_messages(records), _messages(labels)) for records, labels in ends]
    if not any(records and labels for records, labels in every):
        what = f"no JSON records with labels in {of_labels}, or none at all"
        raise request.refusal(what, "start the programs that write there")
    keys = [_key(*both) for both in every]
    best = max(range(len(every)), key=lambda end: _matched(*every[end], keys[end], 0.0).share)
    (records, labels), key = every[best], keys[best]
    if not key:
        raise request.refusal(f"no field has the same ids in records and in {of_labels}", _remedy(records, labels))
    label = _label(request, labels, key)
    request = replace(request, label=label)
    owners, by = _owners(request, records, client)
    label_of = {text(one.fields.get(key)): one.fields[label] for one in labels if label in one.fields}
    found = [
        (one, owner) for one, owner in zip(records, owners, strict=True) if text(one.fields.get(key)) in label_of
    ]
    without = {key, *(_same_as_key(records) if client is None else ())}
    whole = [_whole(one.fields, without, label, label_of[text(one.fields[key])]) for one, _ in found]
    looked = Looked(columns_of(request, whole), as_messages=True)
    request, roles = doubted(request, roles_of(request, looked, client), looked.fields, [owner for _, owner in found])
    clients = sorted({*owners} - {""})
    times = [[1000 * time for time, _ in found] for found in ends[best][0].messages.values()]
    told = _matched(records, labels, key, rate_of(times))
    partitions = max(ends[0][0].partitions.values())
    window = min(MOST, max(LEAST, -(-ROOM * needed_window(told, partitions) // 1000) * 1000))
    rate = told.rate / max(1, len(clients))
    layout = RecordsLayout(
        topics,
        by,
        max(1, len(clients)),
        interval=interval_of(rate),
        rate=rate or None,
        labels=LabelsLayout(of_labels, key, window),
    )
    notes = _notes(told, clients, key, ends)
    return request, replace(roles, notes=(*notes, *roles.notes)), layout, sum(len(part) for part, _ in every)


def _messages(sample: TopicSample) -> list[_Message]:
    found = []
    for name, messages in sample.messages.items():
        keys = sample.keys.get(name, [None] * len(messages))
        for (time, value), key in zip(messages, keys, strict=True):
            one = object_of(value)
            if one is not None:
                found.append(_Message(key, time, flat(one)))
    return found


def _whole(fields: Object, without: set[str], label: str, value: object) -> Object:
    return {name: it for name, it in fields.items() if name not in without} | {label: value}


def _key(records: Sequence[_Message], labels: Sequence[_Message]) -> str:
    """Return the field whose values find most labels a record; "" if none does."""
    names = {name for one in labels for name in one.fields} & {name for one in records for name in one.fields}
    ids = {name: {text(one.fields.get(name)) for one in records} - {""} for name in sorted(names)}
    fitting = [name for name, values in ids.items() if len(values) >= DISTINCT * len(records)]
    hits = {name: sum(text(one.fields.get(name)) in ids[name] for one in labels) for name in fitting}
    best = max(hits, key=lambda name: hits[name], default="")
    return best if hits.get(best) else ""


def _matched(records: Sequence[_Message], labels: Sequence[_Message], key: str, rate: float) -> Matched:
    def ids(messages: Sequence[_Message]) -> list[tuple[Whose, int]]:
        return [(Whose(id=text(one.fields.get(key))), int(1000 * one.time)) for one in messages]

    return matched(ids(records), ids(labels), rate)


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


def _same_as_key(records: Sequence[_Message]) -> list[str]:
    """Return the fields that say what the key of the message says."""
    return [
        name
        for name in dict.fromkeys(name for one in records[:100] for name in one.fields)
        if all(text(one.fields.get(name)) == client_named(one.key) for one in records[:100])
    ]


def _notes(
    told: Matched, clients: Sequence[str], key: str, ends: Sequence[tuple[TopicSample, TopicSample]]
) -> tuple[str, ...]:
    first, last = told.delays[0], told.delays[-1]
    found = f"{len(told.delays)} of {told.labels} labels find a record by {key!r}, {first:.3g} to {last:.3g} s later"
    newest = [sum(map(len, sample.messages.values())) for sample in ends[0]]
    looked = (
        f"looked at the newest {newest[0]:,} records and {newest[1]:,} labels of all partitions, and as many of the"
    )
    return (found, f"clients seen: {', '.join(clients)}", f"{looked} oldest; not at what is between")
