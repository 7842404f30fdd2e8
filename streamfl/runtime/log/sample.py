"""Findings of a check on a sample of real records."""

from collections.abc import Sequence

import numpy as np

from streamfl.protocol.records import Rejection
from streamfl.runtime.log.intake import LogMessage
from streamfl.runtime.ports import CheckResult, Decoded, RecordFormat

# The most reasons and names that a finding lists.
REASONS_LISTED, NAMES_LISTED = 3, 8


def listed(names: Sequence[str], at_most: int = 5) -> str:
    """Return the first few names as text.

    >>> listed("abcd", at_most=2)
    'a, b and 2 more'
    """
    more = len(names) - at_most
    return ", ".join(names[:at_most]) + (f" and {more} more" if more > 0 else "")


def tried(name: str, messages: Sequence[LogMessage], records: RecordFormat, dead_letters: str) -> CheckResult:
    """Return the finding for messages of one partition, decoded as clients would decode them.

    Parameters
    ----------
    messages
        At least one message, without end-of-stream marks.
    dead_letters
        The topic to which clients would write bad records.
    """
    decoded = records.fresh().decode(
        [message.offset for message in messages], [message.value for message in messages]
    )
    return judged(name, decoded, records.stride, dead_letters)


def judged(name: str, decoded: Decoded, stride: int, dead_letters: str) -> CheckResult:
    """Return the finding for the decoded messages of one partition.

    >>> nothing = np.zeros(0)
    >>> bad = (Rejection(7, "no label"), Rejection(8, "no label"), Rejection(9, "empty"))
    >>> decoded = Decoded(nothing.astype(int), (), np.zeros((0, 0)), nothing, (), (), bad, (), nothing)
    >>> judged("a/0", decoded, 1, "f.dead-letter").found
    'none of 3 records can be used: offset 7: no label | offset 9: empty'
    """
    good, bad = len(decoded.positions), len(decoded.rejected)
    if not bad and decoded.remarks:
        return CheckResult(name, "warning", _described(decoded), "; ".join(decoded.remarks))
    if not bad:
        return CheckResult(name, "ok", _described(decoded))
    reasons = _reasons(decoded.rejected, stride)
    if not good:
        remedy = "correct format or [records.fields] in the settings, or the program that writes there"
        return CheckResult(name, "error", f"none of {bad} records can be used: {reasons}", remedy)
    found = f"{bad} of {good + bad} records cannot be used: {reasons}; the others: {_described(decoded)}"
    remedy = f"correct what writes them, or [records.fields]; the clients put them into {dead_letters}"
    remedy = "; ".join([remedy, *decoded.remarks])
    return CheckResult(name, "warning", found, remedy)


def _reasons(rejected: Sequence[Rejection], stride: int) -> str:
    """Return the first few reasons as text, each with the place of its first record."""
    first: dict[str, int] = {}
    for rejection in rejected:
        first.setdefault(rejection.reason, rejection.position)
    texts = [f"{_place(position, stride)}: {reason}" for reason, position in first.items()]
    more = len(texts) - REASONS_LISTED
    return " | ".join(texts[:REASONS_LISTED]) + (f" | {more} more reasons" if more > 0 else "")


def _place(position: int, stride: int) -> str:
    """Return the place of a record as text.

    >>> _place(17, 1), _place(17 * 64 + 2, 64)
    ('offset 17', 'offset 17, record 2')
    """
    offset, number = divmod(position, stride)
    return f"offset {offset}" + (f", record {number}" if stride > 1 else "")


def _described(decoded: Decoded) -> str:
    """Return a description of the good records."""
    seen = int((~np.isnan(decoded.X)).any(axis=0).sum())
    parts = [f"{len(decoded.positions)} records", f"{seen} features"]
    if decoded.labels:
        labels = [decoded.labels[i] for i in np.unique(decoded.y).astype(int)]
        parts.append(f"labels {listed(labels, NAMES_LISTED)}")
    elif decoded.half is None or decoded.half.kind == "labels":
        parts.append(f"targets from {decoded.y.min():g} to {decoded.y.max():g}")
    if decoded.clients:
        parts.append(f"{len(set(decoded.clients))} clients")
    return ", ".join(parts)
