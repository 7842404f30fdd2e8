"""What is no record and no message harms nobody, is counted, and is kept as it was with its place and reason."""

import hashlib
from contextlib import closing

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka_federation import check_ledger
from kafka_stream import check_as_undisturbed
from small_stream import ROUNDS, SIZE

from streamfl.protocol.messages import Leave, LocalDrift, RoundClosed
from streamfl.run.settings import ProfileSettings
from streamfl.runtime.log.dead_letters import HEAD, WHOLE
from streamfl.runtime.log.parts import cut
from streamfl.runtime.ports import LoggedDeadLetter, LoggedMessage
from streamfl.wire import messages
from streamfl_connectors.kafka.connector import KafkaConnector
from streamfl_connectors.kafka.settings import KafkaSettings

GOOD = b'{"label":"fir","height":1,"slope":2,"shade":3}'

POISON = {
    "no value": None,
    "no bytes": b"",
    "blank": b"  ",
    "text": b"hello",
    "half an object": GOOD[:-1],
    "a number": b"17",
    "a list": b"[" + GOOD + b"]",
    "not UTF-8": GOOD.replace(b"fir", b"\xff"),
    "no label": b'{"height":1}',
    "label null": GOOD.replace(b'"fir"', b"null"),
    "a label that is a list": GOOD.replace(b'"fir"', b"[1, 2]"),
    "no comma": GOOD.replace(b",", b" "),
    "0.9 MB of garbage": bytes(range(256)) * 3500,
    "deep": b'{"label":"fir","height":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
}


def everything_in(bootstrap, topic):
    with KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end, found = consumer.end_offsets([partition])[partition], []
        while consumer.position(partition) < end:
            found += [message for batch in consumer.poll(timeout_ms=500).values() for message in batch]
    return found


def test_bad_records_are_dead_letters_and_harm_no_other_record(federate, small):
    # Which records the default detector holds back depends on how many were read before them, bad ones too, and the
    # replay has none of those: so here is one that holds nothing back.
    small.profile = ProfileSettings(detector="glr")
    federation = federate(small, "profile.detector=glr")
    sent = []
    for k, poison in enumerate(POISON.values()):
        for name in small.names:
            small.send(name, small.message(name, k))
            small.written[name] = k + 1
        sent.append((small.written["c1"] + len(sent), poison))
        small.send("c1", poison)
    small.flush()
    small.write(until=ROUNDS)
    small.end()
    host = federation.start("a")
    federation.start("coordinator")
    federation.until("the end", lambda: all(p.popen.poll() is not None for p in federation.running))

    closed = federation.closed()
    check_ledger(closed, {**small.each, "c1": SIZE * ROUNDS + len(POISON)})
    assert sum(entry.rejected for entry in closed) == len(POISON)
    assert closed[-1].model == small.expected.model_sha256
    letters = everything_in(federation.bootstrap, f"{federation.name}.dead-letter")
    topic = small.places["c1"][0].encode()
    for letter, (offset, poison) in zip(letters, sent, strict=True):
        told = dict(letter.headers)
        assert (told["topic"], told["partition"], told["offset"]) == (topic, b"0", str(offset).encode())
        assert told["reason"]
        whole = poison is None or len(poison) <= WHOLE
        assert (letter.key, letter.value) == (b"c1", poison if whole else poison[:HEAD])
        digest = None if whole else hashlib.sha256(poison).hexdigest().encode()
        assert (told.get("size"), told.get("sha256")) == (None if whole else str(len(poison)).encode(), digest)
    settings = KafkaSettings.model_validate({"bootstrap_servers": federation.bootstrap})
    connector = KafkaConnector(federation.name, settings)
    with closing(connector.watcher(last=None)) as watcher:
        heard = [one for _ in range(20) for one in watcher.read()]
    buried = [
        (one.topic, one.partition, one.offset, bool(one.reason)) for one in heard if isinstance(one, LoggedDeadLetter)
    ]
    assert buried == [(topic.decode(), 0, offset, True) for offset, _ in sent]
    assert [
        one.message for one in heard if isinstance(one, LoggedMessage) and isinstance(one.message, RoundClosed)
    ] == closed
    assert {one.time for one in heard} != {None}
    (line,) = host.said("ended")
    assert (line["rejected"], line["dead_letters"]) == (len(POISON), len(POISON))


def parted(value: bytes, number: int, count: int, digest: bytes) -> list[tuple[str, bytes]]:
    return [("part", f"{number}/{count}".encode()), ("digest", digest)]


ENDLESS = parted(b"x", 0, 10**9, b"1" * 64)


def forged() -> dict[str, tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]]:
    """Messages that no client sends."""
    leave = messages.encode(Leave(client="c0", nonce="9" * 20))
    drift = messages.encode(
        LocalDrift(round=1, epoch=1, clients=(), labels=(), since=1, state="latched", statistic=11.0, threshold=9.2)
    )
    whole, other = (list(cut(data, 10_000)[0].headers) for data in (leave, drift))
    right = hashlib.sha256(leave).hexdigest().encode()
    return {
        "no part": (b"c0", leave, []),
        "another digest": (b"c0", leave, parted(leave, 0, 1, b"0" * 64)),
        "in another's name": (b"c1", leave, whole),
        "the coordinator's": (b"c0", drift, other),
        "part beyond the last": (b"c0", leave, parted(leave, 7, 3, right)),
        "no number": (b"c0", leave, [*parted(leave, 0, 1, right)[1:], ("part", b"\xffx")]),
        "no value": (b"c0", None, whole),
        "no key": (None, leave, whole),
        "not JSON": (b"c0", b"{", list(cut(b"{", 10)[0].headers)),
        "parts without end": (b"stranger", b"x", ENDLESS),
    }


@pytest.mark.full
def test_garbage_among_messages(federate, small):
    federation = federate(small)
    host = federation.start("a")
    coordinator = federation.start("coordinator")
    small.write(until=5)
    federation.until("five rounds", lambda: federation.rounds() == 5)
    bad = forged()
    with KafkaProducer(bootstrap_servers=federation.bootstrap) as producer:
        for key, value, headers in bad.values():
            producer.send(f"{federation.name}.updates", value, key=key, headers=headers, partition=0)
        for topic in ("control", "models"):
            producer.send(f"{federation.name}.{topic}", b"\xff\x00", key=b"\xff/0/0")
            producer.send(f"{federation.name}.{topic}", b"{}", key=b"step 16/0/0", headers=ENDLESS)
        producer.flush()
    federation.until("it is noticed", lambda: len(coordinator.said("unusable message")) == len(bad))
    small.write(until=ROUNDS)
    small.end()
    check_as_undisturbed(federation, small)

    letters = everything_in(federation.bootstrap, f"{federation.name}.dead-letter")
    assert [letter.value for letter in letters] == [value for _, value, _ in bad.values()]
    assert all(dict(letter.headers)["topic"] == f"{federation.name}.updates".encode() for letter in letters)
    assert host.said("ended")[-1]["foreign"] >= 3
    assert [process.popen.returncode for process in federation.running] == [0, 0]
