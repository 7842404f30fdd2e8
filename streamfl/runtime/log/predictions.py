"""Answers to records without labels, as a log has them: written for each record, and read back after a restart."""

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from streamfl.bounds import NAME_BYTES, is_name
from streamfl.protocol.decisions import Answered
from streamfl.protocol.delayed import NO_LABEL
from streamfl.protocol.records import LARGEST_TARGET
from streamfl.runtime.ports import RecordAnswer

# The digits of a probability after the point.
DIGITS = 6

# The most bytes of an answer's key, and of an answer with its probabilities: a log refuses messages above a size, and
# an answer that it refuses would be tried for ever.
MOST_KEY, MOST_BYTES = 64 * 1024, 256 * 1024


class Prediction(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer as it is written, as JSON."""

    key: str | None  # the key of the record's message as text, at most 256 bytes of it; None without a key
    prediction: str | float | None  # the label, or the target; None if a client answers before there are models
    # The round that the model serves, its epoch, and the last entry of the ledger that the model has learnt.
    round: int
    epoch: int
    entry: int
    # Where the record is.
    topic: str
    partition: int
    offset: int
    row: int = 0  # which record of its message it is, from 0; 0 is left out
    # That of each label, rounded; None for targets, or if they are not wanted.
    probabilities: Mapping[str, float] | None = None
    client: str | UnsetType = UNSET  # the client that answers a record whose label comes later; left out by a scorer

    # Likewise, the last label that was known by then, which NoChange repeats, None if there was none; or the last
    # target, 0 if there was none.
    known: str | float | UnsetType | None = UNSET


_READ = msgspec.json.Decoder(Prediction)


def encoded(value: Prediction) -> bytes:
    """Return an answer as bytes, without probabilities if it had too many: 1,024 labels of 256 bytes are possible."""
    data = msgspec.json.encode(value)
    if len(data) > MOST_BYTES:
        return msgspec.json.encode(msgspec.structs.replace(value, probabilities=None))
    return data


def read(value: bytes | None) -> Prediction | None:
    """Return an answer that was written, None if it is none.

    >>> answer = read(encoded(Prediction(None, "a", 1, 1, 0, "t", 0, offset=3, client="c", known=None)))
    >>> answer.offset, answer.known, read(b"{}"), read(None)
    (3, None, None, None)
    """
    if value is None or len(value) > MOST_BYTES:
        return None
    try:
        return _READ.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def is_usable(answer: Prediction, *, targets: bool) -> bool:
    """Tell whether what a client is said to have answered can be: labels with names, or targets of possible size.

    >>> answer = Prediction(None, "a", 1, 1, 0, "t", 0, offset=3, client="c", known=None)
    >>> is_usable(answer, targets=False), is_usable(answer, targets=True)
    (True, False)
    """
    return answer.row == 0 and all(_is_possible(one, targets) for one in (answer.prediction, answer.known))


def _is_possible(value: str | float | UnsetType | None, targets: bool) -> bool:
    if value is None or value is UNSET:
        return True
    if isinstance(value, str):
        return not targets and bool(value) and is_name(value)
    return targets and math.isfinite(value) and abs(value) <= LARGEST_TARGET


def answers_of(
    answered: Answered, keys: Sequence[bytes | None], *, targets: bool, probabilities: bool
) -> Iterator[RecordAnswer]:
    """Yield the message for each record that a client has answered.

    Parameters
    ----------
    keys
        The key of each record's message; without one the record's own key is taken.
    """
    batch, opened = answered.batch, answered.opened
    if batch.answers is None or batch.half is None:
        return
    topic, _, number = batch.span.partition.rpartition("/")
    at = (0, 0, 0) if opened is None else (opened.round, opened.epoch, opened.entry - 1)
    told = batch.answers
    shares: Iterator[dict[str, float] | None] = iter([None] * len(batch))
    if answered.labels and probabilities:
        rows = answered.predictions.round(DIGITS).tolist()
        shares = (dict(zip(answered.labels, row, strict=True)) for row in rows)
    is_blind = not answered.predictions.shape[1]
    columns = (batch.positions.tolist(), batch.half.keys.tolist(), told.served.tolist(), told.no_change.tolist())
    for key, offset, own, served, known, share in zip(keys, *columns, shares, strict=True):
        sent = own.encode() if key is None else key[:MOST_KEY]
        value = Prediction(
            sent[:NAME_BYTES].decode(errors="backslashreplace"),
            None if is_blind else served if targets else _label(served, told.labels),
            *at,
            topic,
            int(number),
            offset,
            probabilities=share,
            client=answered.client,
            known=known if targets else _label(known, told.labels),
        )
        yield RecordAnswer(sent, encoded(value))


def _label(code: float, labels: tuple[str, ...]) -> str | None:
    return None if code == NO_LABEL else labels[int(code)]
