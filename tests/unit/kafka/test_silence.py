"""Readers notice that the brokers do not answer, although a poll of kafka-python returns nothing then."""

from types import SimpleNamespace

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError, TopicAuthorizationFailedError
from structlog.testing import capture_logs

from streamfl.errors import PeerError, UsageError
from streamfl.wire.signing import OPEN
from streamfl_connectors.kafka import consumer as module_of_consumer
from streamfl_connectors.kafka import silence as module
from streamfl_connectors.kafka import watcher
from streamfl_connectors.kafka.settings import KafkaSettings
from streamfl_connectors.kafka.silence import ANSWER_MS, ASK_AFTER, BrokerSilence

SETTINGS = KafkaSettings.model_validate({"bootstrap_servers": "b:9092"})
PLACE = TopicPartition("f.control", 0)


class Consumer:
    """A consumer whose brokers are away or not; each question takes a second."""

    def __init__(self):
        self.now, self.error, self.asked, self.records = 0.0, None, 0, {}

    def assign(self, partitions):
        self.partitions = partitions

    def assignment(self):
        return {PLACE}

    def seek(self, *_): ...

    def position(self, _):
        return 7

    def poll(self, timeout_ms):
        self.now += timeout_ms / 1000
        records, self.records = self.records, {}
        return records

    def beginning_offsets(self, partitions):
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions, timeout_ms=None):
        assert partitions == [PLACE]
        if timeout_ms is not None:
            assert timeout_ms == ANSWER_MS
            self.asked += 1
            self.now += 1.0
        if self.error is not None:
            raise self.error
        return dict.fromkeys(partitions, 7)


@pytest.fixture
def consumer():
    return Consumer()


@pytest.fixture
def silence(consumer):
    return BrokerSilence(SETTINGS, consumer, lambda: consumer.now)


def polled(silence, consumer, at, *, any_came=False):
    consumer.now = at
    silence.polled(any_came=any_came)
    return silence.reason


def test_brokers_that_have_just_sent_something_are_not_asked(silence, consumer):
    for at in (1.0, 5.0, 9.0, 13.0):
        assert polled(silence, consumer, at, any_came=True) == ""
    assert polled(silence, consumer, 13.0 + ASK_AFTER - 0.1) == ""
    assert consumer.asked == 0


def test_brokers_that_answer_are_asked_once_in_a_while(silence, consumer):
    with capture_logs() as logged:
        for at in range(1, 21):  # asked at 5, which takes a second, 11 and 17 s
            assert polled(silence, consumer, float(at)) == ""
    assert (consumer.asked, logged) == (3, [])


def test_brokers_that_are_away_are_logged_once_and_their_return_too(silence, consumer):
    consumer.error = KafkaTimeoutError("late")
    with capture_logs() as logged:
        assert polled(silence, consumer, 5.0).startswith("no answer from b:9092")
        assert polled(silence, consumer, 11.0).startswith("no answer from b:9092")
        consumer.error = None
        assert polled(silence, consumer, 17.0) == ""
    assert [(line["event"], line.get("seconds")) for line in logged] == [
        ("the log does not answer", None),
        ("the log answers again", 18),
    ]


def test_a_message_is_an_answer(silence, consumer):
    consumer.error = KafkaTimeoutError("late")
    assert polled(silence, consumer, 5.0)
    assert polled(silence, consumer, 7.0, any_came=True) == ""


def test_an_error_of_a_poll_is_a_silence(silence, consumer):
    silence.failed(PeerError("no answer"))
    assert silence.reason == "no answer"


def test_brokers_that_refuse_to_answer_are_not_away(silence, consumer):
    consumer.error = TopicAuthorizationFailedError("f.control")
    with pytest.raises(UsageError, match="does not allow it"):
        polled(silence, consumer, 5.0)


def test_what_reads_a_federation_raises_while_the_brokers_are_away(consumer, monkeypatch):
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: consumer.now))
    monkeypatch.setattr(BrokerSilence.__init__, "__defaults__", (lambda: consumer.now,))
    connection = SimpleNamespace(settings=SETTINGS, signatures=OPEN, consumer=lambda **_: consumer)
    reader = watcher.KafkaWatcher(
        connection, SimpleNamespace(control="f.control", dead_letters="d"), last=0, letters=False
    )
    assert reader.read() == []
    consumer.error, consumer.now = KafkaTimeoutError("late"), 100.0
    for _ in range(3):
        with pytest.raises(PeerError, match="no answer from b:9092"):
            reader.read()
    consumer.error, consumer.now = None, 200.0
    assert reader.read() == []


@pytest.mark.parametrize(
    ("position", "passed"), [(7, True), (6, False), (None, False), (KafkaTimeoutError("late"), False)]
)
def test_how_far_a_consumer_is_asks_no_brokers(position, passed):
    class Read(module_of_consumer.Consumer):
        def __init__(self): ...

        def position(self, partition, timeout_ms):
            assert (partition, timeout_ms) == (PLACE, 0)
            if isinstance(position, Exception):
                raise position
            return position

    assert Read().has_passed(PLACE, 7) is passed
