"""What `streamfl init` sees in topics of a log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import msgspec
import numpy as np

from streamfl.live.operator.init.doubted import doubted, has_commas
from streamfl.live.operator.init.layout import RecordsLayout, clients_of, interval_of
from streamfl.live.operator.init.roles import LATER, Looked, Roles, roles_of
from streamfl.protocol.registry import ordered
from streamfl.records.formats.packed import Packed
from streamfl.records.objects import Columns, Object, counted, flat
from streamfl.records.request import Request
from streamfl.records.values.cells import NAMES, Cells, listed, words
from streamfl.runtime.ports import TopicSample


@dataclass(frozen=True, slots=True)
class _Read:
    """The records in some messages."""

    looked: Looked  # their fields
    records: int  # how many there are
    messages: int  # how many messages they were in


def looked_at(
    request: Request, topics: Sequence[str], sample: TopicSample, client: str | None
) -> tuple[Request, Roles, RecordsLayout, int]:
    """Return how messages are read, the roles of their fields, the layout of a federation, and how many were read.

    Parameters
    ----------
    request
        What the caller has named; its source names the topics in messages.

    Raises
    ------
    UsageError
        There are no messages, none holds a record, or the topics do not go together.
    """
    owners = [partition for partition, found in sample.messages.items() for _ in found]
    values = [value for found in sample.messages.values() for _, value in found]
    if not values:
        raise request.refusal(
            "no messages yet", "start the program that writes there, or give a FILE with such records"
        )
    whole = [(owner, flat(one)) for owner, one in zip(owners, map(object_of, values), strict=True) if one is not None]
    objects = [one for _, one in whole]
    if not objects:
        return request, *_of_packed(request, topics, sample, values, client)
    read = _Read(Looked(columns_of(request, objects), as_messages=True), len(objects), len(values))
    if request.label is not None and request.label not in read.looked.fields:
        what = f"no field {request.label!r} in records, which have {listed([*read.looked.fields])}"
        raise request.refusal(what, f"correct --label{LATER}")
    if has_commas(request, read.looked.fields):
        request = replace(request, decimal=",")  # a message is read by itself, and may leave it open
    roles = roles_of(request, read.looked, client)
    owners = words(read.looked.fields[client], NAMES) if client is not None else [owner for owner, _ in whole]
    request, roles = doubted(request, roles, read.looked.fields, owners)
    return request, roles, _layout(topics, sample, read, client), read.records


def object_of(value: bytes) -> Object | None:
    """Return the JSON object in a message; None if it holds none."""
    try:
        decoded = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None


def columns_of(request: Request, objects: Sequence[Object]) -> Mapping[str, Cells]:
    """Return the cells of each field of some objects."""
    columns = Columns(Request(request.source, labelled=False), "")
    places, numbers = counted(0, len(objects))
    return columns.block(places, numbers, objects).features


def _of_packed(
    request: Request, topics: Sequence[str], sample: TopicSample, values: Sequence[bytes], client: str | None
) -> tuple[Roles, RecordsLayout, int]:
    """Return the same of packed messages, which name their fields and labels themselves."""
    for task in ("classification", "regression"):
        decoded = Packed(task).decode(range(len(values)), values)
        if len(decoded.positions):
            break
    else:
        reason = decoded.rejected[0].reason if decoded.rejected else "they are empty"
        what = f"none of {len(values)} messages is a JSON object, or a packed one: {reason}"
        raise request.refusal(what, "write records as docs/kafka.md says")
    if client is not None or request.label or request.time or request.drop:
        remedy = "leave --client, --label, --time and --drop out"
        raise request.refusal("packed messages name their fields themselves", remedy)
    labels = ordered(decoded.labels[i] for i in np.unique(decoded.y).astype(int)) if decoded.labels else ()
    roles = Roles("label", "", labels, None, None, {}, {}, decoded.features)
    read = _Read(Looked({}), len(decoded.positions), len(values))
    return roles, _layout(topics, sample, read, None, "packed"), read.records


def _layout(
    topics: Sequence[str], sample: TopicSample, read: _Read, client: str | None, form: str = "json"
) -> RecordsLayout:
    clients = clients_of(topics, sample.partitions.values(), client)
    seen = read.looked.fields[client] if client is not None else ()
    min_clients = {
        "topic": len(sample.partitions),
        "partition": sum(sample.partitions.values()),
        "field": len({*words(seen, NAMES)} - {""}),
    }[clients]
    same = set(sample.partitions.values())
    rate = _rate(sample, read)
    of_client = None if rate is None else rate * sum(sample.partitions.values()) / max(1, min_clients)
    return RecordsLayout(
        topics,
        clients,
        max(1, min_clients),
        "packed" if form == "packed" else "json",
        partitions=min(same) if clients == "partition" and len(same) == 1 else None,
        interval=interval_of(of_client),
        rate=of_client,
    )


def _rate(sample: TopicSample, read: _Read) -> float | None:
    """Return the records a second of a partition, by the times of its messages; None if they do not tell."""
    rates = []
    for found in sample.messages.values():
        times = [time for time, _ in found]
        if len(times) > 1 and max(times) - min(times) >= 1.0:
            rates.append((len(times) - 1) / (max(times) - min(times)))
    return median(rates) * read.records / read.messages if rates else None
