"""Labels that come later than their records, on a real broker: processes are killed, labels come in any way."""

import json
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from halved_stream import JUNK, HalvedStream, answers, first_answers, read
from kafka import KafkaProducer
from kafka_federation import CONNECTORS
from kafka_stream import check_as_undisturbed
from small_stream import ROUNDS, SIZE
from suites.parameters import full

from streamfl.run.predictions.answers_file import AnswersFile
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings


@pytest.fixture
def halved(broker):
    stream = HalvedStream(broker.bootstrap)
    stream.make_topics()
    return stream


def clients(halved):
    """Return the clients' names, by topic, and the stream's own names for them."""
    return {f"c{i}": name for i, name in enumerate(halved.names)}


def check_served(federation, halved):
    """Check that the ledger counts what the first answers by offset say."""
    first = first_answers(federation)
    assert first.keys() == {(name, k) for name in halved.names for k in range(SIZE * ROUNDS)}
    labels = {(name, k): halved.label(name, k) for name, k in first}
    served = [entry.served for entry in federation.closed()]
    assert sum(one.records for one in served) == len(first)
    assert sum(one.correct for one in served) == sum(first[at]["prediction"] == labels[at] for at in first)
    assert sum(one.no_change for one in served) == sum(first[at]["known"] == labels[at] for at in first)
    return first


def run_in_stages(federation, halved, online=lambda: None):
    """Write the stream three rounds at a time, and call `online` whenever these have been learnt."""
    for until in (*range(4, ROUNDS, 3), ROUNDS):
        halved.write(until)
        federation.until("the rounds with labels", lambda: federation.rounds() >= halved.complete)
        online()
    halved.end()


@pytest.mark.full
def test_labels_that_come_later_teach_what_they_would_have_taught_at_once(broker, federate, halved):
    federation = federate(halved, *halved.settings())
    federation.start("a")
    federation.start("coordinator")
    run_in_stages(federation, halved)
    check_as_undisturbed(federation, halved)
    first = check_served(federation, halved)
    assert max(Counter((a["client"], a["offset"]) for a in answers(federation)).values()) == 1
    assert {one["topic"] for one in first.values()} == {topic for topic, _ in halved.places.values()}
    delayed = (
        Replay(
            halved.table,
            halved.logs,
            ReplaySettings(
                round_size=SIZE, profile=halved.profile, learning=halved.learning, label_delay=halved.delay
            ),
        )
        .run()
        .result
    )
    assert delayed.model_sha256 == halved.expected.model_sha256


@pytest.mark.full
def test_rounds_by_event_time_take_a_late_record_into_the_round_that_is_open_and_count_it(broker, federate, halved):
    """A record comes each second, 20 of a client in a minute; the first one in the middle of a minute."""
    name, late = halved.names[0], SIZE * 6 + 5
    times = 1_700_000_070.0 + np.arange(len(halved.table))
    times[halved.logs[name].rows[late]] -= 180.0
    halved.measured = lambda of, k: times[halved.logs[of].rows[k]]
    settings = ReplaySettings(interval=60.0, profile=halved.profile, learning=halved.learning)
    halved.expected = Replay(replace(halved.table, times=times), halved.logs, settings).run().result
    clock = ('rounds.clock="event_time"', "rounds.interval=60", 'records.fields.time="measured"')
    federation = federate(halved, *halved.settings(), *clock)
    host = federation.start("a")
    federation.start("coordinator")
    run_in_stages(federation, halved)
    check_as_undisturbed(federation, halved)
    check_served(federation, halved)
    taken = {entry.round: entry.accepted_of(name) for entry in federation.closed()}
    half = SIZE // 2
    assert [accepted.records for accepted in taken.values()] == [half, *[SIZE] * (ROUNDS - 1), half]
    assert any(span.start <= late < span.end for span in taken[7].spans)
    (ended,) = host.said("ended")
    assert (ended["out_of_period"], ended["late"]) == (1, 1)


# --- killed ----------------------------------------------------------------------------------------------------


def waiting_records(federation, halved):
    """Count the records that have been answered by their client, and have no label in the ledger.

    The k-th label is that of the k-th record, so the ledger's position tells which records have theirs.
    """
    passed = dict.fromkeys(halved.names, 0)
    for entry in federation.closed():
        for accepted in entry.accepted:
            for span in accepted.spans:
                passed[accepted.client] = span.end
    return sum(k >= passed[name] for name, k in first_answers(federation))


def check_killed(federation, halved, process, point):
    """Check that a process was killed at a point, while records waited for labels."""
    assert process.was_killed_at(point), federation.last_words()
    assert federation.rounds() == 0 or 1 < federation.round_is_open() < ROUNDS
    assert waiting_records(federation, halved) > 0, f"{process.name} was killed at {point}, and no record waited"


def run_killed(federation, halved, *, exactly_once=False, **victims):
    """Run a host, a coordinator and a scorer; those that are killed at their points start again at once."""
    scored = f"score.topics={json.dumps([topic for topic, _ in halved.places.values()])}"
    once = f"score.exactly_once={json.dumps(exactly_once)}"
    left = {name: list(points) for name, points in victims.items()}

    def start(name):
        dies_at = left[name][0] if left.get(name) else ""
        if name == "s":
            return federation.start(
                name, "--set", scored, "--set", once, role=("score", "--name", name), dies_at=dies_at
            )
        return federation.start(name, dies_at=dies_at)

    start("s")
    host = start("a")
    federation.until("it has all clients", lambda: host.serves() == set(halved.names))
    start("coordinator")

    def restart_the_killed():
        for process in list(federation.running):
            if left.get(process.name) and process.popen.poll() is not None:
                check_killed(federation, halved, process, left[process.name].pop(0))
                federation.running.remove(process)
                start(process.name)

    for until in (*range(4, ROUNDS, 2), ROUNDS):
        halved.write(until)

        def learnt():
            restart_the_killed()
            return federation.rounds() >= halved.complete

        federation.until("the rounds with labels", learnt)

    def all_were_killed():
        restart_the_killed()
        return not any(left.values())

    federation.until(f"kills at {left}", all_were_killed)
    halved.end()


def check_killed_run(federation, halved):
    """Check model, ledger and answers; a killed host has not forgotten what it has answered.

    Return how often the scorer has answered each record, by its topic, partition, offset and row.
    """
    (scorer,) = [process for process in federation.running if process.name == "s"]
    everything = {(*halved.places[name], k, 0) for name in halved.names for k in range(SIZE * ROUNDS)}
    federation.until("the scorer answers all", lambda: by_scorer(federation).keys() >= everything)
    assert scorer.terminate() == 0
    check_as_undisturbed(federation, halved)
    times = Counter((one["client"], one["offset"]) for one in answers(federation) if "client" in one)
    assert max(times.values()) == 1, "a record was answered again after a restart"
    check_served(federation, halved)
    scored = by_scorer(federation)
    assert scored.keys() == everything
    return scored


def check_answered_by_models(federation):
    """Check that in the end the clients answer by models, not with nothing."""
    late = [one for one in first_answers(federation).values() if one["offset"] > SIZE * (ROUNDS - 2)]
    assert all(one["prediction"] is not None for one in late)


def by_scorer(federation):
    told = [one for one in answers(federation) if "client" not in one]
    return Counter((one["topic"], one["partition"], one["offset"], one.get("row", 0)) for one in told)


@pytest.mark.parametrize("exactly_once", [True, full(False)], ids=["exactly once", "at least once"])
def test_scorer_host_and_coordinator_are_killed_and_bytes_are_equal_and_every_record_is_answered(
    exactly_once, broker, federate, halved
):
    federation = federate(halved, *halved.settings())
    run_killed(
        federation,
        halved,
        exactly_once=exactly_once,
        s=["before_committing:2", "records_read:2"],
        a=["client_answers_written:1", "client_answers_written:4"],  # before the first round, and in a later one
        coordinator=["inside_transaction:8"],
    )
    times = check_killed_run(federation, halved).values()
    assert min(times) == 1
    assert (max(times) == 1) == exactly_once  # what was written and not committed is written again
    check_answered_by_models(federation)


@pytest.mark.full
@pytest.mark.parametrize("connector", CONNECTORS)
@pytest.mark.parametrize("point", ["update_sent:12", "after_polling:20"])
def test_a_host_killed_while_records_wait_counts_what_it_has_answered(point, connector, broker, federate, halved):
    federation = federate(halved, *halved.settings(), connector=connector)
    run_killed(federation, halved, a=[point])
    check_killed_run(federation, halved)
    check_answered_by_models(federation)


@pytest.mark.full
def test_a_host_killed_while_it_recovers_and_the_coordinator_after_it_change_nothing_that_is_learnt(
    broker, federate, halved
):
    federation = federate(halved, *halved.settings())
    points = ["client_answers_written:6", "answers_read_back:1", "update_sent:3"]
    run_killed(federation, halved, a=points, coordinator=["inside_transaction:11"])
    check_killed_run(federation, halved)


@pytest.mark.full
@pytest.mark.compiles
def test_models_between_rounds_killed_or_not_are_those_of_a_replay_with_the_same_answers(
    broker, federate, halved, tmp_path
):
    halved.learning = LearningSettings(features="auto")
    federation = federate(halved, *halved.settings(), 'learning.features="auto"')
    run_killed(federation, halved, a=["client_answers_written:6"], coordinator=["inside_transaction:9"])
    check_killed_run(federation, halved)
    file = tmp_path / "answers.jsonl"
    file.write_bytes(b"\n".join(message.value for message in read(federation, "predictions")))
    recorded = AnswersFile.load(file, targets=False).recorded(halved.logs)
    settings = ReplaySettings(round_size=SIZE, profile=halved.profile, learning=halved.learning, label_delay=1)
    replayed = Replay(halved.table, halved.logs, settings, answers=recorded).run().result
    entries = federation.closed()
    served = [entry.served for entry in entries]
    assert replayed.accuracy.prequential == sum(one.correct for one in served) / sum(one.records for one in served)
    assert replayed.accuracy.no_change == sum(one.no_change for one in served) / sum(one.records for one in served)
    assert replayed.model_sha256 == entries[-1].model
    assert [restart.round for restart in replayed.restarts] == [restart[0] for restart in halved.restarts]


@pytest.mark.full
def test_of_two_hosts_the_one_that_is_left_goes_on_with_the_answers_of_the_other(broker, federate, halved):
    federation = federate(halved, *halved.settings())
    hosts = {name: federation.start(name) for name in ("a", "b")}
    federation.until("both have clients", lambda: all(host.serves() for host in hosts.values()))
    federation.start("coordinator")
    for until in (4, 7):
        halved.write(until)
        federation.until("the rounds with labels", lambda: federation.rounds() >= halved.complete)
    before = {at: one for at, one in first_answers(federation).items() if at[0] in hosts["a"].serves()}
    assert before
    hosts["a"].kill()
    federation.running.remove(hosts["a"])
    federation.until("the other has them all", lambda: hosts["b"].serves() == set(halved.names))
    run_in_stages(federation, halved)
    check_as_undisturbed(federation, halved)
    first = check_served(federation, halved)
    assert {at: first[at] for at in before} == before
    assert max(Counter((one["client"], one["offset"]) for one in answers(federation)).values()) == 1


@pytest.mark.full
def test_what_is_no_answer_among_the_answers_is_counted_and_changes_nothing(broker, federate, halved):
    federation = federate(halved, *halved.settings())
    host = federation.start("a")
    federation.start("coordinator")
    halved.write(4)
    federation.until("the rounds with labels", lambda: federation.rounds() >= halved.complete)
    host.kill()
    federation.running.remove(host)
    name, (topic, _) = halved.names[0], halved.places[halved.names[0]]
    told = {"key": None, "round": 1, "epoch": 1, "entry": 0, "topic": topic, "partition": 0, "client": name}
    usual = {**told, "prediction": "oak", "known": None, "offset": 3}  # the second answer to a record
    wrong = ({"prediction": 5.5}, {"prediction": "x" * 300}, {"known": 1.5}, {"row": 1}, {"prediction": [1]})
    elsewhere = ({"offset": 10**9}, {"offset": -1}, {"partition": 1}, {"client": "nobody"}, {"topic": "none"})
    values = [json.dumps(usual | one).encode() for one in ({}, *wrong, *elsewhere)]
    with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for value in (*values, b"{", b"", b"\xff", b"[" * 100_000):
            producer.send(f"{federation.name}.predictions", value, key=b"k", headers=[(JUNK, b"")])
    host = federation.start("a")
    run_in_stages(federation, halved)
    check_as_undisturbed(federation, halved)
    check_served(federation, halved)
    assert host.said("ended")[-1]["foreign"] >= 9
    assert host.said("unusable answer")


# --- labels that come in any way -------------------------------------------------------------------------------


@pytest.mark.full
def test_labels_before_their_records_twice_of_no_record_and_of_a_wrong_type_end_and_stall_nothing(
    broker, federate, halved
):
    federation = federate(halved, *halved.settings(), "rounds.min_records=1")
    host = federation.start("a")
    federation.start("coordinator")
    halved.write(4)
    name = halved.names[0]
    waits = halved.told[name] + 5  # what is no label takes nothing from the right one
    wrong_types = [{"id": f"{name}-{waits}", "label": label} for label in (["oak"], {"name": "oak"}, None)]
    wrong_keys = [{"id": [1], "label": "oak"}, {"id": 1.5, "label": "oak"}, {"label": "oak"}]
    bad = [b"{", b"\xff", *(json.dumps(one).encode() for one in (*wrong_types, *wrong_keys))]
    for value in bad:
        halved.tell_anything(name, value)  # dead letters
    halved.tell(name, f"{name}-{halved.written[name]}", halved.label(name, halved.written[name]))  # early
    halved.tell(name, f"{name}-0", "oak")  # a second one
    halved.tell(name, "nobody", "oak")  # of no record
    halved.flush()
    federation.until("the rounds before it", lambda: federation.rounds() >= halved.complete)
    for until in (7, 10, 13, ROUNDS):
        halved.write(until)
    halved.end()
    federation.until("the end", lambda: all(process.popen.poll() is not None for process in federation.running))
    assert [process.popen.returncode for process in federation.running] == [0, 0], federation.last_words()
    closed = federation.closed()
    counts = Counter()
    for entry in closed:
        for accepted in entry.accepted:
            counts[accepted.client, "records"] += accepted.records
            counts[accepted.client, "rejected"] += accepted.rejected
    everything = SIZE * ROUNDS
    assert counts[name, "records"] == everything  # the early label taught its record, the later one is the second
    assert counts[name, "rejected"] == len(bad) + 3
    assert [counts[other, kind] for other in halved.names[1:] for kind in ("records", "rejected")] == [
        everything,
        0,
    ] * 2
    letters = [dict(message.headers) for message in read(federation, "dead-letter")]
    assert Counter(letter["topic"].decode() for letter in letters) == {halved.of_labels(name): len(bad)}
    (ended,) = host.said("ended")
    assert (ended["accepted"], ended["rejected"], ended["dead_letters"]) == (3 * everything, len(bad) + 3, len(bad))
    assert (ended["waiting"], ended["expired"], ended["unmatched"], ended["repeated"]) == (0, 0, 1, 2)
    complaints = host.said("labels rejected")
    assert [one["clients"] for one in complaints] == [name] * len(complaints) and complaints
    reasons = ("a second label for a record: ", "a label without a record: ")
    assert all(one["last"].startswith(reasons) for one in complaints)


@pytest.mark.full
def test_a_label_after_the_window_is_rejected_and_its_record_written_off(broker, federate, halved):
    federation = federate(halved, *halved.settings(window=SIZE * 3), "rounds.min_records=1")
    host = federation.start("a")
    federation.start("coordinator")
    name, late = halved.names[0], 3
    halved.delay = 10
    kept = halved.tell
    halved.tell = lambda of, key, label: None if (of, key) == (name, f"{name}-{late}") else kept(of, key, label)
    for until in range(2, 13, 2):
        halved.write(until)
        federation.until("rounds", lambda: federation.rounds() >= halved.complete - 1)
    halved.tell = kept
    halved.tell(name, f"{name}-{late}", halved.label(name, late))
    halved.write(ROUNDS)
    halved.end()
    federation.until("the end", lambda: all(process.popen.poll() is not None for process in federation.running))
    records = sum(one.records for entry in federation.closed() for one in entry.accepted if one.client == name)
    rejected = sum(one.rejected for entry in federation.closed() for one in entry.accepted if one.client == name)
    assert (records, rejected) == (SIZE * ROUNDS - 1, 1)
    (ended,) = host.said("ended")
    assert (ended["waiting"], ended["expired"], ended["unmatched"], ended["repeated"]) == (0, 1, 1, 0)
    (complaint,) = host.said("labels rejected")
    assert complaint["last"].startswith("a label without a record: ")
    assert complaint["last"].endswith(f": {name}-{late}")


@pytest.mark.full
def test_the_label_of_a_rejected_record_and_one_whose_record_never_came_hold_up_no_client(broker, federate, halved):
    kinds = 'records.fields.categories={kind=["a"]}'
    federation = federate(halved, *halved.settings(window=1000), "rounds.min_records=1", kinds)
    host = federation.start("a")
    federation.start("coordinator")
    halved.write(4)
    name = halved.names[0]
    wide = json.dumps({"id": "wide", "kind=a": 1}).encode()  # the name of a feature of a category
    halved.waiting.append({"topic": halved.places[name][0], "partition": 0, "value": wide})
    halved.tell(name, "wide", "oak")
    halved.tell(name, "lost", "oak")
    halved.waiting[-1]["timestamp_ms"] = int(1000 * time.time()) - 120_000  # later records come two minutes on
    halved.flush()
    for until in range(7, ROUNDS, 3):
        halved.write(until)  # all records together do not fill the window
        federation.until("the rounds with labels", lambda: federation.rounds() >= halved.complete)
        host.kill()
        federation.running.remove(host)
        host = federation.start("a")
    halved.write(ROUNDS)
    halved.end()
    federation.until("the end", lambda: all(process.popen.poll() is not None for process in federation.running))
    accepted = [one for entry in federation.closed() for one in entry.accepted if one.client == name]
    assert sum(one.records for one in accepted) == SIZE * ROUNDS
    watermarks = [one.watermark for one in accepted if one.watermark is not None]
    assert (sum(one.unusable for one in watermarks), sum(one.unmatched for one in watermarks)) == (1, 1)
