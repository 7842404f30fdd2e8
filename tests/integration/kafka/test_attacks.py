"""One message, or many, that would end a federation: it goes on, and learns what it learns undisturbed."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType
from kafka_federation import Federation
from kafka_stream import check_as_undisturbed
from small_stream import ROUNDS, make
from test_bad_records import everything_in

from streamfl.arrays import FloatArray
from streamfl.protocol.messages import (
    Join,
    Joined,
    ModelPublished,
    Refusal,
    RoundClosed,
    RoundOpened,
    Served,
    SlotLosses,
    Update,
)
from streamfl.protocol.moments import moments_of
from streamfl.protocol.records import Span
from streamfl.runtime.log.dead_letters import HEAD
from streamfl.runtime.log.parts import cut
from streamfl.runtime.log.tensors import key_of
from streamfl.wire import messages
from streamfl_benchmarks.liars.fields import altered

pytestmark = pytest.mark.full

# Rounds before the attack, and those until the coordinator has met it.
BEFORE = 4

# The most that kafka-python sends by default, key and overhead included.
LARGEST = 1_048_400

Sent = list[tuple[str, bytes | None, bytes | None, list[tuple[str, bytes]]]]


def updates(*values: bytes, size: int = 900_000, key: bytes = b"stranger") -> Sent:
    """Messages in somebody's name, of one who is no member unless it is said."""
    return [("updates", key, part.value, list(part.headers)) for value in values for part in cut(value, size)]


def random_bytes(_: Federation) -> Sent:
    return [("updates", b"stranger", os.urandom(LARGEST), [])]


def many_errors(_: Federation) -> Sent:
    """36,010 things are wrong with one message."""
    return updates(json.dumps({"type": "update", "client": "stranger", "spans": [{"x": 1}] * 12_000}).encode())


def last_opened(federation: Federation) -> RoundOpened:
    """Return the opening of the open round."""
    return next(message for message in reversed(federation.told()) if isinstance(message, RoundOpened))


def many_spans(federation: Federation) -> Sent:
    """An update that names 30,000 partitions, in the name of a member's earlier start."""
    opened = last_opened(federation)
    names = (f"{'p' * 20}{i}/0" for i in range(30_000))
    update = Update(
        client="c0",
        attempt="0-1",
        entry=opened.entry,
        round=opened.round,
        epoch=opened.epoch,
        registry=opened.registry,
        records=30_000,
        trained=0,
        rejected=0,
        spans=tuple(Span(name, 0, 1) for name in names),
    )
    return updates(messages.encode(update), key=b"c0")


def long_names(_: Federation) -> Sent:
    """A key and a type that fill a message."""
    leave = json.dumps({"type": "\u00e9" * 150_000, "client": "stranger"}).encode()
    return [("updates", b"\xc3\xa9" * 450_000, b"{}", []), ("updates", b"", b"{}", []), *updates(leave)]


def tiny_parts(_: Federation) -> Sent:
    """One value in 5,000 parts of a byte, and 1,000 values of which nothing more ever comes."""
    one = updates(os.urandom(5_000), size=1)
    never = [("updates", f"s{i}".encode(), b"x" * 1000, list(cut(b"x" * 2000, 1000)[0].headers)) for i in range(1000)]
    return one + never


def junk_for_clients(federation: Federation) -> Sent:
    """What no coordinator says, where clients listen."""
    sent: Sent = []
    for topic, key in (
        ("control", None),
        ("models", b"step 4/0/0"),
        ("models", b"\xff"),
        ("models", b"x" * 100_000),
    ):
        for value in (
            b"",
            b"\xff\x00",
            b"{}",
            b"{" * 1000,
            b'{"type":"round-closed","piece":"2/3"}',
            os.urandom(LARGEST // 2),
        ):
            sent.append((topic, key, value, []))
            sent.append((topic, key, value, [("part", b"0/1000000000"), ("digest", b"d")]))
            sent += [(topic, key, part.value, list(part.headers)) for part in cut(value, 900_000)]
    closed = json.loads(messages.encode(federation.closed()[-1]))
    return sent + [("control", None, json.dumps({**closed, "piece": f"1/{n}"}).encode(), []) for n in range(2, 202)]


class Name(str):
    """The name of a header that is no UTF-8, which kafka-python would not send."""

    __slots__ = ()

    def encode(self, *_: str) -> bytes:
        return b"\xff\xfe"


def odd_headers(_: Federation) -> Sent:
    """Headers with names that are no text, and the same one twice."""
    odd = [(Name("part"), b"0/1"), ("part", b""), ("digest", b"\xff" * 1000)]
    topics = (("updates", b"stranger"), ("control", None), ("models", b"step 4/0/0"))
    return [(topic, key, b"{}", odd) for topic, key in topics]


ATTACKS: Mapping[str, Callable[[Federation], Sent]] = {
    attack.__name__: attack
    for attack in (random_bytes, many_errors, many_spans, long_names, tiny_parts, odd_headers, junk_for_clients)
}


def write(federation: Federation, sent: Sent) -> None:
    with KafkaProducer(bootstrap_servers=federation.bootstrap, linger_ms=20) as producer:
        told = [
            producer.send(f"{federation.name}.{topic}", value, key=key, headers=headers, partition=0)
            for topic, key, value, headers in sent
        ]
        producer.flush()
    assert all(one.succeeded() for one in told)


@pytest.fixture
def begun(federate, small) -> Federation:
    """A federation that has closed a few rounds."""
    federation = federate(small)
    federation.start("a")
    federation.start("coordinator")
    small.write(until=BEFORE)
    federation.until("some rounds", lambda: federation.rounds() == BEFORE)
    return federation


def goes_on(federation: Federation, small) -> None:
    """Check that the rest is learnt as if nothing had been."""
    small.write(until=ROUNDS)
    small.end()
    check_as_undisturbed(federation, small)
    assert [process.popen.returncode for process in federation.running if process.popen.returncode != -9] == [0, 0]


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_federation_keeps_working_after_an_attack(attack, begun, small):
    sent = ATTACKS[attack](begun)
    write(begun, sent)
    goes_on(begun, small)
    letters = everything_in(begun.bootstrap, f"{begun.name}.dead-letter")
    host = begun.running[0].said("ended")[-1]
    if attack == "junk_for_clients":
        assert letters == []
        assert host["foreign"] >= len(sent) - 200
        assert len(begun.running[0].said("unusable message")) <= 30
        return
    assert host["foreign"] == (2 if attack == "odd_headers" else 0)
    assert letters or attack == "many_spans"  # of an earlier start it is refused like one that came too late
    assert all(len(letter.value or b"") <= 64 * 1024 and len(letter.key) <= 256 for letter in letters)
    assert all(len(dict(letter.headers)["reason"]) <= 2000 for letter in letters)
    if attack == "random_bytes":
        (letter,) = letters
        value = sent[0][2]
        told = dict(letter.headers)
        assert letter.value == value[:HEAD]
        assert (told["size"], told["sha256"]) == (b"1048400", hashlib.sha256(value).hexdigest().encode())


def test_a_coordinator_that_restarts_writes_no_dead_letter_twice(begun, small):
    write(begun, random_bytes(begun))
    topic = f"{begun.name}.dead-letter"
    begun.until("a letter", lambda: bool(everything_in(begun.bootstrap, topic)))
    small.write(until=BEFORE + 2)
    begun.until("two rounds more", lambda: begun.rounds() == BEFORE + 2)
    begun.running[1].kill()
    begun.start("coordinator")
    goes_on(begun, small)
    assert len(everything_in(begun.bootstrap, topic)) == 1


def test_a_coordinator_starts_again_among_junk_where_it_stands(begun, small):
    coordinator = begun.running[1]
    coordinator.kill()
    junk: Sent = [("state", b"state/0", b"not a state", [])]
    junk += [("state", b"other", os.urandom(1000), []) for _ in range(200)]
    junk += [("state", b"state/0", b"{}", [(Name("part"), b"0/1")])]
    for value in (
        b"{}",
        b"\xff" * 3000,
        b'{"profile":{},"entry":3}',
        *(b'{"profile":7,"entry":%d}' % entry for entry in range(10)),
    ):
        junk += [("state", b"state/0", part.value, list(part.headers)) for part in cut(value, 1000)]
    write(begun, junk)
    again = begun.start("coordinator")
    goes_on(begun, small)
    assert again.said("unusable messages among the states")[0]["consequence"] == "the state before it is used"
    keys = {message.key for message in everything_in(begun.bootstrap, f"{begun.name}.state")}
    assert keys >= {b"state/0", b"state-before/0"}


def test_a_federation_keeps_working_after_batches_that_unpack_to_more_than_memory_holds(begun, small):
    """80 kB each in the log, and 80 MB in memory: where clients send, where they listen, and among the records."""
    coordinator = begun.running[1]
    coordinator.kill()
    bomb = {"compression_type": "gzip", "max_request_size": 10**8}
    with KafkaProducer(bootstrap_servers=begun.bootstrap, **bomb) as producer:
        for topic in ("updates", "control", "models", "state"):
            producer.send(f"{begun.name}.{topic}", bytes(80 * 10**6), key=b"c0", partition=0).get(30)
        producer.send(small.places["c0"][0], bytes(80 * 10**6), partition=0).get(30)
    begun.start("coordinator")
    small.write(until=ROUNDS)
    small.end()
    begun.until("the end of the stream", lambda: all(process.popen.poll() is not None for process in begun.running))
    assert [process.popen.returncode for process in begun.running] == [0, -9, 0]
    host, ended = (begun.running[i].said("ended")[-1] for i in (0, 2))
    assert (host["rejected"], host["foreign"]) == (1, 2)
    assert (ended["accepted"], ended["rejected"]) == (sum(small.each.values()), 1)
    letters = everything_in(begun.bootstrap, f"{begun.name}.dead-letter")
    assert len(letters) == 2
    assert all(b"a batch of 1 messages that cannot be read: " in letter.value for letter in letters)


def test_a_dead_letter_topic_that_takes_nothing_of_this_size_is_told_and_that_is_all(begun, small):
    topic = f"{begun.name}.dead-letter"
    with KafkaAdminClient(bootstrap_servers=begun.bootstrap) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={"max.message.bytes": "500"})])
    write(begun, [("updates", b"stranger", b"x" * 20_000, [])] * 3)
    coordinator = begun.running[1]
    begun.until("it is told", lambda: bool(coordinator.said("dead letters were not written")))
    goes_on(begun, small)
    assert coordinator.said("dead letters were not written")[-1]["in_all"] == 3
    assert everything_in(begun.bootstrap, topic) == []


def test_a_federation_keeps_working_after_forged_entries(begun, small):
    """An opening far ahead and 200 entries that were never written: hosts ask where the ledger stands."""
    told = begun.told()
    opened = next(message for message in reversed(told) if isinstance(message, RoundOpened))
    closed = next(message for message in reversed(told) if isinstance(message, RoundClosed))
    ahead = replace(opened, entry=10**9, round=10**9)
    forged = [replace(closed, entry=closed.entry + 1 + i, round=closed.round + 1 + i) for i in range(200)]
    write(begun, [("control", None, messages.encode(message), []) for message in (ahead, *forged)])
    small.write(until=ROUNDS)
    small.end()
    begun.until("the end of the stream", lambda: all(process.popen.poll() is not None for process in begun.running))
    assert [process.popen.returncode for process in begun.running] == [0, 0]
    (ended,) = begun.running[1].said("ended")
    assert (ended["accepted"], ended["model_sha256"]) == (sum(small.each.values()), small.expected.model_sha256)


def write_models(federation: Federation, weights: FloatArray, ahead: Sequence[int]) -> None:
    """Write forged models of all slots of the open round, so many versions ahead."""
    opened = last_opened(federation)
    models = [
        ModelPublished(slot=slot.name, version=slot.version + more, registry=opened.registry, weights=weights)
        for slot in opened.slots
        for more in ahead
    ]
    write(
        federation,
        [
            ("models", f"{key_of(model)}/0".encode(), part.value, list(part.headers))
            for model in models
            for part in cut(messages.encode(model), 900_000)
        ],
    )


def test_a_federation_keeps_working_after_models_that_nobody_can_score(begun, small):
    """Weights that are finite, and whose outputs are not: honest clients would be evicted for what comes of them."""
    write_models(begun, np.full((4, 2), 1e308), ahead=(0, 1))
    goes_on(begun, small)
    assert begun.running[0].said("ended")[-1]["foreign"] == 0


def test_a_federation_keeps_working_after_so_many_models_that_hosts_drop_the_true_ones(begun, small):
    """A client keeps the last few arrivals of a model. No round names the forged ones: those it could not detect."""
    for _ in range(2):
        write_models(begun, np.ones((4, 2)), ahead=(101, 102, 103, 104))
    goes_on(begun, small)


# --- a member that lies ----------------------------------------------------------------------------------------

STRANGER = "stranger"
FOREIGN = "elsewhere/0"


def honest(opened: RoundOpened, topic: str, **spoilt: Any) -> Update:
    """Return an update of four records that could be true, but for what is spoilt."""
    mine = [slot for slot in opened.slots if slot.is_for(STRANGER)]
    loss = SlotLosses(loss=1.0, square=0.5, proper=1.0)
    plain = Update(
        client=STRANGER,
        attempt="1-1",
        entry=opened.entry,
        round=opened.round,
        epoch=opened.epoch,
        registry=opened.registry,
        records=4,
        trained=4,
        rejected=0,
        spans=(Span(f"{topic}/0", 0, 4),),
    )
    numbers = {
        "losses": {slot.name: loss for slot in mine},
        "differences": {name: np.zeros((4, 2)) for name in opened.trained_by(STRANGER, mine)},
        "squared_norm": 16.0,
        "largest_norm": 2.0,
        "second_moments": 4.0 * np.eye(4) if opened.asks.second_moments and opened.asks.of(STRANGER) else None,
        "served": Served(records=4, correct=2),
    }
    return altered(plain, **(numbers | spoilt))


LIES: Mapping[str, Callable[[Update], Update]] = {
    "a norm that overflows": lambda update: altered(update, largest_norm=1e300),
    "an infinite error": lambda update: altered(
        update, served=replace(update.numbers.served, absolute_error=float("inf"))
    ),
    "a position that no log has": lambda update: replace(update, spans=(replace(update.spans[0], end=10**12),)),
    "a partition of another client": lambda update: replace(update, spans=(Span(FOREIGN, 0, 4),)),
    "a step that is not finite": lambda update: altered(
        update, differences={name: x * np.nan for name, x in update.numbers.differences.items()}
    ),
}

WHY = {
    "a norm that overflows": "a norm is out of range",
    "a step that is not finite": "is not finite",
}


@pytest.mark.parametrize("lie", LIES)
def test_a_member_that_lies_is_not_waited_for_then_evicted_and_the_model_is_the_others(lie, begun, small):
    """With quorum "all" and no deadline: a name that has only joined holds nothing up, after three lies it is out."""
    topic = f"{small.prefix}.{STRANGER}"
    make(small.bootstrap, {topic: 1})
    write(begun, said(Join(client=STRANGER, nonce="1", moments=moments_of(()))))
    begun.until("it has joined", lambda: any(is_of(m, Joined) for m in begun.told()))
    for i in range(1, 4):
        opened = last_opened(begun)
        assert opened.round == BEFORE + i
        update = LIES[lie](honest(opened, topic, attempt=f"1-{i}"))
        write(begun, said(update))
        begun.until("it is refused", lambda i=i: sum(is_of(m, Refusal) for m in begun.told()) == i)
        small.write(until=BEFORE + i)
        begun.until("the round closes without it", lambda i=i: begun.rounds() == BEFORE + i)
    refusals = [message for message in begun.told() if is_of(message, Refusal)]
    assert [refusal.evicted for refusal in refusals][-1:] == [True]
    assert all(WHY.get(lie, "") in refusal.reason for refusal in refusals)
    small.places[STRANGER] = (topic, 0)
    small.end([STRANGER])  # else its host stays half a minute for it after the end
    goes_on(begun, small)
    assert len(everything_in(begun.bootstrap, f"{begun.name}.dead-letter")) == 3


def said(message: Join | Update) -> Sent:
    """Return what the stranger sends."""
    parts = cut(messages.encode(message), 900_000)
    return [("updates", STRANGER.encode(), part.value, list(part.headers)) for part in parts]


def is_of(message: object, kind: type) -> bool:
    """Tell whether a message is of a kind, and for the stranger."""
    return isinstance(message, kind) and message.client == STRANGER


# --- a producer of records -------------------------------------------------------------------------------------


def test_labels_of_any_length_are_bad_records_and_no_more(begun, small):
    """Each is 380,000 bytes, and new; the coordinator never hears of them."""
    for i in range(30):
        record = {"label": f"{i}" + "\u00e9" * 190_000, "height": 1, "slope": 2, "shade": 3}
        small.send("c0", json.dumps(record, ensure_ascii=False).encode())
    small.flush()
    small.write(until=ROUNDS)
    small.end()
    begun.until("the end of the stream", lambda: all(p.popen.poll() is not None for p in begun.running))
    assert [process.popen.returncode for process in begun.running] == [0, 0]
    # Bad records have numbers, by which records are held back: so the model is not the one without them.
    host, coordinator = (process.said("ended")[-1] for process in begun.running)
    assert (host["rejected"], host["dead_letters"], host["pending"]) == (30, 30, 0)
    assert (coordinator["accepted"], coordinator["rejected"]) == (sum(small.each.values()), 30)
    assert coordinator["restarts"] == len(small.restarts)
    letters = everything_in(begun.bootstrap, f"{begun.name}.dead-letter")
    assert len(letters) == 30
    assert all(len(letter.value) == HEAD and len(dict(letter.headers)["reason"]) <= 2000 for letter in letters)
