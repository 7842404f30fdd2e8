"""Dead letters by what is wrong with them, as they are now and as they were at a time."""

import re
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

from streamfl.protocol.reasons import ReasonCode
from streamfl.run.page.events import plain, whole
from streamfl.runtime.ports import LoggedDeadLetter

# Kinds of reasons that are told apart with the names of fields, as many again without, and letters whose times are
# kept.
KINDS, LETTERS = 50, 100_000

OTHERS = "other reasons"

# A text in quotes, with the word before it: a value of a record, unless it is the name of a field.
_QUOTED = re.compile(r'(\bfield |\bfeature )?"(?:[^"\\]|\\.)*"')
_NUMBER = re.compile(r"(?<![\w\"])-?\d[\d,.]*(?:e[-+]?\d+)?")

# What to do, by the code of the reason.
REMEDIES: Mapping[ReasonCode | None, str] = {
    ReasonCode.NO_LABEL: "write the label with the record, or use [labels] if it comes later",
    ReasonCode.INFINITE: "write a finite number, or leave the field out",
    ReasonCode.NO_NUMBER: "write a number, or set the task to classification",
    ReasonCode.NOT_JSON: "write one JSON object per message, or correct [records] format",
    ReasonCode.NOT_PACKED: "write packed messages as docs/kafka.md says, or correct [records] format",
    ReasonCode.UNREADABLE: "write messages that fit their schema, or that your own functions can read",
    ReasonCode.EMPTY: "leave empty messages out, or mark the end of a stream as docs/kafka.md says",
    ReasonCode.NO_CLIENT: "write the client's name into the field that [records.fields] client names",
    ReasonCode.NO_KEY: "write the record's key into the field that [labels] key names: a short text or an integer",
    ReasonCode.BAD_LABEL: "write one short text or number as the label; with a closed schema, one that is declared",
    ReasonCode.TOO_MANY_LABELS: "raise most_labels in [federation] if all are labels, or set the task to regression",
    ReasonCode.TOO_LARGE: "write smaller messages, or raise the limits that the reason names",
    ReasonCode.NO_RECORD: "write a good record before its label, with its id; is [labels] key the field of both?",
}

OF_CLIENTS = "a client of another version writes there, or a process that should not; find out which"

LOOK = "read the letter with kafka-console-consumer, which shows its headers and the original message"


def kind_of(reason: str, *, fields: bool = True) -> str:
    """Return a reason without the values of the one record, or the names of fields: letters of one kind have one.

    >>> kind_of('field "x": "wide" is not a number; drop the field')
    'field "x": "…" is not a number; drop the field'
    >>> kind_of("a loss of 1e9 in round 17")
    'a loss of … in round …'
    >>> kind_of('field "x": "wide" is not a number; drop the field', fields=False)
    'field "…": "…" is not a number; drop the field'
    """
    plainly = " ".join(reason.split())
    without = _QUOTED.sub(lambda found: found[0] if found[1] and fields else f'{found[1] or ""}"…"', plainly)
    return plain(_NUMBER.sub("…", without))


def remedy(code: ReasonCode | None, topic: str) -> str:
    """Return what to do about letters whose reason has a code, or none.

    >>> remedy(ReasonCode.NO_LABEL, "plant.records")
    'write the label with the record, or use [labels] if it comes later'
    >>> remedy(None, "plant.records") == LOOK
    True
    """
    return OF_CLIENTS if topic.endswith(".updates") else REMEDIES.get(code, LOOK)


@dataclass(slots=True)
class LetterKind:
    """Letters of one kind: the newest of them, as an example of where they come from."""

    reason: str
    remedy: str
    topic: str
    partition: int
    offset: int


@dataclass(eq=False)
class Letters:
    """The dead letters of a federation. A thread adds letters; others may ask meanwhile.

    Attributes
    ----------
    before
        Letters that were not read, because there are too many: only the newest are.
    readable
        Whether the log-in may read them.

    Examples
    --------
    >>> letters = Letters()
    >>> for offset in (7, 9):
    ...     letters.add(LoggedDeadLetter("plant.records", 0, offset, "the label is missing", time=offset))
    >>> [(kind.offset, count) for kind, count in letters.counted()]
    [(9, 2)]
    >>> [count for _, count in letters.counted(until=8)]
    [1]
    """

    before: int = 0
    readable: bool = True
    changes: int = 0
    lock: Lock = field(default_factory=Lock)
    _kinds: dict[str, LetterKind] = field(default_factory=dict)
    _letters: deque[tuple[int, str]] = field(default_factory=deque)

    def add(self, letter: LoggedDeadLetter) -> None:
        """Add a letter."""
        topic = plain(letter.topic)
        kind = self._kind(letter.reason)  # only this thread adds kinds
        with self.lock:
            self._kinds[kind] = LetterKind(
                kind, remedy(letter.code, topic), topic, whole(letter.partition), whole(letter.offset)
            )
            self._letters.append((letter.time or 0, kind))
            if len(self._letters) > LETTERS:
                self._letters.popleft()
                self.before += 1
            self.changes += 1

    def _kind(self, reason: str) -> str:
        """Return the kind of a reason: with the names of fields, without, or with all others, as there is room."""
        for fields, room in ((True, KINDS), (False, 2 * KINDS)):
            kind = kind_of(reason, fields=fields)
            if kind in self._kinds or len(self._kinds) < room:
                return kind
        return OTHERS

    def counted(self, until: int | None = None) -> list[tuple[LetterKind, int]]:
        """Return the kinds of letters with their counts, the most frequent first; only letters up to a time count."""
        with self.lock:
            counts = Counter(kind for time, kind in self._letters if until is None or time <= until)
            return [(self._kinds[kind], count) for kind, count in counts.most_common()]
