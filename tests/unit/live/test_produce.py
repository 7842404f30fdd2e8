"""A recorded stream, written to where clients read: every record once, in its order, no faster than wanted."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from streamfl.cli.main import cli
from streamfl.errors import UsageError
from streamfl.live.operator import produce as module
from streamfl.live.operator.produce import PACK, Production, produce
from streamfl.live.settings.settings import FederationSettings
from streamfl.live.stopping import Stop
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log, deal


def table(n=10, labels=("a", "b")):
    y = np.arange(n, dtype=np.float64) % 2 if labels else np.arange(n) / 4
    return Table("t.csv", ("x", "z"), np.column_stack([np.arange(n), -np.arange(n)]), y, labels, np.arange(n))


def dealt(source, clients=3):
    return deal(source, clients, "round-robin", 0)


def settings(**tables):
    merged = {"federation": {"name": "f"}, "records": {"topics": ["r.*"]}}
    for name, values in tables.items():
        merged[name] = merged.get(name, {}) | values
    return FederationSettings.model_validate(merged)


class Writer:
    def __init__(self):
        self.written, self.ended, self.closed = [], False, False

    def write(self, client, value):
        assert not self.ended and not self.closed
        self.written.append((client, value))

    def end(self):
        self.ended = True

    def close(self):
        self.closed = True


class Connector:
    def __init__(self):
        self.made, self.clients = Writer(), None

    def writer(self, placement, clients):
        self.clients = clients
        return self.made


def written(production, stop=None, custom=None, progress=lambda n: None):
    """Write, and return the writer and the number of records that it reports."""
    connector = Connector()
    n = produce(custom or settings(), connector, production, stop or Stop(), progress)
    assert connector.clients == list(production.logs)
    return connector.made, n


class TestMessages:
    @given(
        st.dictionaries(st.text("abc", min_size=1, max_size=2), st.integers(0, 9), max_size=5),
        st.integers(1, 4),
        st.one_of(st.none(), st.integers(1, 30)),
    )
    def test_messages_hold_every_record_once_in_order_up_to_the_limit(self, lengths, pack, limit):
        logs = {client: Log(np.arange(n), np.zeros(n)) for client, n in lengths.items()}
        production = Production(table(), logs, limit=limit)
        taken = {client: [] for client in logs}
        for client, part in production.messages(pack):
            assert 0 < part.stop - part.start <= pack
            taken[client] += range(part.start, part.stop)
        for client, rows in taken.items():
            assert rows == list(range(len(rows)))
            if limit is None:
                assert len(rows) == lengths[client]
        n = sum(map(len, taken.values()))
        assert (
            n == production.records == (sum(lengths.values()) if limit is None else min(limit, sum(lengths.values())))
        )

    @given(st.lists(st.integers(0, 9), min_size=2, max_size=5), st.integers(1, 4))
    def test_messages_let_clients_take_turns(self, lengths, pack):
        logs = {f"c{i}": Log(np.arange(n), np.zeros(n)) for i, n in enumerate(lengths)}
        so_far = dict.fromkeys(logs, 0)
        for client, part in Production(table(), logs).messages(pack):
            so_far[client] = part.stop
            for other, n in so_far.items():
                assert n >= min(so_far[client] - pack, len(logs[other].rows))

    @given(st.lists(st.integers(0, 4), max_size=40), st.integers(1, 4))
    def test_messages_are_in_the_order_in_which_their_last_records_came(self, owners, pack):
        logs = {f"c{i}": np.flatnonzero(np.array(owners, np.int64) == i) for i in range(5)}
        logs = {name: Log(rows, np.zeros(len(rows))) for name, rows in logs.items()}
        last = [logs[client].rows[part.stop - 1] for client, part in Production(table(40), logs).messages(pack)]
        assert last == sorted(last)


class TestWriting:
    def test_json_is_one_record_a_message_with_its_label(self):
        source = table(4)
        writer, n = written(Production(source, dealt(source, 2)))
        assert n == 4
        assert [(client, json.loads(value)) for client, value in writer.written] == [
            ("c0", {"label": "a", "x": 0, "z": 0}),
            ("c1", {"label": "b", "x": 1, "z": -1}),
            ("c0", {"label": "a", "x": 2, "z": -2}),
            ("c1", {"label": "b", "x": 3, "z": -3}),
        ]
        assert (writer.ended, writer.closed) == (False, True)

    def test_a_label_that_a_drift_has_changed_is_written_as_it_is_now(self):
        source = table(2)
        logs = {"c0": Log(np.array([0, 1]), np.array([1.0, 1.0]))}
        writer, _ = written(Production(source, logs))
        assert [json.loads(value)["label"] for _, value in writer.written] == ["b", "b"]

    def test_a_producer_writes_targets_as_numbers(self):
        source = table(3, labels=())
        writer, _ = written(Production(source, dealt(source, 1)), custom=settings(federation={"task": "regression"}))
        assert [json.loads(value)["label"] for _, value in writer.written] == [0, 0.25, 0.5]

    def test_a_client_is_named_in_the_record_where_the_settings_say_so(self):
        source = table(2)
        custom = settings(records={"topics": ["r"], "clients": "field", "fields": {"client": "site"}})
        writer, _ = written(Production(source, dealt(source, 2)), custom=custom)
        assert [json.loads(value)["site"] for _, value in writer.written] == ["c0", "c1"]

    @pytest.mark.parametrize(("task", "labels"), [("classification", ("a", "b")), ("regression", ())])
    def test_packed_records_read_back_as_they_were(self, task, labels):
        source = table(2 * PACK + 7, labels)
        custom = settings(federation={"task": task}, records={"format": "packed"})
        writer, n = written(Production(source, dealt(source, 1)), custom=custom)
        assert (n, len(writer.written)) == (len(source), 3)
        values = [value for _, value in writer.written]
        decoded = custom.record_format.decode(range(3), values)
        assert decoded.features == source.features
        assert np.array_equal(decoded.X, source.X)
        y = [decoded.labels[int(i)] for i in decoded.y] if labels else decoded.y
        assert list(y) == ([labels[int(i)] for i in source.y] if labels else list(source.y))

    def test_a_producer_marks_the_end_of_its_records_if_that_is_wanted(self):
        source = table(3)
        writer, _ = written(Production(source, dealt(source, 1), end=True))
        assert (writer.ended, writer.closed) == (True, True)

    def test_no_end_is_marked_when_it_was_stopped_on_the_way(self):
        source, stop = table(9), Stop()
        seen = []

        def progress(n):
            seen.append(n)
            stop.requested = len(seen) == 4

        writer, n = written(Production(source, dealt(source, 1), end=True), stop, progress=progress)
        assert (n, len(writer.written), sum(seen)) == (4, 4, 4)
        assert (writer.ended, writer.closed) == (False, True)

    @pytest.mark.parametrize(
        ("labels", "task", "found"), [(("a", "b"), "regression", "labels"), ((), "classification", "targets")]
    )
    def test_a_file_of_the_other_task_is_refused_before_anything_is_made(self, labels, task, found):
        source, connector = table(3, labels), Connector()
        with pytest.raises(
            UsageError, match=rf"t\.csv has {found}, but task in \[federation\] is {task}; correct it"
        ):
            produce(
                settings(federation={"task": task}),
                connector,
                Production(source, dealt(source)),
                Stop(),
                lambda n: None,
            )
        assert connector.clients is None


class TestRate:
    @pytest.fixture
    def clock(self, monkeypatch):
        """Time that passes by being slept through; a message takes `costs` of it."""

        class Clock:
            now, costs, slept = 100.0, 0.0, 0.0

            def monotonic(self):
                return self.now

            def sleep(self, seconds):
                assert seconds > 0.0
                self.now += seconds
                self.slept += seconds

        clock = Clock()
        monkeypatch.setattr(module, "time", clock)
        return clock

    def produced(self, clock, n, rate, **tables):
        """Return how many records had been written at each moment."""
        source, moments = table(n), []

        def progress(n):
            clock.now += clock.costs
            moments.append((clock.now - 100.0, n))

        written(Production(source, dealt(source, 1), rate), custom=settings(**tables), progress=progress)
        return moments

    def test_a_producer_keeps_the_rate_to_within_a_beat(self, clock):
        written_by = 0
        for moment, n in self.produced(clock, 500, rate=100.0):
            written_by += n
            assert written_by <= 100.0 * (moment + module.BEAT) + 1
        assert clock.now - 100.0 == pytest.approx(5.0, abs=module.BEAT)

    def test_the_rate_of_a_producer_counts_records_and_not_messages(self, clock):
        self.produced(clock, 4 * PACK, rate=PACK, records={"format": "packed"})
        assert clock.now - 100.0 == pytest.approx(4.0)

    def test_a_producer_makes_up_for_lost_time(self, clock):
        clock.costs = 1.0 / 50.0
        self.produced(clock, 100, rate=100.0)
        assert clock.slept == 0.0

    def test_a_producer_without_a_rate_never_waits(self, clock):
        self.produced(clock, 100, rate=None)
        assert clock.slept == 0.0


# --- delayed labels -------------------------------------------------------------------------------------------


class Writers:
    """One writer a placement, which note the order of all that is written."""

    def __init__(self):
        self.made, self.order = {}, []

    def writer(self, placement, clients):
        made = self.made[placement.topics[0]] = Writer()
        note = made.write
        made.write = lambda client, value: (note(client, value), self.order.append((placement.topics[0], client)))
        return made


def test_each_label_is_written_so_many_records_of_its_client_later():
    source = table(7)
    connector = Writers()
    halved = settings(labels={"topic": "l.*"})
    count = produce(
        halved,
        connector,
        Production(source, dealt(source, 2), end=True, label_delay=2, run="7f"),
        Stop(),
        lambda n: None,
    )
    assert count == 7
    features, labels = ([(c, json.loads(v)) for c, v in connector.made[topic].written] for topic in ("r.*", "l.*"))
    assert [(c, v["id"], v["x"]) for c, v in features] == [(f"c{i % 2}", f"7f-{i}", i) for i in range(7)]
    assert all("label" not in v for _, v in features)
    assert [v.keys() for _, v in labels] == [{"id", "label"}] * 7
    assert {(c, v["id"]): v["label"] for c, v in labels} == {(f"c{i % 2}", f"7f-{i}"): "ab"[i % 2] for i in range(7)}
    assert connector.order[:6] == [("r.*", "c0"), ("r.*", "c1")] * 2 + [("r.*", "c0"), ("l.*", "c0")]
    assert all(writer.ended and writer.closed for writer in connector.made.values())


def test_labels_apart_need_a_topic():
    source = table(4)
    with pytest.raises(UsageError, match="set topic there, and leave out --unlabelled"):
        produce(settings(), Writers(), Production(source, dealt(source), label_delay=1), Stop(), lambda n: None)


class TestCommand:
    def test_produce_reads_a_file_as_its_options_say_and_else_as_the_settings_say(self, tmp_path, monkeypatch):
        file, federation, connector = tmp_path / "a.csv", tmp_path / "f.toml", Connector()
        file.write_bytes("größe;x;y\n1;01.03.2026 08:00;on\nkaputt;02.03.2026 08:00;off\n".encode("cp1252"))
        federation.write_text(
            '[federation]\nname = "f"\n[records]\ntopics = ["r.*"]\nmissing_values = ["kaputt"]\n'
            '[records.fields]\ntime = "x"\ntimezone = "Europe/Berlin"\n'
            '[kafka]\nbootstrap_servers = "127.0.0.1:1"\n'
        )
        monkeypatch.setattr("streamfl.live.settings.connectors.connect", lambda settings: connector)
        words = ["produce", str(file), "--settings", str(federation), "--time", "x", "--date-order", "dmy"]
        words += ["--separator", ";", "--encoding", "cp1252", "--clients", "1"]
        CliRunner().invoke(cli, words, standalone_mode=False, catch_exceptions=False)
        messages = [json.loads(value) for _, value in connector.made.written]
        assert [message.get("größe") for message in messages] == [1.0, None]
        assert [message["x"] for message in messages] == [1772348400.0, 1772434800.0]  # 08:00 in Berlin is 07:00 UTC
