"""Dead letters on Kafka: one for each message."""

from types import SimpleNamespace

import numpy as np
from kafka import TopicPartition

from streamfl.formats import Packed
from streamfl.ports import ReadingCounts
from streamfl_connectors.kafka import dead_letters
from streamfl_connectors.kafka.records import RecordConsumer


def test_a_packed_message_is_one_letter_however_many_of_its_records_are_bad(monkeypatch):
    form, written = Packed("classification"), []
    value = form.encode(("x",), np.full((1000, 1), np.inf), np.zeros(1000), ("a",))
    monkeypatch.setattr(
        dead_letters,
        "write",
        lambda _producer, _topic, told: written.append(told) or SimpleNamespace(add_errback=lambda _handler: None),
    )
    host = RecordConsumer.__new__(RecordConsumer)  # without a broker
    host._format, host._letters, host._counts = form, None, ReadingCounts()
    host._topics = SimpleNamespace(dead_letters="f.dead-letter")
    bad = form.decode([17], [value]).rejected
    assert len(bad) == 1000
    host._bury(TopicPartition("f.records.c0", 3), bad, {17: SimpleNamespace(offset=17, key=None, value=value)})
    (one,) = written
    assert (one.value, host._counts.dead_letters) == (value, 1)
    assert dict(one.headers)["reason"] == b'feature "x" is infinite, and 999 more of its records cannot be used'
