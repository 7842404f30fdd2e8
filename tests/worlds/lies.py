"""What hostile members say in place of the truth, and what forgers say in the names of others."""

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from streamfl.protocol.messages import (
    Ended,
    FromClient,
    FromCoordinator,
    HeldRecord,
    Join,
    Joined,
    LabelSums,
    Leave,
    Left,
    ModelPublished,
    ModelsChanged,
    Refusal,
    RegistryPublished,
    RoundClosed,
    RoundOpened,
    SampledRound,
    Score,
    Scores,
    Served,
    Slot,
    SlotLosses,
    Update,
    Watermark,
)
from streamfl.protocol.moments import Moments
from streamfl.protocol.records import Span
from streamfl.protocol.registry import Registry
from streamfl.wire import codec, messages
from streamfl_benchmarks.liars.fields import altered, field_of, group_of
from streamfl_benchmarks.liars.hostile import ATTACKS
from worlds.spoilt import spoilt

# So many earlier messages of all clients may be sent again.
REMEMBERED = 200

# The names that forgers invent.
STRANGERS = tuple(f"stranger {i}" for i in range(30))

# An entry, a round or a version far ahead of any.
FAR = 10**9

Sent = tuple[str, bytes]
"""The name under which a message reaches the coordinator, and its bytes."""


@dataclass
class Liar:
    """Draws lies and forgeries; the same draws for the same seed and the same messages.

    Examples
    --------
    >>> liar = Liar(1, ("c2",))
    >>> leave = Leave(client="c2", nonce="1")
    >>> [len(liar.instead_of(leave)) for _ in range(5)]
    [1, 1, 1, 1, 1]
    """

    seed: int  # of all draws
    names: tuple[str, ...]  # the clients in whose names lies and forgeries are told
    _rng: random.Random = field(init=False)
    _said: deque[Sent] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _opened: RoundOpened | None = None
    _registry: Registry | None = None
    _starts: dict[str, str] = field(default_factory=dict)
    _issued: dict[str, int] = field(default_factory=dict)
    _sent: dict[str, Update] = field(default_factory=dict)
    _leaving: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._rng = random.Random(f"{self.seed} lies")

    def happens(self, probability: float) -> bool:
        """Tell whether something of this probability happens."""
        return self._rng.random() < probability

    def times(self, mean: float) -> int:
        """Return how often something happens that happens `mean` times on average; at most a hundred times."""
        count, until = 0, -self._rng.expovariate(1.0)
        while count < 100 and mean + until > 0.0:
            count, until = count + 1, until - self._rng.expovariate(1.0)
        return count

    def hear(self, message: FromClient | FromCoordinator, data: bytes) -> None:
        """Note what was said, and its bytes: all that is sent can be read by anyone."""
        match message:
            case RoundOpened():
                self._opened = message
            case RegistryPublished(registry=registry):
                self._registry = registry
            case Join():
                self._starts[message.client] = message.nonce
            case Joined():
                self._issued[message.client] = message.incarnation
            case Update():
                self._sent[message.client] = message
            case Leave():
                self._leaving.add(message.client)
            case _:
                pass
        if isinstance(message, FromClient):
            self._said.append((message.client, data))

    # --- to the coordinator ------------------------------------------------------------------------------------

    def instead_of(self, message: FromClient) -> list[Sent]:
        """Return what a hostile member sends in place of a message: under its name, mostly one message."""
        how = self._rng.random()
        if how < 0.35 and isinstance(message, Update | Scores):
            attack = ATTACKS[self._rng.choice(sorted(ATTACKS))]
            return [self._as_sent(attack(message, self.seed))]
        if how < 0.65:
            return [self._as_sent(self._bent(message))]
        return [(message.client, self._spoilt(message) if how < 0.9 else self._flipped(messages.encode(message)))]

    def forged(self) -> Sent:
        """Return a forged message: junk, an earlier one again, or one in the name of a liar or a stranger."""
        how = self._rng.random()
        if how < 0.3 and self._said:
            return self._rng.choice(self._said)
        name = self._rng.choice((*self.names, self._rng.choice(STRANGERS)))
        if how < 0.5:
            return name, self._rng.randbytes(self._rng.choice((0, 3, 100)))
        others = ("0", "\x00", "9" * 256, "z")
        nonce = self._starts.get(name, "1") if self.happens(0.9) else self._rng.choice(others)
        after = self._issued.get(name, 0) if self.happens(0.9) else self._rng.choice((0, FAR, -1))
        forged: list[FromClient] = [replace(update, client=name) for update in self._sent.values()]
        if name not in self.names or not forged:  # a Leave would put a liar out, and end its lies
            forged.append(Leave(client=name, nonce=nonce, after=after))
        message = self._joins(name, nonce, after) if self.happens(0.5) else self._rng.choice(forged)
        if self.happens(0.3):
            return name, messages.encode(message)
        return name, self._spoilt(message) if self.happens(0.3) else messages.encode(self._bent(message))

    def _as_sent(self, message: FromClient) -> Sent:
        try:
            return message.client, messages.encode(message)
        except (ValueError, OverflowError):  # numbers that the compact form cannot spell
            return message.client, b""

    def _spoilt(self, message: FromClient | FromCoordinator) -> bytes:
        """Return a message with any one thing in it replaced, in a form that spells everything."""
        plain, arrays = spoilt(*codec.split(message), self._rng)
        try:
            return codec.pack({"type": messages.TYPES[type(message)], **plain}, arrays)
        except (TypeError, ValueError):
            return b"{}"

    def _flipped(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self._rng.choice((1, 1, 8))):
            changed[self._rng.randrange(len(changed))] ^= 1 << self._rng.randrange(8)
        return bytes(changed)

    def _joins(self, name: str, nonce: str, after: int) -> Join:
        x = self._rng.choice((0.0, 1.0, 1e30, -1e300, np.nan))
        moments = Moments((self._rng.choice(("a", "b", "x" * 256)),), np.ones(1), np.array([x]), np.ones(1))
        labels = self._rng.choice(((), ("0",), self._names("label")))
        return Join(client=name, nonce=nonce, after=after, moments=moments, records=20, labels=labels)

    def _names(self, what: str) -> tuple[str, ...]:
        """Return names: few, very many, long ones, or one that every record has."""
        rng = self._rng
        return rng.choice(
            (
                (),
                ("0",),
                tuple(f"{what} {i}" for i in range(5)),
                tuple(f"{what} {rng.random()}" for _ in range(40)),
                (what * 60,),
                ("\x00",),
                ("",),
            )
        )

    def _bent(self, message: FromClient) -> FromClient:
        """Return a message with another content in one or two of its fields: each of a possible type."""
        bend = {Update: BENT, Scores: BENT, Join: JOINS}.get(type(message), LEAVES)
        there = {each.name for each in fields(message)} | group_of(message).keys()
        names = [name for name in sorted(bend) if name in there]
        for name in self._rng.sample(names, min(len(names), self._rng.choice((1, 1, 2)))):
            message = altered(message, **{name: bend[name](message, self)})
        return message

    # --- to clients --------------------------------------------------------------------------------------------

    def misleading(self, client: str) -> bytes:
        """Return a forged message of the coordinator for a client: what cannot be kept from it, but found out."""
        told = self._rng.choice(MISLEADING)(client, self)
        if told is None or self.happens(0.1):
            return self._rng.randbytes(50)
        data = messages.encode(told)
        return self._flipped(data) if self.happens(0.05) else data

    @property
    def entry(self) -> int:
        """Return the number of the open entry."""
        return 1 if self._opened is None else self._opened.entry


# --- lies in each field ----------------------------------------------------------------------------------------

Bend = Callable[[Any, Liar], Any]


def _number(value: int, liar: Liar) -> int:
    return liar._rng.choice((0, -1, 1, value + 1, value - 1, 2 * value, 10 * value, 2**53, 2**62, 2**63, 10**30))


def _size(value: float, liar: Liar) -> float:
    return liar._rng.choice((0.0, -1.0, 2.0 * value, 1e6 * value, 1e300, np.inf, np.nan, 1e-300))


def _of(bend: Callable[[Any, Liar], Any], name: str) -> Bend:
    return lambda message, liar: bend(field_of(message, name), liar)


def _spans(message: Update, liar: Liar) -> tuple[Span, ...]:
    spans, rng = message.spans, liar._rng
    first = spans[0] if spans else Span(message.client, 0, 5)
    other = rng.choice((first.start, first.end, 0, _number(first.start, liar)))
    return rng.choice(
        (
            (),
            (*spans, *spans),
            (Span(first.partition, first.start, other),),
            (Span(first.partition, other, first.end),),
            (Span("c0", first.start, first.end), *spans),
            tuple(Span(f"p{i}", 0, 5) for i in range(rng.choice((3, 2000)))),
            (Span(first.partition, first.start, first.end - 1), *spans[1:]),
        )
    )


def _held(message: Update, liar: Liar) -> tuple[HeldRecord, ...]:
    first = message.spans[0] if message.spans else Span(message.client, 0, 5)
    places = range(first.start, first.end) if first.end - first.start < 100 else range(3)
    all_ = tuple(
        HeldRecord(round=message.round, ordinal=place, partition=first.partition, position=place) for place in places
    )
    return liar._rng.choice(((), all_, all_ * 200, all_[::-1], message.kept.held * 2))


def _sample(message: Update, liar: Liar) -> SampledRound:
    places = {span.partition: tuple(range(5)) for span in message.spans}
    return SampledRound(round=message.round, share=_size(0.5, liar), positions=places, ordinals=tuple(range(5)))


def _label_sums(message: Update, liar: Liar) -> tuple[LabelSums, ...]:
    count = _number(message.records, liar)
    return tuple(
        LabelSums(label=name, count=count, loss=_size(1.0, liar), square=_size(1.0, liar))
        for name in liar._names("0")
    )


def _losses(message: Update | Scores, liar: Liar) -> dict[str, Any]:
    name = liar._rng.choice(("loss", "square", "proper", "history", "history_share"))

    def lie(told: SlotLosses) -> SlotLosses:
        size: Any = _size(getattr(told, name), liar)
        return replace(told, **{name: size})

    lied = {slot: lie(told) for slot, told in field_of(message, "losses").items()}
    return liar._rng.choice((lied, {}, {"x" * 256: next(iter(lied.values()), None)} if lied else {}))


def _arrays(message: Update | Scores, liar: Liar) -> dict[str, Any]:
    times = liar._rng.choice((-1.0, 0.0, 1e6, 1e100, 1e308, np.nan))
    with np.errstate(all="ignore"):
        return {name: times * x for name, x in field_of(message, "differences").items()}


def _served(message: Update, liar: Liar) -> Served:
    shares = {name: _size(share, liar) for name, share in message.numbers.served.shares.items()}
    return replace(message.numbers.served, correct=_number(message.numbers.served.correct, liar), shares=shares)


def _let_go(message: Update, liar: Liar) -> tuple[int, ...]:
    return liar._rng.choice(((), tuple(range(1000)), (-1, 2**70), message.kept.let_go * 3))


def _moments(message: Update | Join, liar: Liar) -> Moments:
    names = tuple(dict.fromkeys(liar._names("feature")))
    n = len(names)
    return Moments(names, np.full(n, 5.0), np.full(n, _size(1.0, liar)), np.full(n, abs(_size(1.0, liar))))


def _second(message: Update, liar: Liar) -> Any:
    C = message.numbers.second_moments
    return None if C is None else liar._rng.choice((-1.0, 0.0, 2.0, 1e6, 1e100)) * C


def _watermark(message: Update, liar: Liar) -> Watermark | None:
    at = 0 if message.watermark is None else message.watermark.features
    return liar._rng.choice((None, Watermark("c0", _number(at, liar), labels=_number(at, liar), expired=3)))


BENT: Mapping[str, Bend] = {
    **{
        name: _of(_number, name)
        for name in ("entry", "round", "epoch", "registry", "records", "trained", "rejected", "stage")
    },
    "spans": _spans,
    "losses": _losses,
    "differences": _arrays,
    "new": _label_sums,
    "old": _label_sums,
    "new_labels": lambda message, liar: liar._names("label"),
    "new_features": lambda message, liar: liar._names("feature"),
    "sample": _sample,
    "held": _held,
    "let_go": _let_go,
    "moments": _moments,
    "second_moments": _second,
    "squared_norm": _of(_size, "squared_norm"),
    "largest_norm": _of(_size, "largest_norm"),
    "served": _served,
    "learnt": lambda message, liar: None,
    "times": lambda message, liar: (_number(0, liar), _number(10**12, liar)),
    "watermark": _watermark,
    "period": lambda message, liar: _number(7, liar),
    "attempt": lambda message, liar: liar._rng.choice(("", "x", "9" * 300, f"{message.attempt}-1")),
}
"""What an update or scores may say instead, by field."""

NONCES = ("", "0", "x" * 300)

JOINS: Mapping[str, Bend] = {
    "labels": lambda message, liar: liar._names("label"),
    "moments": _moments,
    "records": _of(_number, "records"),
    "question": _of(_number, "question"),
    "period": lambda message, liar: _number(7, liar),
    "nonce": lambda message, liar: liar._rng.choice(NONCES),
    "after": _of(_number, "after"),
}
"""What a Join may say instead."""

LEAVES: Mapping[str, Bend] = {
    "nonce": lambda message, liar: liar._rng.choice(NONCES),
    "after": _of(_number, "after"),
}
"""What a Leave may say instead."""


# --- forgeries of the coordinator ------------------------------------------------------------------------------


def _opening(client: str, liar: Liar) -> FromCoordinator | None:
    ahead = liar._rng.choice((-1, 2, 3, FAR))
    opened = liar._opened
    return None if opened is None else replace(opened, entry=max(1, opened.entry + ahead))


def _closing(client: str, liar: Liar) -> FromCoordinator | None:
    entry = liar.entry + liar._rng.choice((0, 1, FAR))
    return RoundClosed(
        entry=entry, round=entry, epoch=1, block=1, accepted=(), records=liar._rng.choice((0, 5)), trained=0,
        rejected=0, losses={}, serves="step 16", readings={}, served=Served(), model="", registry=1,
    )  # fmt: skip


def _answer(client: str, liar: Liar) -> FromCoordinator:
    nonce, incarnation = liar._starts.get(client, "1"), liar._issued.get(client, 1)
    at = {client: liar._rng.randrange(50)}
    return Joined(
        client=client, nonce=nonce, incarnation=incarnation, entry=liar.entry, positions=at, read=at[client],
        question=FAR,
    )  # fmt: skip


def _misshapen(client: str, liar: Liar) -> FromCoordinator | None:
    if liar._opened is None:
        return None
    slot: Slot = liar._rng.choice(liar._opened.slots)
    weights = np.zeros((liar._rng.randrange(9), 1 + liar._rng.randrange(9)))
    return ModelPublished(slot=slot.name, version=slot.version, registry=1, weights=weights)


def _changes(client: str, liar: Liar) -> FromCoordinator | None:
    if liar._opened is None:
        return None
    slots = tuple(slot.name for slot in liar._opened.slots)
    version = liar._opened.round + liar._rng.choice((0, 1, FAR))
    numbers = np.ones((3 * len(slots), 2))
    return ModelsChanged(
        version=version, slots=slots, bases=(-1,) * len(slots), exponents=np.zeros(3), numbers=numbers, digest="lie"
    )


def _other_registry(client: str, liar: Liar) -> FromCoordinator | None:
    if liar._registry is None:
        return None
    d = 5 + liar._rng.randrange(5)
    version = liar._registry.version + liar._rng.choice((0, 1, FAR))
    return RegistryPublished(
        registry=Registry(version, tuple(f"f{i}" for i in range(d)), ("no",), np.zeros(d), np.ones(d))
    )


def _asked(client: str, liar: Liar) -> FromCoordinator:
    slots = (Slot(name="nowhere", version=1, eta=0.1),)[: liar._rng.randrange(2)]
    return Score(
        entry=liar.entry, round=1, epoch=1, registry=1, slots=slots, stage=FAR, wants_untrained_loss=not slots
    )


def _refusal(client: str, liar: Liar) -> FromCoordinator:
    incarnation = liar._issued.get(client, 1)
    return Refusal(client=client, incarnation=incarnation, entry=liar.entry + liar._rng.choice((0, 1)), reason="no")


def _left(client: str, liar: Liar) -> FromCoordinator | None:
    return None if client in liar._leaving else Left(client=client, nonce=liar._starts.get(client, "1"))


MISLEADING: Sequence[Callable[[str, Liar], FromCoordinator | None]] = (
    _opening,
    _closing,
    _answer,
    _misshapen,
    _changes,
    _other_registry,
    _asked,
    _refusal,
    _left,
    lambda client, liar: Ended(entry=liar.entry),
)
"""Forgeries that a client finds out; no eviction, confirmation of its Leave, plausible opening or model."""
