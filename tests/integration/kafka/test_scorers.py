"""Records without labels, answered by processes that may be killed, while the federation learns."""

import json
from collections import Counter

import numpy as np
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from small_stream import FEATURES, ROUNDS, SmallStream, make
from suites.parameters import full

from streamfl.protocol.messages import RoundOpened, Slot
from streamfl.records.formats import Packed
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings
from streamfl.wire import messages

PARTITIONS = 4
PACKED = (1, 64, 3, 700, 1, 64, 2500, 2)  # records of packed messages


class Unlabelled:
    """A topic of records without labels, in JSON or packed, and the answers to them."""

    def __init__(self, federation, small, form="json"):
        self.federation, self.small, self.form = federation, small, form
        self.topic = f"{small.prefix.replace('small', 'asked')}.unlabelled"
        make(federation.bootstrap, {self.topic: PARTITIONS})
        self.sent = {}

    def settings(self, *, exactly_once=False):
        asked = (f'score.topics=["{self.topic}"]', f'records.format="{self.form}"')
        return (*asked, f"score.exactly_once={json.dumps(exactly_once)}")

    def start(self, name, *, exactly_once=False, dies_at=""):
        flags = [word for setting in self.settings(exactly_once=exactly_once) for word in ("--set", setting)]
        return self.federation.start(name, *flags, role=("score", "--name", name), dies_at=dies_at)

    def send_packed(self, *sizes):
        """Write messages of so many records, keyed by the number of their first."""
        with KafkaProducer(bootstrap_servers=self.federation.bootstrap) as producer:
            for i, size in enumerate(sizes):
                first = len(self.sent)
                X = np.random.default_rng(first).integers(0, 100, (size, len(FEATURES))).astype(float)
                value = Packed("unlabelled").encode(FEATURES, X, np.zeros(size), ())
                producer.send(self.topic, value, key=str(first).encode(), partition=i % PARTITIONS)
                self.sent.update((str(first + row), x) for row, x in enumerate(X))
            producer.flush()

    def send(self, count, *values):
        """Write so many records, keyed by their number, and any further values without a key."""
        rng = np.random.default_rng(len(self.sent))
        with KafkaProducer(bootstrap_servers=self.federation.bootstrap) as producer:
            for _ in range(count):
                number = len(self.sent)
                x = rng.integers(0, 100, len(FEATURES)).astype(float)
                value = json.dumps(dict(zip(FEATURES, x.tolist(), strict=True))).encode()
                producer.send(self.topic, value, key=str(number).encode(), partition=number % PARTITIONS)
                self.sent[str(number)] = x
            for value in values:
                producer.send(self.topic, value, partition=0)
            producer.flush()

    def answers(self):
        """Return the committed answers, in the order of the log."""
        return [json.loads(message.value) for message in read(self.federation, "predictions")]

    def answered(self):
        """Return the number of each record that was answered, in the order of the log."""
        return [_number(answer) for answer in self.answers()]

    def all_answered(self):
        return set(self.answered()) >= self.sent.keys()


def _number(answer):
    """Return the number of the record, which follows from its row where many have one key."""
    return str(int(answer["key"]) + answer["row"]) if "row" in answer else answer["key"]


def read(federation, topic):
    consumer = KafkaConsumer(bootstrap_servers=federation.bootstrap, isolation_level="read_committed")
    try:
        name = f"{federation.name}.{topic}"
        partitions = [TopicPartition(name, number) for number in sorted(consumer.partitions_for_topic(name) or ())]
        if not partitions:
            return []  # no scorer has made the topic yet
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends, found = consumer.end_offsets(partitions), []
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for batch in consumer.poll(timeout_ms=200).values():
                found += batch
        return found
    finally:
        consumer.close()


def of_replay(small, rounds):
    """Return the model of a replay of the first rounds: that of the round after them."""
    settings = ReplaySettings(round_size=20, profile=small.profile, learning=small.learning)
    first = {name: type(log)(log.rows[: 20 * rounds], log.y[: 20 * rounds]) for name, log in small.logs.items()}
    return Replay(small.table, first, settings).run().model


def prepared(broker, federate, *settings, features="rounds", form="json"):
    small = SmallStream(broker.bootstrap, learning=LearningSettings(features=features))
    small.make_topics()
    federation = federate(small, f'learning.features="{features}"', *settings)
    federation.start("a")
    federation.start("coordinator")
    return small, federation, Unlabelled(federation, small, form)


def check_against_replay(small, asked, answers):
    """Check that each answer is that of the model of the round that it names."""
    models = {}
    for answer in answers:
        round_ = answer["round"]
        model = models.get(round_) or models.setdefault(round_, of_replay(small, round_ - 1))
        (shares,) = model.predict_proba(asked.sent[_number(answer)][None], FEATURES)
        assert answer["probabilities"] == pytest.approx(dict(zip(model.labels, shares, strict=True)), abs=2e-6)
        assert answer["prediction"] == max(answer["probabilities"], key=answer["probabilities"].get)
        assert answer["entry"] == round_ - 1


@pytest.mark.full
@pytest.mark.parametrize("features", ["rounds", pytest.param("auto", marks=pytest.mark.compiles)])
def test_each_record_is_answered_by_the_model_of_the_round_that_the_answer_names(features, broker, federate):
    small, federation, asked = prepared(broker, federate, features=features)
    asked.send(10)
    scorer = asked.start("s")
    federation.until("it waits", lambda: scorer.said("not ready"))
    assert asked.answers() == []
    small.write(until=5)
    federation.until("five rounds", lambda: federation.rounds() >= 5)
    federation.until("the first ten are answered", asked.all_answered)
    small.write(until=9)
    federation.until("nine rounds", lambda: federation.rounds() >= 9)
    federation.until("models of nine rounds", lambda: _asked_again(asked, 10))
    late = asked.start("late")
    federation.until("the late one is ready", lambda: late.said("ready"))
    assert late.said("ready")[0]["round"] >= 10
    scorer.kill()
    asked.send(20)
    federation.until("all are answered by the late one", asked.all_answered)
    answers = asked.answers()
    check_against_replay(small, asked, answers)
    assert {answer["topic"] for answer in answers} == {asked.topic}
    assert max(answer["round"] for answer in answers) == 10
    assert late.terminate() == 0
    small.write(until=ROUNDS)
    small.end()


@pytest.mark.full
def test_models_change_under_load_between_messages_never_inside_one(broker, federate):
    small, federation, asked = prepared(broker, federate, form="packed")
    small.write(until=4)
    federation.until("four rounds", lambda: federation.rounds() >= 4)
    asked.start("s")
    for round_ in (6, 7, 8, 9):
        small.write(until=round_ - 1)

        def next_models_answer(round_=round_):
            asked.send_packed(1, 40, 3, 20)
            return any(answer["round"] == round_ for answer in asked.answers())

        federation.until(f"the models of round {round_} answer", next_models_answer)
    federation.until("all are answered", asked.all_answered)
    answers = asked.answers()
    of_messages = {}
    for answer in answers:
        of_messages.setdefault((answer["partition"], answer["offset"]), set()).add(answer["round"])
    assert all(len(rounds) == 1 for rounds in of_messages.values())
    for partition in range(PARTITIONS):
        (rounds,) = zip(*(of_messages[at] for at in sorted(of_messages) if at[0] == partition), strict=True)
        assert list(rounds) == sorted(rounds)
    check_against_replay(small, asked, answers)
    assert set(range(6, 10)) <= {answer["round"] for answer in answers}


def _asked_again(asked, round_):
    """Ask one more record at a time until the models of a round answer."""
    if asked.all_answered():
        if any(answer["round"] >= round_ for answer in asked.answers()):
            return True
        asked.send(1)
    return False


@pytest.mark.parametrize("point", [full("records_read:3"), "answers_written:3", full("answers_committed:3")])
@pytest.mark.parametrize("exactly_once", [True, full(False)], ids=["exactly once", "at least once"])
@pytest.mark.parametrize("form", ["json", full("packed")])
def test_a_killed_scorer_answers_each_record_exactly_once_or_at_least_once(
    form, point, exactly_once, broker, federate
):
    small, federation, asked = prepared(broker, federate, form=form)
    small.write(until=4)
    federation.until("four rounds", lambda: federation.rounds() >= 4)
    killed = asked.start("s", exactly_once=exactly_once, dies_at=point)
    for _ in range(8):
        asked.send(25) if form == "json" else asked.send_packed(*PACKED)
        federation.until("answered, or killed", lambda: asked.all_answered() or killed.popen.poll() is not None)
    federation.until("it was killed", lambda: killed.popen.poll() is not None)
    assert killed.was_killed_at(point), federation.last_words()
    asked.start("s", exactly_once=exactly_once)
    federation.until("all are answered", asked.all_answered)
    times = Counter(asked.answered())
    assert times.keys() == asked.sent.keys()
    if exactly_once or not point.startswith("answers_written"):
        assert set(times.values()) == {1}
    else:
        assert max(times.values()) == 2


@pytest.mark.full
@pytest.mark.parametrize("exactly_once", [True, False], ids=["exactly once", "at least once"])
def test_packed_messages_of_any_sizes_are_each_answered_once_in_order(exactly_once, broker, federate):
    small, federation, asked = prepared(broker, federate, form="packed")
    asked.send_packed(*[1, 64, 64, 10_000, 1, 3, 1999, 2001] * 2, *[1] * 3000, *[64] * 100)
    small.write(until=4)
    federation.until("four rounds", lambda: federation.rounds() >= 4)
    scorer = asked.start("s", exactly_once=exactly_once)
    federation.until("all are answered", lambda: len(asked.answers()) >= len(asked.sent))
    assert scorer.terminate() == 0
    assert _answered(scorer) == [len(asked.sent)]
    found = read(federation, "predictions")
    assert len(found) == len(asked.sent)
    places = {}
    for message in found:
        answer = json.loads(message.value)
        of_partition = places.setdefault((message.partition, answer["partition"]), [])
        of_partition.append((answer["offset"], answer.get("row", 0)))
    assert all(one == sorted(one) for one in places.values())
    check_against_replay(small, asked, [json.loads(message.value) for message in found[::50]])


def _answered(process):
    return [line["answered"] for line in process.said("ended")]


def _partitions(process):
    return len(process.said("partition taken")) - len(process.said("partition given up"))


@pytest.mark.full
@pytest.mark.parametrize("exactly_once", [True, False], ids=["exactly once", "at least once"])
def test_of_two_scorers_one_is_killed_as_it_answers_and_the_other_goes_on_with_all(exactly_once, broker, federate):
    small, federation, asked = prepared(broker, federate, "kafka.transaction_timeout_ms=6000")
    small.write(until=4)
    federation.until("four rounds", lambda: federation.rounds() >= 4)
    killed = asked.start("s1", exactly_once=exactly_once, dies_at="before_committing:3")
    other = asked.start("s2", exactly_once=exactly_once)
    federation.until("both have partitions", lambda: [_partitions(killed), _partitions(other)] == [2, 2])
    for _ in range(3):
        asked.send(25)
        federation.until("answered, or killed", lambda: asked.all_answered() or killed.popen.poll() is not None)
    federation.until("it was killed", lambda: killed.popen.poll() is not None)
    assert killed.was_killed_at("before_committing:3"), federation.last_words()
    asked.send(25)
    federation.until("the other has all partitions", lambda: _partitions(other) == PARTITIONS)
    federation.until("all are answered by the other", asked.all_answered)
    times = Counter((answer["partition"], answer["offset"]) for answer in asked.answers())
    assert len(times) == len(asked.sent)
    assert (max(times.values()) == 1) == exactly_once  # what was written and not committed is answered again


@pytest.mark.full
def test_what_is_no_record_is_a_dead_letter_and_ends_nothing(broker, federate):
    small, federation, asked = prepared(broker, federate)
    small.write(until=4)
    federation.until("four rounds", lambda: federation.rounds() >= 4)
    scorer = asked.start("s", exactly_once=True)
    asked.send(5, b"{", b"5", b"\xff\xfe", b"[1,2]")
    federation.until("all are answered", asked.all_answered)
    federation.until("four letters", lambda: len(read(federation, "dead-letter")) == 4)
    letters = [dict(message.headers) for message in read(federation, "dead-letter")]
    assert {letter["topic"].decode() for letter in letters} == {asked.topic}
    assert any(b"not a JSON object" in letter["reason"] for letter in letters)
    assert len(asked.answers()) == 5
    assert scorer.terminate() == 0
    (ended,) = scorer.said("ended")
    assert (ended["answered"], ended["rejected"], ended["dead_letters"]) == (5, 4, 4)


@pytest.mark.full
def test_a_scorer_without_a_federation_waits_says_whose_fault_it_is_and_makes_no_topic(broker, federate):
    small = SmallStream(broker.bootstrap)
    federation = federate(small, "kafka.patience=3")
    asked = Unlabelled(federation, small)
    scorer = asked.start("s")
    federation.until("it ends", lambda: scorer.popen.poll() is not None, patience=40.0)
    assert scorer.popen.returncode == 2
    own = f"no topic {federation.name}.control, {federation.name}.models"
    assert f"{own}; start the coordinator, or correct [federation] name" in scorer.error()
    assert scorer.said("waiting")
    consumer = KafkaConsumer(bootstrap_servers=federation.bootstrap)
    assert f"{federation.name}.predictions" not in consumer.topics()
    consumer.close()


@pytest.mark.full
def test_of_two_scorers_of_one_name_the_first_ends(broker, federate):
    small, federation, asked = prepared(broker, federate)
    small.write(until=4)
    federation.until("four rounds", lambda: federation.rounds() >= 4)
    first = asked.start("s")
    federation.until("it has partitions", lambda: _partitions(first) == PARTITIONS)
    flags = [word for setting in asked.settings() for word in ("--set", setting)]
    second = federation.start("second", *flags, role=("score", "--name", "s"))
    federation.until("the first ends, without any record", lambda: first.popen.poll() is not None, patience=30.0)
    assert first.popen.returncode == 1
    assert "each scorer its own [score] name" in first.error()
    asked.send(20)
    federation.until("all are answered", asked.all_answered)
    assert second.terminate() == 0


@pytest.mark.full
@pytest.mark.parametrize("exactly_once", [True, False], ids=["exactly once", "at least once"])
def test_a_key_as_large_as_a_message_is_answered_under_its_beginning(exactly_once, broker, federate):
    small, federation, asked = prepared(broker, federate)
    small.write(until=4)
    federation.until("four rounds", lambda: federation.rounds() >= 4)
    with KafkaProducer(bootstrap_servers=federation.bootstrap) as producer:
        producer.send(asked.topic, b"{}", key=b"k" * (1_048_576 - 100), partition=0)
    scorer = asked.start("s", exactly_once=exactly_once)
    asked.send(5)
    federation.until("all are answered", asked.all_answered)
    federation.until("the large key, too", lambda: len(asked.answers()) == 6)
    assert sorted(len(message.key) for message in read(federation, "predictions"))[-1] == 64 * 1024
    assert scorer.terminate() == 0
    (ended,) = scorer.said("ended")
    assert (ended["answered"], ended["again"]) == (6, 0)


@pytest.mark.full
@pytest.mark.parametrize("forged", [10**9, 2**62, 3])
def test_a_forged_round_keeps_no_scorer_from_answering(forged, broker, federate):
    small, federation, asked = prepared(broker, federate)
    small.write(until=4)
    federation.until("four rounds", lambda: federation.rounds() >= 4)
    slots = (Slot(name="m", version=forged, eta=1.0),)
    opened = RoundOpened(entry=7, round=forged, epoch=1, block=1, registry=1, slots=slots, serves="m", known_labels=2)
    with KafkaProducer(bootstrap_servers=federation.bootstrap) as producer:
        producer.send(f"{federation.name}.control", messages.encode(opened))
    scorer = asked.start("s")
    asked.send(5)
    federation.until("all are answered", asked.all_answered)
    assert {answer["round"] for answer in asked.answers()} == {5}
    small.write(until=5)
    federation.until("five rounds", lambda: federation.rounds() >= 5)
    federation.until("the next round answers", lambda: _asked_again(asked, 6))
    federation.until("it is ready", lambda: scorer.said("ready"))
