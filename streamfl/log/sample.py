"""What is found in a sample of real records, told to people."""

from collections.abc import Sequence

import numpy as np

from streamfl.core.protocol.records import Rejection
from streamfl.log.intake import Message
from streamfl.ports import Decoded, Finding, RecordFormat

REASONS_TOLD, NAMES_TOLD = 3, 8


def listed(names: Sequence[str], at_most: int = 5) -> str:
    """Name the first few.

    >>> listed("abcd", at_most=2)
    'a, b and 2 more'
    """
    more = len(names) - at_most
    return ", ".join(names[:at_most]) + (f" and {more} more" if more > 0 else "")


def tried(name: str, messages: Sequence[Message], records: RecordFormat, dead_letters: str) -> Finding:
    """Return what is found when messages of one partition, which hold records, are decoded as clients would.

    Parameters
    ----------
    name
        Of the partition.
    messages
        At least one, without marks of an end.
    records
        How messages hold records.
    dead_letters
        Where bad records would go.
    """
    decoded = records.fresh().decode(
        [message.offset for message in messages], [message.value for message in messages]
    )
    return judged(name, decoded, records.stride, dead_letters)


def judged(name: str, decoded: Decoded, stride: int, dead_letters: str) -> Finding:
    """Return what is found in messages of one partition.

    >>> nothing = np.zeros(0)
    >>> bad = (Rejection(7, "no label"), Rejection(8, "no label"), Rejection(9, "empty"))
    >>> decoded = Decoded(nothing.astype(int), (), np.zeros((0, 0)), nothing, (), (), bad, (), nothing)
    >>> judged("a/0", decoded, 1, "f.dead-letter").found
    'none of 3 records can be used: offset 7: no label | offset 9: empty'
    """
    good, bad = len(decoded.positions), len(decoded.rejected)
    if not bad and decoded.remarks:
        return Finding(name, "warning", _described(decoded), "; ".join(decoded.remarks))
    if not bad:
        return Finding(name, "ok", _described(decoded))
    reasons = _reasons(decoded.rejected, stride)
    if not good:
        remedy = "correct format or [records.fields] in the settings, or what is written there"
        return Finding(name, "error", f"none of {bad} records can be used: {reasons}", remedy)
    found = f"{bad} of {good + bad} records cannot be used: {reasons}; the others: {_described(decoded)}"
    remedy = f"correct what writes them, or [records.fields]; the clients put them into {dead_letters}"
    remedy = "; ".join([remedy, *decoded.remarks])
    return Finding(name, "warning", found, remedy)


def _reasons(rejected: Sequence[Rejection], stride: int) -> str:
    """Tell the first few reasons, each where it was met first."""
    first: dict[str, int] = {}
    for rejection in rejected:
        first.setdefault(rejection.reason, rejection.position)
    told = [f"{_place(position, stride)}: {reason}" for reason, position in first.items()]
    more = len(told) - REASONS_TOLD
    return " | ".join(told[:REASONS_TOLD]) + (f" | {more} more reasons" if more > 0 else "")


def _place(position: int, stride: int) -> str:
    """Tell where a record is.

    >>> _place(17, 1), _place(17 * 64 + 2, 64)
    ('offset 17', 'offset 17, record 2')
    """
    offset, number = divmod(position, stride)
    return f"offset {offset}" + (f", record {number}" if stride > 1 else "")


def _described(decoded: Decoded) -> str:
    """Tell what good records hold."""
    seen = int((~np.isnan(decoded.X)).any(axis=0).sum())
    parts = [f"{len(decoded.positions)} records", f"{seen} features"]
    if decoded.labels:
        labels = [decoded.labels[i] for i in np.unique(decoded.y).astype(int)]
        parts.append(f"labels {listed(labels, NAMES_TOLD)}")
    else:
        parts.append(f"targets from {decoded.y.min():g} to {decoded.y.max():g}")
    if decoded.clients:
        parts.append(f"{len(set(decoded.clients))} clients")
    return ", ".join(parts)
