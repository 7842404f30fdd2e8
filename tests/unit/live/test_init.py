"""`streamfl init`: what it takes fields for, and that what it writes can be used, however odd the records are."""

import json
import os
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamfl.cli.main import cli
from streamfl.errors import UsageError
from streamfl.live.operator.init import command
from streamfl.live.settings.loading import load
from streamfl.records.formats import Packed
from streamfl.runtime.ports import TopicSample


@pytest.fixture
def init(tmp_path, monkeypatch):
    """Run `streamfl init` in a folder with these files; return the settings that it wrote."""
    monkeypatch.chdir(tmp_path)

    def run(*words, **files):
        for name, content in files.items():
            (tmp_path / name.replace("_", ".")).write_bytes(content.encode() if isinstance(content, str) else content)
        ran = CliRunner().invoke(cli, ["init", *words], standalone_mode=False)
        if ran.exception is not None:
            raise ran.exception
        run.told = ran.output
        return load(tmp_path / "federation.toml")

    return run


@pytest.fixture
def of_topics(init, monkeypatch):
    """Run it for topics of a log that holds this sample."""

    def run(sample, *words):
        class Connector:
            Settings = command.connector_named("kafka").Settings

            def __init__(self, federation, given):
                run.section = given

            def sample(self, topics):
                return sample

            def sample_ends(self, topics, most):
                return sample[topics[0]]

        monkeypatch.setattr(command, "connector_named", lambda name: Connector)
        return init(*words)

    run.told = lambda: init.told
    return run


@pytest.fixture
def refused(init, tmp_path):
    def run(*words, **files):
        with pytest.raises(UsageError) as raised:
            init(*words, **files)
        assert not (tmp_path / "federation.toml").exists()
        return str(raised.value)

    return run


def test_values_of_a_text_that_come_late_in_a_file_are_declared(init):
    rows = [f"{'night' if i > 8000 else 'early'},{i % 7},{'ab'[i % 2]}" for i in range(9000)]
    settings = init("f.csv", f_csv="\n".join(["shift,x,label", *rows]))
    assert settings.records.fields.categories == {"shift": ("early", "night")}


def csv(header, *rows, times=1):
    return "\n".join([header, *(rows * times)]) + "\n"


ROWS = ("1,red,ok", "2,blue,bad", "2.5,,ok", "4,red,ok")


class TestFile:
    def test_settings_of_a_file_have_a_name_a_label_categories_and_a_round_that_are_reported(self, init):
        made = init("plant.csv", plant_csv=csv("x,colour,state", *ROWS, times=500))
        assert (made.federation.name, made.federation.min_clients, made.federation.task) == (
            "plant",
            10,
            "classification",
        )
        assert made.records.fields.label == "state"
        assert made.records.fields.categories == {"colour": ("blue", "red")}
        assert made.placement.topics == ("plant.records.*",)
        # 2,000 records: 10 clients, rounds of the least size, in which 20 fit.
        assert (made.rounds.clock, made.rounds.size) == ("records", 10)
        assert "of which there are about 20" in Path("federation.toml").read_text()
        assert made.unequal == ()
        assert "label 'state' (2 labels, guessed as the last column)" in init.told
        produce = "streamfl produce plant.csv --settings federation.toml --clients 10 --label state --end"
        assert produce in init.told

    def test_init_does_not_overwrite_a_settings_file(self, init, refused, tmp_path):
        there = tmp_path / "there.toml"
        there.write_text("mine")
        assert "is not overwritten" in refused(
            "plant.csv", "--out", "there.toml", plant_csv=csv("x,y", "1,a", times=99)
        )
        assert there.read_text() == "mine"

    def test_init_leaves_out_columns_that_cannot_be_features_with_the_reason(self, init):
        rows = [f"{i},note {i},{'A7' if i % 3 else 5},{i},1" for i in range(300)]
        made = init("a.csv", "--label", "x", a_csv=csv("id,note,code,x,one", *rows))
        assert made.records.fields.drop == ("id", "note")
        assert made.records.fields.categories == {"code": ("5", "A7")}
        text = Path("federation.toml").read_text()
        assert '"id",  # names the record: another value in each' in text
        assert '"note",  # is text with more than 50 values' in text
        assert "--drop id,note" in init.told
        assert "may be an identifier and not a label: it has 300 distinct values" in init.told

    def test_init_leaves_out_counters_and_takes_codes_for_missing_values_as_replay_does(self, init):
        rows = [f"{i};{-999 if i % 9 == 0 else 20 + i % 7},5;{i % 3},0;{'pq'[i % 2]}" for i in range(300)]
        made = init("a.csv", "--separator", ";", a_csv=csv("No;t;v;y", *rows))
        assert made.records.fields.drop == ("No",)
        assert made.records.missing_values == ("-999.5",)
        assert "t (11.3% of records): -999.5 repeats far outside the other values and counts as missing" in init.told
        assert "--drop No" in init.told

    def test_init_takes_a_column_named_like_a_key_whose_values_repeat_as_a_feature(self, init):
        made = init("a.csv", a_csv=csv("site_id,label", *(f"{i % 50},{i % 2}" for i in range(100))))
        assert made.records.fields.drop == ()
        assert "1 so far: site_id" in Path("federation.toml").read_text()

    def test_the_first_readable_time_is_the_time(self, init):
        rows = [f"23/11/26T,2026-11-25 08:{i % 60:02},2026-11-25,{i % 2}" for i in range(200)]
        made = init("a.csv", a_csv=csv("us,at,day,x,label", *(f"{row},{i % 3}" for i, row in enumerate(rows))))
        assert made.records.fields.time == "at"
        assert made.records.fields.drop == ("day",)

    def test_a_time_that_is_named_and_cannot_be_read_is_told(self, init):
        init("a.csv", "--time", "when", a_csv=csv("when,x,y", "noon,1,a", times=100))
        assert (
            'when: 100 times cannot be read; the reason for the first one: the time "noon" is not a date' in init.told
        )

    def test_init_reads_a_file_as_its_options_say_and_writes_them_for_later(self, init):
        rows = [f"{i % 9 + 1}.3.2026 08:00;1,5;{'größer' if i % 3 else 'kaputt'};{'ab'[i % 2]}" for i in range(100)]
        made = init(
            *("a.csv", "--separator", ";", "--encoding", "cp1252", "--missing-values", "kaputt", "--decimal", ","),
            *("--timezone", "Europe/Berlin", "--date-order", "dmy"),
            a_csv="\n".join(["at;x;size;y", *rows]).encode("cp1252"),
        )
        fields = made.records.fields
        assert dict(fields.categories) == {"size": ("größer",)}
        assert (fields.time, fields.timezone, fields.date_order) == ("at", "Europe/Berlin", "dmy")
        assert (made.records.decimal, made.records.missing_values) == (",", ("kaputt",))
        assert "--separator ';' --encoding cp1252 --end" in init.told

    def test_init_reads_times_in_the_zone_that_it_writes(self, init):
        text = csv("at,x,y", "2026-03-21 08:15 CST,1,a", "2026-03-21 08:16 CST,2,b", times=50)
        made = init("a.csv", "--time", "at", "--timezone", "America/Chicago", a_csv=text)
        assert (made.records.fields.timezone, "cannot be read" in init.told) == ("America/Chicago", False)

    def test_a_day_and_a_time_of_day_are_the_time(self, init):
        rows = [f"{1 + i // 24}.3.2026,{i % 24}:00,{i % 7},{'ab'[i % 2]}" for i in range(480)]
        made = init("a.csv", a_csv=csv("day,clock,x,y", *rows))
        assert (made.records.fields.time, "--time day,clock" in init.told) == ("day,clock", True)
        assert "features from 1 field," in init.told

    def test_a_column_of_clients_makes_each_of_its_values_one(self, init):
        made = init("a.csv", "--client", "site", a_csv=csv("site,x,y", "n,1,a", "s,2,b", ",3,a", times=60))
        assert (made.placement.by, made.records.fields.client) == ("field", "site")
        assert made.federation.min_clients == 3
        assert made.records.fields.categories == {}
        assert "--split column:site" in init.told

    def test_init_takes_a_label_column_with_fractions_as_targets(self, init):
        made = init("a.csv", a_csv=csv("x,price", "1,2.5", "2,3.5", times=100))
        assert made.federation.task == "regression"

    def test_init_follows_the_task_that_is_named(self, init):
        made = init("a.csv", "--task", "regression", a_csv=csv("x,price", "1,2", "2,3", times=100))
        assert made.federation.task == "regression"

    def test_init_names_inner_fields_of_json_lines(self, init):
        lines = [
            {
                "meta": {"id": i, "tags": ["a"]},
                "at": {"ts": 1.7e9 + i},
                "q": {"label": "ab"[i % 2]},
                "p": {"x": i % 9, "y": None},
            }
            for i in range(200)
        ]
        made = init("a.jsonl", a_jsonl="".join(json.dumps(line) + "\n" for line in lines))
        fields = made.records.fields
        assert (fields.label, fields.time, fields.drop) == ("q.label", "at.ts", ("meta.id", "meta.tags"))
        good = made.record_format.decode(range(200), [json.dumps(line).encode() for line in lines])
        assert (len(good.positions), good.features, good.rejected) == (200, ("p.x", "p.y"), ())

    def test_init_takes_y_of_an_archive_as_the_label(self, init, tmp_path):
        np.savez(tmp_path / "a.npz", X=np.ones((300, 2)), y=np.array(["on", "off", "on"] * 100))
        made = init("a.npz")
        assert made.records.fields.label == "y"
        assert "--label" not in init.told

    @pytest.mark.process
    def test_init_reads_dates_and_structures_of_parquet(self, init, tmp_path):
        frame = pl.DataFrame(
            {
                "at": [f"2026-11-{1 + i % 28}" for i in range(200)],
                "s": [{"a": i} for i in range(200)],
                "x": [0.5] * 200,
            }
        )
        frame = frame.with_columns(pl.col("at").str.to_date(), label=pl.Series([i % 2 for i in range(200)]))
        frame.write_parquet(tmp_path / "a.parquet")
        made = init("a.parquet")
        assert (made.records.fields.time, made.records.fields.drop) == ("at", ("s",))

    def test_a_name_that_no_topic_can_have_is_made_one(self, init):
        made = init("Ümlaut daten (1).csv", **{"Ümlaut daten (1)_csv": csv("x,y", "1,a", times=100)})
        assert made.federation.name == "mlaut-daten-1"


class TestRefused:
    @pytest.mark.parametrize(
        ("words", "files", "why"),
        [
            ((), {}, "give either a FILE, or --topic"),
            (("a.csv", "--topic", "t"), {"a_csv": "x,y\n1,2\n"}, "give either a FILE, or --topic"),
            (("a.csv",), {}, "a.csv: no such file; correct the path"),
            (("a.csv",), {"a_csv": ""}, "it is empty"),
            (("a.csv",), {"a_csv": "x,y\n"}, "a.csv: it has no records"),
            (
                ("a.csv",),
                {"a_csv": csv("x,y", "1,a", times=7)},
                "7 records for 1 clients, and a client sends nothing",
            ),
            (("a.csv", "--clients", "50"), {"a_csv": csv("x,y", "1,a", times=99)}, "or fewer --clients"),
            (("a.csv", "--label", "z"), {"a_csv": csv("x,y", "1,a", times=99)}, "correct --label"),
            (("a.csv", "--client", "z"), {"a_csv": csv("x,y", "1,a", times=99)}, "correct --client"),
            (("a.csv", "--drop", "y", "--label", "y"), {"a_csv": csv("x,y", "1,a", times=99)}, "is left out"),
            (("a.csv",), {"a_csv": csv("y", "a", times=99)}, "no field besides the label"),
            (("a.csv",), {"a_csv": csv("x,y", "1,", times=99)}, "no record has a value in the label 'y'"),
            (("a.jsonl",), {"a_jsonl": '{"x":1}\n' * 99}, "no field is named like a label among x; name it"),
            (("a.jsonl",), {"a_jsonl": "[1]\n" * 99}, "none of its first records can be read"),
            (("a.jsonl",), {"a_jsonl": '{"x":1,"label":["b"]}\n' * 99}, "the label 'label' holds lists"),
            (("a.xls",), {"a_xls": "x"}, "unknown format"),
            (("a.csv", "--name", "a b"), {"a_csv": csv("x,y", "1,a", times=99)}, "federation.name: String should"),
            (("a.csv", "--set", "rounds.size=5"), {"a_csv": csv("x,y", "1,a", times=99)}, "only settings of [kafka]"),
            (
                ("a.csv", "--out", "no/f.toml"),
                {"a_csv": csv("x,y", "1,a", times=99)},
                "cannot be written: No such file",
            ),
            (
                ("a.csv", "--client", "x", "--clients", "3"),
                {"a_csv": csv("x,y", "1,a", times=99)},
                "give either --clients",
            ),
        ],
    )
    def test_init_refuses_unusable_arguments_and_files_with_the_reason_and_the_remedy(
        self, refused, words, files, why
    ):
        assert why in refused(*words, **files)

    def test_a_connector_setting_that_there_is_not_leaves_no_file(self, refused):
        told = refused("a.csv", "--set", "kafka.patienc=5", a_csv=csv("x,y", "1,a", times=99))
        assert "did you mean patience?" in told


def messages(*records, since=1.7e9, every=1.0):
    return [(since + i * every, json.dumps(record).encode()) for i, record in enumerate(records)]


SENSOR = [{"quality": {"label": "ab"[i % 2]}, "p": {"x": i / 7}, "ts": 1_700_000_000 + i} for i in range(200)]


class TestTopics:
    def test_topics_named_by_a_star_are_a_client_each(self, of_topics):
        sample = TopicSample({"plant.a": 1, "plant.b": 1}, {"plant.a/0": messages(*SENSOR, every=0.1)})
        made = of_topics(sample, "--topic", "plant.*", "--broker", "b:9092", "--set", "kafka.patience=7")
        assert (made.placement.by, made.federation.min_clients, made.placement.topics) == ("topic", 2, ("plant.*",))
        # plant.control is one of the federation's own topics if that is called plant.
        assert made.federation.name == "plant-federation"
        assert (made.section.bootstrap_servers, made.section.patience) == ("b:9092", 7.0)
        # Ten records a second: a round of ten seconds has a hundred.
        assert (made.rounds.clock, made.rounds.interval) == ("interval", 10.0)
        assert (made.records.fields.label, made.records.fields.time) == ("quality.label", "ts")

    def test_topics_with_partitions_have_a_client_in_each(self, of_topics):
        made = of_topics(TopicSample({"plant": 3}, {"plant/1": messages(*SENSOR)}), "--topic", "plant")
        assert (made.placement.by, made.placement.partitions, made.federation.min_clients) == ("partition", 3, 3)
        assert made.rounds.interval == 120.0
        assert "\n\n\n" not in Path("federation.toml").read_text()

    def test_records_of_a_topic_may_name_their_client_in_a_field(self, of_topics):
        records = [record | {"site": f"s{i % 4}"} for i, record in enumerate(SENSOR)]
        sample = TopicSample({"plant": 2}, {"plant/0": messages(*records)})
        made = of_topics(sample, "--topic", "plant", "--client", "site")
        assert (made.placement.by, made.records.fields.client, made.federation.min_clients) == ("field", "site", 4)
        # Two partitions of a record a second, four clients.
        assert made.rounds.interval == 300.0

    def test_the_decimal_mark_of_messages_is_written_if_they_show_it(self, of_topics):
        records = [record | {"p": {"x": f"{i},5"}} for i, record in enumerate(SENSOR)]
        made = of_topics(TopicSample({"plant": 1}, {"plant/0": messages(*records)}), "--topic", "plant")
        assert made.records.decimal == ","

    def test_numbers_of_messages_that_have_a_unit_are_left_out_with_the_reason(self, of_topics):
        records = [record | {"u": f"{i} mV"} for i, record in enumerate(SENSOR)]
        made = of_topics(TopicSample({"plant": 1}, {"plant/0": messages(*records)}), "--topic", "plant")
        assert made.records.fields.drop == ("u",)
        assert '"u",  # has texts such as "0 mV": write numbers' in Path("federation.toml").read_text()

    @pytest.mark.parametrize("stray", [["x"], "x" * 500, "offline"])
    def test_one_bad_cell_costs_no_field_its_role(self, of_topics, stray):
        times = {"at": lambda i: f"2026-01-01T00:00:{i % 60:02}Z"}
        kinds = {"n": lambda i: i / 7, "hue": lambda i: ("red", "blue")[i % 2], **times}
        records = [{"label": "ab"[i % 2], "x": i % 9, **{k: of(i) for k, of in kinds.items()}} for i in range(100)]
        for name, row in zip(kinds, (10, 20, 30), strict=True):
            records[row][name] = stray
        made = of_topics(TopicSample({"plant": 1}, {"plant/0": messages(*records)}), "--topic", "plant")
        fields = made.records.fields
        assert (fields.drop, fields.time) == ((), "at")
        assert {*fields.categories["hue"]} - {stray if isinstance(stray, str) else ""} == {"red", "blue"}

    def test_codes_and_counters_of_messages_are_told_with_their_share_and_written(self, of_topics):
        records = [
            {"label": "ab"[i % 2], "no": i, "t": 20 + i % 7 if i % 10 else -999, "x": i % 9} for i in range(200)
        ]
        made = of_topics(TopicSample({"plant": 1}, {"plant/0": messages(*records)}), "--topic", "plant")
        assert (made.records.fields.drop, made.records.missing_values) == (("no",), ("-999",))
        assert "t (10.0% of records): -999 repeats far outside the other values and counts" in of_topics.told()

    def test_a_code_that_another_field_measures_is_only_told(self, of_topics):
        records = [
            {"label": "ab"[i % 2], "t": 20 + i % 7 if i % 10 else -999, "x": i % 3000 - 1500 + 501 * (i % 5)}
            for i in range(0, 3000, 15)
        ]
        records[3]["x"] = -999
        made = of_topics(TopicSample({"plant": 1}, {"plant/0": messages(*records)}), "--topic", "plant")
        assert made.records.missing_values == ()
        assert "-999 repeats far outside the other values; if it stands for a missing value, add" in of_topics.told()

    def test_topics_that_were_filled_at_once_do_not_tell_the_rate(self, of_topics):
        made = of_topics(TopicSample({"plant": 1}, {"plant/0": messages(*SENSOR, every=0.0)}), "--topic", "plant")
        assert made.rounds.interval == 10.0
        assert "it is not known how fast" in Path("federation.toml").read_text()

    def test_a_topic_of_packed_messages_gets_settings_with_the_packed_format(self, of_topics):
        packed = Packed("classification").encode(("a", "b"), np.ones((50, 2)), np.zeros(50), ("no", "yes"))
        made = of_topics(TopicSample({"p": 1}, {"p/0": [(1.7e9, packed), (1.7e9 + 5, packed)]}), "--topic", "p")
        assert (made.records.format, made.federation.task) == ("packed", "classification")
        assert made.rounds.interval == 10.0  # a message of 50 records each five seconds

    def test_init_ignores_unreadable_messages_among_others(self, of_topics):
        odd = [(1.7e9, b""), (1.7e9, b"[1]"), (1.7e9, b"\xff"), (1.7e9, b"[" * 100_000)]
        made = of_topics(TopicSample({"p": 1}, {"p/0": odd + messages(*SENSOR)}), "--topic", "p")
        assert made.records.fields.label == "quality.label"

    @pytest.mark.parametrize(
        ("sample", "words", "why"),
        [
            (TopicSample({"p": 1}, {}), ("--topic", "p"), "topic p: no messages yet; start the program that writes"),
            (TopicSample({"p": 1}, {"p/0": [(0.0, b"x")]}), ("--topic", "p"), "none of 1 messages is a JSON object"),
            (TopicSample({"p": 2}, {"p/0": messages(*SENSOR)}), ("--topic", "p*"), "have up to 2 partitions"),
            (
                TopicSample({"p": 2}, {"p/0": messages(*SENSOR)}),
                ("--topic", "p", "--clients", "2"),
                "--clients is only for a FILE",
            ),
        ],
    )
    def test_init_refuses_topics_that_cannot_be_used_with_the_reason(self, of_topics, tmp_path, sample, words, why):
        with pytest.raises(UsageError, match=None) as raised:
            of_topics(sample, *words)
        assert why in str(raised.value)
        assert not (tmp_path / "federation.toml").exists()

    def test_init_leaves_a_file_that_another_process_wrote_meanwhile(self, of_topics, tmp_path):
        class Meanwhile:
            partitions = {"p": 1}  # noqa: RUF012

            @property
            def messages(self):
                (tmp_path / "federation.toml").write_text("theirs")
                return {"p/0": messages(*SENSOR)}

        with pytest.raises(UsageError, match="not overwritten"):
            of_topics(Meanwhile(), "--topic", "p")
        assert (tmp_path / "federation.toml").read_text() == "theirs"

    def test_a_password_is_used_and_not_written(self, of_topics, tmp_path, monkeypatch):
        monkeypatch.setenv("STREAMFL_KAFKA__SASL_PLAIN_USERNAME", "anna")
        words = (
            "--topic",
            "p",
            "--set",
            "kafka.sasl_plain_password=sesame",
            "--set",
            "kafka.security_protocol=SASL_SSL",
        )
        of_topics(TopicSample({"p": 1}, {"p/0": messages(*SENSOR)}), *words)
        assert of_topics.section.passed_through == {
            "sasl_plain_username": "anna",
            "sasl_plain_password": "sesame",
            "security_protocol": "SASL_SSL",
        }
        text = (tmp_path / "federation.toml").read_text()
        assert "sesame" not in text
        assert "SASL_SSL" in text


NAMES = st.text(max_size=8) | st.sampled_from(["label", "id", "ts", "a.b", 'say "x"', "tab\t", "del\x7f", "key = 1"])
CELLS = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=6)
RECORDS = st.dictionaries(
    NAMES, CELLS | st.lists(CELLS, max_size=2) | st.dictionaries(NAMES, CELLS, max_size=2), max_size=5
)


@settings(suppress_health_check=list(HealthCheck))
@given(st.lists(RECORDS, min_size=1, max_size=4))
def test_the_settings_that_init_writes_can_be_read_whatever_records_hold(tmp_path_factory, records):
    folder = tmp_path_factory.mktemp("init")
    lines = [json.dumps({**record, "label": i % 2}) for i, record in enumerate(records)] * 40
    (folder / "a.jsonl").write_text("\n".join(lines))
    out = folder / "f.toml"
    request = command.Request(os.fspath(folder / "a.jsonl"))
    asked = command.InitRequest(request, (), "b:9092", {}, None, None, None, out)
    try:
        command.write(asked)
    except UsageError:
        assert not out.exists()
        return
    made = load(out)
    fields = made.records.fields
    assert {fields.label, *fields.drop, *fields.categories} <= {"label"} | _names(records)


def _names(records):
    return {inner for record in records for inner in command.of_topic.flat(record)}


class TestTwoTopics:
    """Records keyed by machine, and labels keyed by part."""

    def ends(self, records, labels, keys=True):
        def sample(topic, found):
            told = {f"{topic}/{n}": messages(*found[n::2], every=0.1) for n in range(2) if found[n::2]}
            of = {name: [f"m{i % 3}".encode() for i in range(len(one))] for name, one in told.items()}
            return TopicSample({topic: 2}, told, of if keys else {})

        return {
            "plant": (sample("plant", records), sample("plant", [])),
            "qa": (sample("qa", labels), sample("qa", [])),
        }

    def test_labels_of_a_topic_of_their_own_are_joined_by_the_field_that_is_in_both(self, of_topics):
        records = [{"part": f"P{i}", "mode": "ab"[i % 2], "x": i / 7} for i in range(200)]
        labels = [{"part": f"P{i}", "quality": "ok", "by": "cam", "mode": "a"} for i in range(50, 150)]
        labels[3]["quality"] = "scrap"
        told = ("--topic", "plant", "--labels", "qa", "--label", "quality")
        made = of_topics(self.ends(records, labels), *told)
        assert (made.placement.by, made.federation.min_clients) == ("message-key", 3)
        assert (made.labels.topic, made.labels.key, made.records.fields.label) == ("qa", "part", "quality")
        assert set(made.records.fields.categories) == {"mode"}, "what comes with a label is no feature"
        assert made.labels.window == 10_000

    @pytest.mark.parametrize(
        ("label", "words", "keys", "why"),
        [
            ({"part": "Q"}, (), True, "no field has the same ids in records and in qa; a record has part, x and a"),
            ({}, (), True, "it is not clear which field is the label; labels have by, quality; name it with --label"),
            ({}, ("--label", "mode"), True, 'no field of labels is named "mode"'),
            ({}, ("--label", "quality"), False, "messages have no keys, so keys do not name clients; name the field"),
        ],
    )
    def test_what_does_not_fit_is_refused_with_what_is_there(self, label, words, keys, why, of_topics):
        records = [{"part": f"P{i}", "x": i / 7} for i in range(20)]
        labels = [{"part": f"P{i}", "by": "cam", "quality": "ok", **label} for i in range(20)]
        with pytest.raises(UsageError, match=re.escape(why)):
            of_topics(self.ends(records, labels, keys), "--topic", "plant", "--labels", "qa", *words)

    def plant(self, labelled, most=10_000):
        """Return what is looked at of 3,000 records of seven machines, of which the first few have their labels yet.

        Some come late or twice. The numbers of records rise, those of orders do not, and -9999 stands for a missing
        value, rarely. The tool changes after 700 records, which is later than a label comes.
        """
        rng = np.random.default_rng(5)
        sent = []
        for i in range(3000):
            machine, sensors = i % 7, {f"s{j}": round(rng.normal(j, 1), 3) for j in range(12)}
            if i % 600 == 3:
                sensors[f"s{i // 600}"] = -9999
            fields = {"machine": {"id": f"m{machine}", "line": "ABC"[machine % 3], "site": "x"}, "part": f"P{i}"}
            value = fields | {"sensors": sensors, "seq": i, "made": i // 7, "tool": f"T{i // 700}"}
            value["order_id"] = 7919 * i % 3001
            at = i + (float(rng.uniform(5, 30)) if i % 90 == 50 else 0.0)
            sent += [(at, machine, value)] * (1 + (i % 100 == 7))
        sent.sort(key=lambda one: one[0])
        labels = [{"part": f"P{i}", "quality": "ok" if i % 5 else "scrap"} for i in range(labelled)]
        parts = [[one for one in sent if one[1] % 2 == n] for n in range(2)]
        each = most // 2

        def sample(ends):
            values = {f"plant/{n}": [(t, json.dumps(value).encode()) for t, _, value in end] for n, end in ends}
            keys = {f"plant/{n}": [f"m{machine}".encode() for _, machine, _ in end] for n, end in ends}
            return TopicSample({"plant": 2}, values, keys)

        told = TopicSample(
            {"qa": 1}, {"qa/0": [(t + 40.0, json.dumps(one).encode()) for t, one in enumerate(labels)]}
        )
        newest, oldest = ([part[-each:] for part in parts], [part[:-each][:each] for part in parts])
        ends = [sample([(n, end) for n, end in enumerate(some) if end]) for some in (newest, oldest)]
        return {"plant": ends, "qa": (told, TopicSample({"qa": 1}, {}))}

    @pytest.mark.parametrize("most", [10_000, 1_200])
    @pytest.mark.parametrize("labelled", [3, 300])
    def test_what_records_show_alone_is_found_however_few_have_their_labels(self, labelled, most, of_topics):
        told = ("--topic", "plant", "--labels", "qa", "--label", "quality")
        made = of_topics(self.plant(labelled, most), *told)
        fields = made.records.fields
        assert set(fields.drop) == {"seq", "made", "order_id", "machine.id"}
        assert made.records.missing_values == ("-9999",)
        tools = {f"T{n}" for n in range(5)} - ({"T1", "T2"} if most == 1_200 else set())
        assert {*fields.categories["tool"]} >= tools
        assert fields.categories["machine.line"] == ("A", "B", "C")
        text = Path("federation.toml").read_text()
        assert '"machine.id",  # equals the key of the message, which names the client' in text
        assert '"seq",  # has whole numbers that rise' in text
        assert all(f"sensors.s{j}" in text for j in range(12)), "no feature is hidden"
        few = f"only {labelled} labels have come to qa; init infers the task and `window` from labels. When more have"
        assert (few in of_topics.told()) == (labelled == 3)
        assert f"{labelled} of {labelled} labels find their record among" in of_topics.told()

    def test_a_field_that_equals_the_client_is_left_out_with_the_reason(self, of_topics):
        records = [{"part": f"P{i}", "unit": f"u{i % 4}", "name": f"u{i % 4}", "x": i / 7} for i in range(200)]
        labels = [{"part": f"P{i}", "label": "ab"[i % 2]} for i in range(200)]
        made = of_topics(self.ends(records, labels), "--topic", "plant", "--labels", "qa", "--client", "unit")
        assert (made.records.fields.client, made.records.fields.drop) == ("unit", ("name",))
        assert '"name",  # equals the field "unit", which names the client' in Path("federation.toml").read_text()

    def test_labels_that_no_record_has_yet_count_as_seen(self, of_topics):
        records = [{"part": f"P{i}", "x": i / 7} for i in range(200)]
        labels = [{"part": f"P{i + 150}", "label": "a" if i < 50 else "b"} for i in range(100)]
        of_topics(self.ends(records, labels), "--topic", "plant", "--labels", "qa")
        assert "# labels seen: a, b" in Path("federation.toml").read_text()

    def test_a_label_that_records_lack_may_be_in_a_topic_of_its_own(self, of_topics):
        sample = TopicSample({"plant": 1}, {"plant/0": messages(*SENSOR)})
        with pytest.raises(UsageError, match=r"no field 'colour' in records, which .* name that with --labels"):
            of_topics(sample, "--topic", "plant", "--label", "colour")
