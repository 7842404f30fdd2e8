"""The settings of a live federation: which source counts, what cannot be used, and what is never shown."""

import re
import tomllib
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from streamfl.cli import live as commands
from streamfl.errors import UsageError
from streamfl.learning.algorithms import FedOMD
from streamfl.learning.algorithms.mirror_maps import PNorm
from streamfl.learning.objectives import Cost
from streamfl.learning.profiles.paper.profile import Paper
from streamfl.live.settings import installed
from streamfl.live.settings.addresses import address
from streamfl.live.settings.connectors import connect
from streamfl.live.settings.installed import GROUP
from streamfl.live.settings.kept_settings import is_fixed
from streamfl.live.settings.loading import flag, load, merge
from streamfl.live.settings.settings import FederationSettings
from streamfl.live.settings.tables import RoundSettings, Telemetry
from streamfl.machines.client.budget import Budget
from streamfl.records.formats import Packed
from streamfl.runtime.ports import Placement
from streamfl.wire import messages
from streamfl_connectors.kafka.settings import KafkaSettings

DEPLOYED = Path(__file__).parents[3] / "deploy" / "federation.toml"
SECRET = "sesame-7391"

KAFKA = '[kafka]\nbootstrap_servers = "b:9092"\n'

LEAST = """
[records]
topics = ["r.*"]
[kafka]
bootstrap_servers = "b:9092"
"""


@pytest.fixture
def loaded(tmp_path):
    """Load the settings of a file with these lines."""

    def load_it(text=LEAST, **flags):
        path = tmp_path / "federation.toml"
        path.write_text(text)
        return load(path, flags)

    return load_it


@pytest.fixture
def refused(loaded, tmp_path):
    """Load settings that cannot be used, and return why, without the file's name."""

    def load_it(text=LEAST, **flags):
        with pytest.raises(UsageError) as raised:
            loaded(text, **flags)
        file, _, why = str(raised.value).partition(": ")
        assert file == str(tmp_path / "federation.toml")
        return why

    return load_it


class TestSources:
    def test_a_setting_that_is_not_given_has_its_default(self, loaded):
        settings = loaded()
        assert (settings.federation.name, settings.rounds.clock, settings.rounds.deadline_seconds) == (
            "federation",
            "interval",
            5.0,
        )
        assert settings.placement == Placement(("r.*",))

    def test_flags_come_before_the_environment_and_that_before_the_file(self, loaded, monkeypatch):
        text = LEAST + "[rounds]\nmin_records = 1\nsize = 1\ndeadline = 1\ninterval = 1\nexpire_after = 1\n"
        monkeypatch.setenv("STREAMFL_ROUNDS__SIZE", "2")
        monkeypatch.setenv("STREAMFL_ROUNDS__DEADLINE", "2")
        rounds = loaded(text, rounds={"size": 3, "interval": 3}).rounds
        assert (rounds.size, rounds.deadline, rounds.interval, rounds.expire_after) == (3, 2.0, 3.0, 1)

    def test_paths_of_the_file_begin_at_its_folder_and_those_of_flags_and_the_environment_do_not(
        self, loaded, tmp_path, monkeypatch
    ):
        assert loaded().federation.members_file == tmp_path / "members.toml"
        text = LEAST + '[client]\nkey = "keys/host.key"\n[coordinator]\nkey = "/etc/coordinator.key"'
        monkeypatch.setenv("STREAMFL_ALERTS__SECRET", "alerts.key")
        settings = loaded(text, score={"candidate": "next.model"})
        assert settings.client.key == tmp_path / "keys" / "host.key"
        assert settings.coordinator.key == Path("/etc/coordinator.key")
        assert (settings.alerts.secret, settings.score.candidate) == (Path("alerts.key"), Path("next.model"))

    @pytest.mark.parametrize(
        "named", ['[client]\nkey = "here.toml"', '[federation]\nmembers = "file"\nmembers_file = "here.toml"']
    )
    def test_a_file_where_relative_paths_began_before_is_not_silently_left_behind(
        self, loaded, tmp_path, monkeypatch, named
    ):
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "here.toml").write_text("")
        monkeypatch.chdir(elsewhere)
        with pytest.raises(UsageError, match=r"here\.toml is in the working directory, but a relative path begins"):
            loaded(LEAST + named)

    def test_lists_and_nested_tables_can_come_from_the_environment(self, loaded, monkeypatch):
        monkeypatch.setenv("STREAMFL_RECORDS__TOPICS", '["a", "b"]')
        monkeypatch.setenv("STREAMFL_RECORDS__FIELDS__LABEL", "kind")
        settings = loaded()
        assert (settings.records.topics, settings.records.fields.label) == (("a", "b"), "kind")

    def test_the_brokers_can_come_from_the_environment(self, loaded, monkeypatch):
        monkeypatch.setenv("STREAMFL_KAFKA__BOOTSTRAP_SERVERS", "elsewhere:9092")
        assert loaded().section.bootstrap_servers == "elsewhere:9092"

    def test_a_secret_of_the_environment_gets_to_the_log_and_is_not_shown(self, loaded, monkeypatch):
        monkeypatch.setenv("STREAMFL_KAFKA__SASL_PLAIN_PASSWORD", SECRET)
        settings = loaded()
        assert settings.section.passed_through["sasl_plain_password"] == SECRET
        assert SECRET not in repr(settings) + str(settings) + repr(settings.section)

    def test_other_variables_of_the_environment_are_none_of_ours(self, loaded, monkeypatch):
        monkeypatch.setenv("ROUNDS__SIZE", "2")
        monkeypatch.setenv("STREAMFL_TEST_BOOTSTRAP", "b:9092")
        assert loaded().rounds.size == 100


def test_the_coordinator_alone_needs_the_objective_and_may_be_given_another_one(loaded):
    settings = loaded(LEAST + "[learning]\nobjective = 'cost'\ncosts = { failure = 20 }")
    assert settings.coordinator_machine.objective == Cost({"failure": 20.0})
    assert not is_fixed("learning.objective")
    with pytest.raises(UsageError, match="objective balanced: it needs models that learn record by record"):
        loaded(LEAST + "[learning]\nobjective = 'balanced'\n[profile]\nprofile = 'paper'")


def test_a_budget_of_bytes_is_that_of_updates_as_they_are_encoded(loaded):
    assert loaded().client_machine.budget is None
    assert loaded(LEAST + "[learning]\nbytes = 'auto'").client_machine.budget is None
    assert loaded(LEAST + "[learning]\nbytes = 60").client_machine.budget == Budget(messages.size, of_record=60.0)
    assert loaded(LEAST + "[learning]\nbytes = 'raw'").client_machine.budget == Budget(messages.size, of_value=4)
    # By the clock nobody knows how many records an update is about.
    few = loaded(LEAST + "[learning]\nbytes = 0.5").client_machine.budget
    assert few is not None
    assert few.of(2001, features=8) == 1000.5


def test_a_cap_on_orders_is_taken_away_and_fedomd_has_a_map_of_its_own(loaded):
    settings = loaded(LEAST + "[profile]\nprofile = 'experts'\nmax_order = 'none'\n[learning]\nalgorithm = 'fedomd'")
    assert settings.first_state().profile.settings.max_order is None
    assert settings.learner.algorithm == FedOMD(PNorm())
    assert loaded(LEAST + "[profile]\nmax_order = 3").profile.max_order == 3
    assert (
        loaded(LEAST + "[profile]\nprofile = 'paper'\nmax_order = 'none'").first_state().profile.settings.max_order
        == 20
    )


class TestErrors:
    def test_a_variable_of_a_table_that_there_is_not_is_refused(self, loaded, monkeypatch):
        monkeypatch.setenv("STREAMFL_ROUND__SIZE", "2")
        with pytest.raises(UsageError, match=r"STREAMFL_ROUND__SIZE .*no table \[round\]; did you mean rounds\?"):
            loaded()

    def test_a_variable_of_a_setting_that_there_is_not_is_refused(self, refused, monkeypatch):
        monkeypatch.setenv("STREAMFL_ROUNDS__SIEZ", "2")
        assert refused() == "rounds.siez: there is no such setting; did you mean size?"

    def test_a_file_that_is_not_there_is_named_with_one_to_begin_with(self, tmp_path):
        with pytest.raises(UsageError, match=r"nowhere\.toml: no such file; `streamfl init` writes one"):
            load(tmp_path / "nowhere.toml")

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("[rounds]\nsize = 0", "rounds.size: Input should be greater than or equal to 1"),
            ("[rounds]\nsiez = 5", "rounds.siez: there is no such setting; did you mean size?"),
            ("[round]\nsize = 5", "round: there is no such setting; did you mean rounds?"),
            ("[rounds]\nquorum = 0", "rounds: quorum: give a number from 1 to 1000000000, or all"),
            (
                "[rounds]\nsize = 9",
                "rounds: size is 9 and min_records is 10: a round would never have enough records for an update",
            ),
            ("[federation]\nname = 'a/b'", "federation.name: String should match pattern"),
            ("[federation]\nmin_clients = 0", "federation.min_clients: Input should be greater than or equal to 1"),
            (
                "[client]\nbuffer = 99",
                "client.buffer is 99, but a round has 100 records (rounds.size); make client.buffer at least that",
            ),
        ],
    )
    def test_errors_name_the_table_and_the_setting(self, refused, text, why):
        assert refused(LEAST + text).startswith(why)

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            (
                "[learning]\nalgorithm = 'fedsgd'",
                "no algorithm is called 'fedsgd': use one of fedavg, fedprox, fednova, fedomd",
            ),
            ("[alerts]\nkinds = 5", "alerts.kinds: it must be a list, in square brackets"),
            ("[profile]\nprofile = 'expert'", "no profile is called 'expert': use one of adaptive, paper, experts"),
            ("[learning]\nmirror = 'p-norm'", "mirror: only for fedomd, but the algorithm is fedavg"),
            (
                "[learning]\naverage = 'dual'\nl1 = 0.1",
                "average and l1: only for fedomd, but the algorithm is fedavg",
            ),
            (
                "[profile]\nmax_order = 21",
                "max_order 21: this is not an order; give a whole number from 0 to 20, or none",
            ),
            (
                "[profile]\nmax_order = true",
                "max_order True: this is not an order; give a whole number from 0 to 20, or none",
            ),
            (
                "[learning]\nbytes = 0",
                "bytes 0: this is not a number of bytes per record; give a positive number, raw or auto",
            ),
            (
                "[learning]\nbytes = 80\nfeatures = 'rounds'",
                "bytes 80: what the model of rounds sends cannot be rounded",
            ),
            ("[learning]\nbytes = 80\n[profile]\nprofile = 'paper'", "bytes 80: what the model of rounds sends"),
            (
                "[rounds]\nclock = 'records'\n[learning]\nbytes = 5.5",
                "bytes 5.5: an update of 100 records could then have 550 bytes, but needs at least 570; give 6",
            ),
            (
                "[profile]\nmax_order = 'nine'",
                "max_order nine: this is not an order; give a whole number from 0 to 20, or none",
            ),
        ],
    )
    def test_errors_name_settings_without_effect_and_wrong_orders(self, refused, text, why):
        assert refused(LEAST + text).startswith(why)

    @pytest.mark.parametrize(
        ("records", "why"),
        [
            ("topics = []", "records.topics: Tuple should have at least 1 item"),
            ("topics = ['a*b*']", "records: topics: a name may contain only one *"),
            (
                "topics = ['a*']\nclients = 'partition'",
                'records: topics: a * stands for the client, so it needs clients = "topic"',
            ),
            (
                "topics = ['a']\nclients = 'field'",
                'records: clients = "field" needs format = "json" and the field that names the client',
            ),
            (
                "topics = ['a']\nclients = 'key'",
                'records.clients: "key" is now called "field"; write clients = "field"',
            ),
            (
                "topics = ['a']\nclients = 'message-key'\nfields = { client = 'site' }",
                'records: fields.client: leave it out, because with clients = "message-key" the key is the client',
            ),
            (
                "topics = ['a']\nclients = 'field'\nformat = 'packed'\nfields = { client = 'site' }",
                'records: clients = "field" needs format = "json"',
            ),
            ("topics = ['a']\npartitions = 0", "records.partitions: Input should be greater than or equal to 1"),
            ("topics = ['a']\nschem = 'closed'", "records.schem: there is no such setting; did you mean schema?"),
            (
                "topics = ['a']\nfields = { lable = 'x' }",
                "records.fields.lable: there is no such setting; did you mean label?",
            ),
            (
                "topics = ['a']\nfields = { label = 'x', drop = ['x'] }",
                "records.fields: these fields are named more than once: x",
            ),
            (
                "topics = ['a']\nfields = { task = 'regression' }",
                "records.fields.task: leave it out, because task in [federation] sets it",
            ),
        ],
    )
    def test_errors_name_settings_of_records_that_do_not_fit_together(self, refused, records, why):
        assert refused(f"[records]\n{records}").startswith(why)

    def test_the_topics_of_records_must_be_named(self, refused):
        assert refused("[federation]\nname = 'f'\n") == "records: it is required"

    def test_a_misspelt_table_is_named_before_the_missing_one(self, refused):
        assert refused("[record]\ntopics = ['a']\n") == "record: there is no such setting; did you mean records?"

    @pytest.mark.parametrize("text", ["[records", "[records]\ntopics = ["])
    def test_a_settings_file_that_is_no_toml_is_refused(self, refused, text):
        assert refused(text)

    def test_a_wrong_value_is_not_shown(self, refused, monkeypatch):
        monkeypatch.setenv("STREAMFL_ROUNDS__SIZE", SECRET)
        why = refused()
        assert why.startswith("rounds.size: ")
        assert SECRET not in why

    def test_a_secret_in_a_wrong_place_is_not_shown(self, refused):
        why = refused(LEAST + f"[kafcka]\nsasl_plain_password = '{SECRET}'\n")
        assert why.startswith("kafcka: ")
        assert SECRET not in why

    def test_a_connector_that_is_not_installed_is_named_with_those_that_are(self, loaded):
        with pytest.raises(
            UsageError, match=r"\[federation\] connector: no 'rabbit' is installed; there are confluent, kafka"
        ):
            connect(loaded(LEAST + "[federation]\nconnector = 'rabbit'\n"))


class Pond(BaseModel):
    """Settings of a connector of the tests."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    path: str
    depth: int = 1


class PondConnector:
    """A connector that only tells what it was made of."""

    Settings = Pond

    def __init__(self, federation, settings):
        self.made_of = (federation, settings)


class TestConnectors:
    @pytest.fixture(autouse=True)
    def others(self, monkeypatch):
        """Connectors beside Kafka's: good ones, one that is none, one that is not there, one whose name is taken."""
        here = f"{__name__}:PondConnector"
        values = {
            "my-pond": here,
            "pond": here,
            "rounds": here,
            "odd": f"{__name__}:Pond",
            "gone": "nowhere:Connector",
        }
        found = [EntryPoint(name, value, GROUP) for name, value in values.items()] + list(entry_points(group=GROUP))
        monkeypatch.setattr(installed, "entry_points", lambda group: found if group == GROUP else [])

    def chosen(self, name, section=""):
        return f"[records]\ntopics = ['r.*']\n[federation]\nname = 'f'\nconnector = '{name}'\n{section}"

    @pytest.mark.parametrize("name", ["pond", "my-pond"])
    def test_connectors_are_made_of_the_federations_name_and_the_section_of_their_own_name(self, loaded, name):
        settings = loaded(self.chosen(name, f"[{name}]\npath = 'p'"))
        assert settings.section == Pond(path="p")
        assert connect(settings).made_of == ("f", settings.section)

    def test_connectors_read_their_section_from_flags_the_environment_and_the_file_in_this_order(
        self, loaded, monkeypatch
    ):
        monkeypatch.setenv("STREAMFL_POND__DEPTH", "2")
        monkeypatch.setenv("STREAMFL_POND__PATH", "from the environment")
        settings = loaded(self.chosen("pond", "[pond]\npath = 'p'\n"), **flag("pond.depth=3"))
        assert settings.section == Pond(path="from the environment", depth=3)

    def test_connectors_leave_the_sections_of_others_unread(self, loaded):
        settings = loaded(self.chosen("pond", "[pond]\npath = 'p'\n[kafka]\nbotstrap = 7\n"))
        assert settings.section == Pond(path="p")
        assert "kafka" not in repr(settings)

    @pytest.mark.parametrize(
        ("section", "why"),
        [
            ("", "[pond] path: it is required"),
            ("[pond]\npth = 'p'", "[pond] pth: there is no such setting; did you mean path?"),
            (f"[pond]\npath = 'p'\ndepth = '{SECRET}'", "[pond] depth: Input should be a valid integer"),
            ("[pnd]\npath = 'p'", "pnd: there is no such setting; did you mean pond?"),
            ("pond = 'p'", "federation.pond: there is no such setting"),
            ("[[pond]]\npath = 'p'", "pond: Input should be a valid dictionary"),
        ],
    )
    def test_connectors_refuse_settings_that_they_do_not_know(self, refused, section, why):
        said = refused(self.chosen("pond", section))
        assert said.startswith(why)
        assert SECRET not in said

    def test_wrong_settings_of_kafka_are_refused_with_the_file_the_section_and_the_setting(self, refused):
        assert refused(f"{LEAST}ssl_cafle = 'ca.pem'") == (
            "[kafka] ssl_cafle: kafka-python has no such setting; did you mean ssl_cafile?"
        )

    def test_a_misspelt_section_in_the_environment_is_refused(self, loaded, monkeypatch):
        monkeypatch.setenv("STREAMFL_PONDS__PATH", "p")
        with pytest.raises(UsageError, match=r"STREAMFL_PONDS__PATH .*no table \[ponds\]; did you mean pond\?"):
            loaded()

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            (
                "rabbit",
                "[federation] connector: no 'rabbit' is installed; there are confluent, gone, kafka, my-pond, odd, ",
            ),
            (
                "gone",
                "[federation] connector: 'gone' cannot be imported: No module named 'nowhere'; install it again",
            ),
            ("odd", "[federation] connector: 'odd' has no model `Settings`"),
            ("rounds", "[federation] connector: 'rounds' cannot name a section; register it under another name"),
        ],
    )
    def test_connectors_that_cannot_be_used_are_named_with_the_reason(self, refused, name, why):
        assert refused(self.chosen(name)).startswith(why)


class TestFlags:
    @pytest.mark.parametrize(
        ("text", "setting"),
        [
            ("rounds.size=50", {"rounds": {"size": 50}}),
            ("rounds.deadline=0.5", {"rounds": {"deadline": 0.5}}),
            ("federation.scaling=false", {"federation": {"scaling": False}}),
            ("client.host=plant-7", {"client": {"host": "plant-7"}}),
            ('client.host="7"', {"client": {"host": "7"}}),
            ('records.topics=["a", "b"]', {"records": {"topics": ["a", "b"]}}),
            ("records.fields.label=kind", {"records": {"fields": {"label": "kind"}}}),
            ("kafka.bootstrap_servers=b:9092,c:9092", {"kafka": {"bootstrap_servers": "b:9092,c:9092"}}),
            ("kafka.sasl_plain_password=a=b", {"kafka": {"sasl_plain_password": "a=b"}}),
            (" rounds.size = 5 ", {"rounds": {"size": 5}}),
        ],
    )
    def test_values_of_flags_are_toml_or_text(self, text, setting):
        assert flag(text) == setting

    @pytest.mark.parametrize("text", ["rounds.size", "size=5", "=5", ".size=5", "rounds.=5", ""])
    def test_flags_of_another_form_are_refused_with_an_example(self, text):
        with pytest.raises(UsageError, match=r"write table\.name=value, for example rounds\.size=50"):
            flag(text)

    def test_a_secret_of_another_form_is_not_shown(self):
        with pytest.raises(UsageError, match="--set sasl_plain_password: ") as raised:
            flag(f"sasl_plain_password={SECRET}")
        assert SECRET not in str(raised.value)

    def test_the_value_of_a_flag_cannot_bring_other_settings(self):
        assert flag('client.host=a\nlevel = "b"') == {"client": {"host": 'a\nlevel = "b"'}}

    @given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("cd"), st.integers())))
    def test_the_last_flag_of_a_name_counts_and_no_other_flag_is_lost(self, flags):
        expected = {(table, name): value for table, name, value in flags}
        found = merge([{table: {name: value}} for table, name, value in flags])
        assert {(table, name): value for table, names in found.items() for name, value in names.items()} == expected

    def test_merging_tables_of_settings_leaves_them_as_they_were(self):
        first, second = {"a": {"b": 1}}, {"a": {"c": 2}}
        merge([first, second])
        assert (first, second) == ({"a": {"b": 1}}, {"a": {"c": 2}})


NUMBERS = ["73915", "007", "1e5", "12_3", "0x10", "true", "null", "2026-11-25", "NaN", "7.50", "[1", "{"]


class TestPasswordsThatLookLikeNumbers:
    def told(self, settings):
        return settings.section.passed_through["sasl_plain_password"]

    @pytest.mark.parametrize("password", NUMBERS)
    def test_passwords_of_the_environment_that_look_like_numbers_stay_as_they_are(
        self, loaded, monkeypatch, password
    ):
        monkeypatch.setenv("STREAMFL_KAFKA__SASL_PLAIN_PASSWORD", password)
        assert self.told(loaded(LEAST)) == password

    @pytest.mark.parametrize("password", NUMBERS)
    def test_passwords_in_flags_that_look_like_numbers_stay_as_they_are(self, loaded, password):
        assert self.told(loaded(LEAST, **flag(f"kafka.sasl_plain_password={password}"))) == password

    def test_passwords_in_flags_may_be_quoted(self, loaded):
        assert self.told(loaded(LEAST, **flag('kafka.sasl_plain_password=" 1 "'))) == " 1 "

    def test_passwords_in_the_settings_file_that_look_like_numbers_must_be_quoted(self, loaded, refused):
        assert self.told(loaded(f"{LEAST}sasl_plain_password = '007'")) == "007"
        said = refused(f"{LEAST}sasl_plain_password = 73915")
        assert said.startswith("[kafka] sasl_plain_password: text is needed; put it in quotes")
        assert "73915" not in said

    def test_passwords_in_a_secrets_file_stay_as_they_are(self, loaded, tmp_path):
        (tmp_path / "password").write_text("0073915\n")
        assert self.told(loaded(f"{LEAST}sasl_plain_password_file = '{tmp_path}/password'")) == "0073915"

    def test_settings_that_are_numbers_stay_numbers_in_flags_and_the_environment(self, loaded, monkeypatch):
        monkeypatch.setenv("STREAMFL_KAFKA__REQUEST_TIMEOUT_MS", "1234")
        monkeypatch.setenv("STREAMFL_KAFKA__BOOTSTRAP_SERVERS", '["a:1", "b:2"]')
        kafka = loaded(LEAST, **flag("kafka.part_bytes=5000")).section
        assert (kafka.passed_through["request_timeout_ms"], kafka.part_bytes) == (1234, 5000)
        assert kafka.bootstrap_servers == ["a:1", "b:2"]


class TestMeaning:
    def test_the_coordinator_waits_for_all_and_for_ever_if_set_so(self, loaded):
        settings = loaded(LEAST + "[rounds]\nclock = 'records'\nquorum = 'all'\ndeadline = 0\n").coordinator_machine
        assert (settings.quorum, settings.deadline, settings.interval) == (None, None, None)

    def test_the_coordinator_closes_by_the_clock_if_set_so(self, loaded):
        settings = loaded(LEAST + "[rounds]\nclock = 'interval'\ninterval = 2\nquorum = 3\ndeadline = 1\n")
        machine = settings.coordinator_machine
        assert (machine.quorum, machine.deadline, machine.interval) == (3, 1.0, 2.0)
        assert settings.client_machine.clock == "interval"

    @pytest.mark.parametrize(
        ("rounds", "waits"),
        [
            ({"interval": 60.0}, 30.0),
            ({"interval": 2.0}, 5.0),
            ({"interval": 3600.0}, 60.0),
            ({"interval": 60.0, "deadline": 4.0}, 4.0),
            ({"interval": 60.0, "clock": "records"}, 5.0),
        ],
    )
    def test_who_sets_no_deadline_waits_for_half_of_the_interval_within_bounds(self, loaded, rounds, waits):
        settings = loaded(rounds=rounds)
        assert (settings.coordinator_machine.deadline, settings.client_machine.retry) == (waits, max(5.0, 2 * waits))

    def test_rounds_by_event_time_need_a_time(self, loaded):
        rounds = "[rounds]\nclock = 'event_time'\ninterval = 60\n"
        with pytest.raises(UsageError, match=r"records\.fields\.time"):
            loaded(LEAST + rounds)
        settings = loaded(LEAST + rounds + "[records.fields]\ntime = 'at'\n")
        machine = settings.client_machine
        assert (machine.clock, machine.period, machine.most_pending) == ("event_time", 60.0, 10_000)
        assert settings.coordinator_machine.by_event_time
        assert settings.coordinator_machine.interval is None

    def test_all_machines_learn_the_same_way(self, loaded):
        settings = loaded(LEAST + "[federation]\nseed = 7\n[learning]\nl2 = 0.5\n")
        assert settings.client_machine.learner == settings.coordinator_machine.learner == settings.learner
        assert (settings.learner.seed, settings.learner.l2) == (7, 0.5)

    def test_a_clients_buffer_holds_a_round(self, loaded):
        size = "[rounds]\nclock = 'records'\nsize = 50\n"
        assert loaded(LEAST + size).client_machine.most_pending == 100
        assert loaded(LEAST + size + "[client]\nbuffer = 50\n").client_machine.most_pending == 50

    def test_the_task_is_set_once_for_all_machines(self, loaded):
        settings = loaded(LEAST + "[federation]\ntask = 'regression'\n")
        assert (settings.field_map.task, settings.coordinator_machine.task) == ("regression", "regression")

    def test_placement_and_format_are_what_records_says(self, loaded):
        settings = loaded(
            '[records]\ntopics = ["a"]\nclients = "partition"\npartitions = 3\nformat = "packed"\n'
            'start = "latest"\nlost = "skip"\nlate_after = 5\n' + KAFKA
        )
        assert settings.placement == Placement(("a",), "partition", 3, "latest", "skip", 5.0)
        assert isinstance(settings.record_format, Packed)

    def test_a_first_state_has_the_profile_that_was_chosen(self, loaded):
        state = loaded(LEAST + "[profile]\nprofile = 'paper'\n[federation]\nhorizon = 77\n").first_state()
        assert isinstance(state.profile, Paper)
        assert (state.profile.settings.horizon, state.round) == (77, 1)


def uncommented(lines):
    """Return the settings of a file with those that are commented out: `# name = value`."""
    table = ""
    for line in lines:
        stripped = line.strip()
        if stripped.startswith("["):
            table = stripped.strip("[]")
        name, equals, value = stripped.removeprefix("#").strip().partition(" = ")
        if stripped.startswith("#") and equals and name.replace("_", "").isalnum():
            yield f"{table}.{name}={value.split('  #')[0].strip()}"


SETTING = re.compile(
    r"^(?P<off># )?(?P<name>\w+) = (?P<value>.+?) +# (?P<word>default|required|example)(?P<rest>.*)$"
)


def _said(lines):
    """Yield what each setting of a file says: its place, its value, and whether it is the default, or which is."""
    table = ""
    for line in lines:
        if line.startswith("["):
            table = line.strip("[]")
        if (found := SETTING.match(line)) is None:
            assert line[:1] in {"#", "[", ""}, f"a line that does not say what it does: {line}"
            continue
        place, value = f"{table}.{found['name']}", tomllib.loads(f"x = {found['value']}")["x"]
        if found["word"] != "default":
            assert bool(found["off"]) == (found["word"] == "example"), line
            yield place, value, found["word"], None
        elif found["off"]:
            yield place, value, "states", None
        else:
            yield place, value, "overrides", tomllib.loads(f"x = {found['rest'].split(':')[0]}")["x"]


class TestEqualBytes:
    def test_equal_bytes_are_promised_with_every_client_waited_for_and_no_clock(self, loaded):
        assert loaded(rounds={"clock": "records", "deadline": 0}, federation={"min_clients": 3}).unequal == ()
        assert load(DEPLOYED).unequal == ()

    def test_equal_bytes_are_not_promised_by_default_and_each_reason_is_named(self, loaded):
        assert loaded().unequal == (
            'rounds.clock = "interval"',
            "rounds.deadline = 5.0",
            "federation.min_clients = 1",
        )
        settings = loaded(
            rounds={"clock": "records", "deadline": 0, "quorum": 2},
            records={"start": "latest", "lost": "skip"},
            federation={"min_clients": 3},
        )
        assert settings.unequal == ("rounds.quorum = 2", 'records.start = "latest"', 'records.lost = "skip"')

    @pytest.mark.parametrize(
        ("records", "clients"),
        [
            ({"topics": ["a", "b", "c"]}, 3),
            ({"topics": ["a.*"]}, 2),
            ({"topics": ["a", "b"], "clients": "partition", "partitions": 3}, 6),
            ({"topics": ["a"], "clients": "partition"}, 2),
            ({"topics": ["a"], "clients": "field", "fields": {"client": "site"}}, 2),
        ],
    )
    def test_equal_bytes_are_not_promised_where_a_client_may_join_after_round_1_began(self, loaded, records, clients):
        def unequal(min_clients):
            rounds = {"clock": "records", "deadline": 0}
            return loaded(KAFKA, records=records, rounds=rounds, federation={"min_clients": min_clients}).unequal

        assert unequal(clients - 1) == (f"federation.min_clients = {clients - 1}",)
        assert unequal(clients) == ()

    @pytest.mark.parametrize("features", ["auto", "linear", "ferns", "rounds"])
    def test_equal_bytes_are_promised_with_online_models_that_predict_labels(self, loaded, features):
        def unequal(task):
            tables = {"rounds": {"clock": "records", "deadline": 0}, "learning": {"features": features}}
            return loaded(**tables, federation={"min_clients": 3, "task": task}).unequal

        assert unequal("classification") == ()
        assert unequal("regression") == (
            () if features == "rounds" else (f'learning.features = "{features}", targets',)
        )


class TestFeatures:
    @pytest.mark.parametrize(
        ("tables", "features"),
        [
            ({}, "auto"),
            ({"learning": {"model": "softmax"}}, "rounds"),
            ({"learning": {"algorithm": "fedomd"}}, "rounds"),
            ({"learning": {"l2": 0.1}}, "rounds"),
            ({"learning": {"gamma": 0.5}}, "rounds"),
            ({"learning": {"local_batch": 5}}, "rounds"),
            ({"learning": {"l2": 0.0, "gamma": 1.0, "algorithm": "fedavg", "model": "auto"}}, "auto"),
            ({"learning": {"l2": 0.1, "features": "auto"}}, "auto"),
            ({"profile": {"profile": "paper"}}, "rounds"),
            ({"profile": {"step": 4.0}}, "rounds"),
            ({"profile": {"detector": "glr"}}, "auto"),
            ({"profile": {"profile": "paper"}, "learning": {"features": "linear"}}, "linear"),
        ],
    )
    def test_features_default_to_rounds_only_where_another_setting_says_how_a_step_is_made(
        self, loaded, tables, features
    ):
        online = loaded(**tables).learner.online
        assert (features if online is None else online.settings.features) == features
        assert (online is None) == (features == "rounds")


class TestScore:
    def test_an_address_is_a_port_or_a_host_and_a_port(self, refused, loaded):
        assert loaded(f'{LEAST}[score]\nhttp = "8000"').score.http == "8000"
        for wrong in ("here", "127.0.0.1", "host:99999", ":"):
            assert "is not an address; give PORT or HOST:PORT" in refused(score={"http": wrong})

    @pytest.mark.parametrize(
        ("name", "remedy"),
        [
            ("scorer.example:8000", 'write "scorer.example"'),
            ("https://scorer.example/v2", 'write "scorer.example"'),
            (" scorer.example", 'write "scorer.example"'),
            ("[::1]:8000", "addresses need none"),
            ("", "addresses need none"),
        ],
    )
    def test_a_name_under_which_no_request_could_come_is_refused_wherever_it_is_given(self, refused, name, remedy):
        for table in ("score", "telemetry"):
            told = refused(**{table: {"host_names": ["ok.example", name]}})
            assert "is not a host name; " in told and remedy in told
        for command in (commands.score, commands.page):
            ended = CliRunner().invoke(command, ["--settings", "f.toml", "--host-name", name])
            assert (ended.exit_code, remedy in ended.output) == (2, True)

    def test_topics_of_the_federation_hold_no_records(self, refused):
        told = refused(federation={"name": "f"}, score={"topics": ["f.predictions"]})
        assert "score.topics: f.predictions is one of the federation's own topics; name topics of records" in told
        assert "name each topic" in refused(score={"topics": ["f.*"]})

    def test_the_format_of_a_scorer_reads_no_label_whatever_records_have(self, loaded):
        settings = loaded(
            LEAST.replace('topics = ["r.*"]', 'topics = ["r.*"]\nschema = "closed"')
            + '[records.fields]\nfeatures = ["x"]\nlabels = ["a"]\n'
        )
        found = settings.unlabelled_format.decode([0, 1], [b'{"x":1}', b'{"x":2,"label":"other"}'])
        assert (found.X.tolist(), found.rejected) == ([[1.0], [2.0]], ())


class TestLabels:
    LABELS = '[labels]\ntopic = "labels.*"\n'

    def test_delayed_labels_are_read_from_their_own_topic(self, loaded):
        settings = loaded(LEAST.replace("topics", 'fields = { label = "kind", drop = ["z"] }\ntopics') + self.LABELS)
        asked = settings.record_format.decode([0], [b'{"id":7,"x":1,"kind":"a","z":"far"}'])
        assert (asked.features, asked.X.tolist(), asked.half.keys.tolist()) == (("x",), [[1.0]], ["7"])
        told = settings.delayed_labels.records.decode([0], [b'{"id":7,"x":1,"kind":"a","z":"far"}'])
        assert (told.features, told.labels, told.half.keys.tolist()) == ((), ("a",), ["7"])
        assert settings.delayed_labels.placement == Placement(("labels.*",))
        assert (settings.delayed_labels.window, settings.client_machine.window) == (10_000, 10_000)
        machine = settings.coordinator_machine
        assert (machine.partitions, machine.features) == (("labels.*/0",), ("r.*/0",))

    def test_the_key_of_delayed_labels_is_no_feature_for_a_scorer(self, loaded):
        settings = loaded(LEAST + self.LABELS)
        found = settings.unlabelled_format.decode([0], [b'{"id":"k","x":1}'])
        assert (found.features, found.half, found.rejected) == (("x",), None, ())

    def test_topics_of_delayed_labels_by_partition_have_the_number_of_their_records(self, loaded):
        text = LEAST.replace('"r.*"]', '"r"]\nclients = "partition"') + self.LABELS.replace(".*", "")
        machine = loaded(text).coordinator_machine
        assert (machine.partitions, machine.features) == (("labels/#",), ("*",))

    def test_settings_without_a_topic_of_labels_have_no_delayed_labels(self, loaded):
        settings = loaded()
        assert (settings.delayed_labels, settings.client_machine.window, settings.coordinator_machine.features) == (
            None,
            None,
            (),
        )

    @pytest.mark.parametrize(
        ("records", "labels", "why"),
        [
            (
                'topics = ["r.*"]',
                "window = 500",
                "labels.topic is missing, so labels come with their records; set it",
            ),
            (
                'topics = ["r.*"]',
                'topic = "l.*"\nwindw = 3',
                "labels.windw: there is no such setting; did you mean wi",
            ),
            ('topics = ["r.*"]', 'topic = "l.*"\nwindow = 0', "labels.window: Input should be greater than or equal"),
            (
                'topics = ["r.*"]',
                'topic = "l.*"\nwindow = 20',
                "labels.window is 20, but a round has 100 records (rounds.size); make it",
            ),
            ('topics = ["r.*"]', 'topic = "l.*"\nkey = ""', "labels.key: String should have at least 1 character"),
            ('topics = ["r.*"]', 'topic = "l.*"\nkey = "label"', "labels.key: the field 'label' has another role"),
            (
                'topics = ["r.*"]',
                'topic = "l"',
                "labels.topic: it needs a * exactly if the name in records.topics has",
            ),
            (
                'topics = ["r"]',
                'topic = "l.*"',
                "labels.topic: it needs a * exactly if the name in records.topics has",
            ),
            (
                'topics = ["r.*"]',
                'topic = "r.l.*"',
                "labels.topic: it also fits the names of other topics; choose a name",
            ),
            ('topics = ["r"]', 'topic = "r"', "labels.topic: it also fits the names of other topics; choose a name"),
            (
                'topics = ["r", "s"]',
                'topic = "l"',
                "labels.topic: delayed labels allow only one name in records.topics",
            ),
            (
                'topics = ["r.*"]\nformat = "packed"',
                'topic = "l.*"',
                "labels.topic: delayed labels need [rec",
            ),
            (
                'topics = ["federation.client-records"]\nclients = "message-key"',
                'topic = "l"',
                "records.topics: federation.client-labels and federation.client-records are written by hosts; name",
            ),
            (
                'topics = ["r.*"]\nfields = { key = "id" }',
                'topic = "l.*"',
                "records.fields.key: leave it out, because key in [labe",
            ),
        ],
    )
    def test_settings_of_delayed_labels_that_do_not_fit_are_refused(self, refused, records, labels, why):
        assert refused(f"[records]\n{records}\n[labels]\n{labels}\n{KAFKA}").startswith(why)


class TestDeployed:
    @pytest.fixture(autouse=True)
    def environment(self, monkeypatch):
        """Nothing of whoever runs the tests."""
        for name in ("STREAMFL_KAFKA__BOOTSTRAP_SERVERS", "STREAMFL_FEDERATION__NAME"):
            monkeypatch.delenv(name, raising=False)

    def test_the_deployed_settings_file_says_what_it_seems_to_say(self):
        settings = load(DEPLOYED)
        assert (settings.federation.name, settings.federation.min_clients) == ("forest", 12)
        assert (settings.rounds.clock, settings.rounds.size, settings.rounds.quorum) == ("records", 50, "all")
        assert settings.coordinator_machine.deadline is None
        assert settings.placement.topics == ("forest.records.*",)
        connect(settings)

    def test_the_deployed_settings_file_has_defaults_except_for_what_makes_it_this_federation(self):
        tables = tomllib.loads(DEPLOYED.read_text())
        least = FederationSettings.model_validate({"records": {"topics": ["x"]}}).model_dump()
        other = {
            f"{table}.{name}"
            for table, values in tables.items()
            if table != "kafka"
            for name, value in values.items()
            if name != "fields" and least[table][name] != value
        }
        this = {"federation.name", "federation.min_clients", "records.topics", "score.topics"}
        same_bytes = {"rounds.clock", "rounds.size", "rounds.deadline"}
        assert other == this | same_bytes

    def test_settings_commented_out_in_the_deployed_file_could_be_read(self):
        flags = list(uncommented(DEPLOYED.read_text().splitlines()))
        names = {text.partition("=")[0] for text in flags}
        assert {
            "rounds.expire_after",
            "client.host",
            "score.http",
            "records.fields.client",
            "kafka.replication_factor",
        } <= names
        for text in flags:
            if "_password_file" not in text:  # the file is not on this machine
                connect(load(DEPLOYED, flag(text)))

    def test_each_line_of_the_deployed_file_says_whether_it_states_or_overrides_the_default(self):
        settings = FederationSettings.model_validate({"records": {"topics": ["x"]}})
        least = settings.model_dump(mode="json", by_alias=True)
        least["rounds"]["deadline"] = RoundSettings(clock="records").deadline_seconds  # the clock of this file
        least["kafka"] = KafkaSettings(bootstrap_servers="x").model_dump(mode="json")
        said = list(_said(DEPLOYED.read_text().splitlines()))
        assert {word for _, _, word, _ in said} == {"states", "overrides", "required", "example"}
        for place, value, word, default in said:
            held = least
            for name in place.split("."):
                held = held.get(name) if held is not None else None
            if word == "states":
                assert value == held, f"{place}: the default is {held}, not {value}"
            if word == "overrides":
                assert default == held != value, f"{place}: the default is {held}, not {default}"

    def test_the_deployed_settings_file_has_every_setting(self):
        named = {place for place, *_ in _said(DEPLOYED.read_text().splitlines())}
        for table, kind in FederationSettings.model_fields.items():
            if table in {"federation", "rounds", "records", "labels", "client", "score", "logs"}:
                fields = kind.annotation.model_fields.items()
                names = {f"{table}.{field.alias or name}" for name, field in fields}
                names -= {"records.fields", "records.partitions"}
                assert names <= named


RIVER = "river:preprocessing.StandardScaler|linear_model."


class TestRiverModels:
    def test_a_river_model_in_the_settings_is_federated(self, loaded):
        settings = loaded(f'''{LEAST}[learning]\nmodel = "{RIVER}SoftmaxRegression(optim.SGD(0.1))"''')
        for machine in (settings.client_machine, settings.coordinator_machine):
            assert machine.learner.online.model.name == "StandardScaler | SoftmaxRegression"

    def test_a_river_model_that_cannot_be_federated_is_refused_with_the_reason(self, refused):
        assert "trees grown on" in refused(learning={"model": "river:tree.HoeffdingTreeClassifier"})
        assert "is for regression" in refused(learning={"model": f"{RIVER}LinearRegression"})
        assert "no model is called 'forest'" in refused(learning={"model": "forest"})
        assert "no model is called 7" in refused(learning={"model": 7})

    def test_the_task_decides_whether_a_river_model_predicts_labels_or_targets(self, loaded):
        settings = loaded(federation={"task": "regression"}, learning={"model": f"{RIVER}LinearRegression"})
        assert settings.learner.online.model.task == "regression"


class TestNames:
    CLOSED = LEAST.replace("[kafka]", 'schema = "closed"\n[records.fields]\n{fields}\n[kafka]')

    def test_the_limits_reach_all_that_take_names(self, loaded):
        assert (loaded().limits.features, loaded().limits.labels) == (4096, 1024)
        settings = loaded(federation={"most_features": 2, "most_labels": 1})
        limits = settings.limits
        assert (limits.features, limits.labels) == (2, 1)
        assert settings.coordinator_machine.limits == settings.client_machine.limits == limits
        found = settings.record_format.decode([0, 1], [b'{"label":"a","x":1,"y":2,"z":3}', b'{"label":"b"}'])
        assert (found.features, found.ignored, len(found.rejected)) == (("x", "y"), 1, 1)

    def test_a_logistic_model_has_room_for_two_labels(self, loaded):
        limits = loaded(learning={"model": "logistic"}).limits
        assert (limits.features, limits.labels) == (4096, 2)

    def test_a_closed_schema_takes_what_it_names(self, loaded):
        fields = 'features = ["x"]\nlabels = ["a"]'
        found = loaded(self.CLOSED.format(fields=fields)).record_format.decode(
            [0, 1], [b'{"label":"a","x":1,"y":2}', b'{"label":"b","x":1}']
        )
        assert (found.features, found.ignored, len(found.rejected)) == (("x",), 1, 1)

    def test_a_closed_schema_of_targets_has_no_labels(self, loaded):
        settings = loaded(self.CLOSED.format(fields='features = ["x"]'), federation={"task": "regression"})
        assert settings.field_map.closed

    @pytest.mark.parametrize(
        ("fields", "says"),
        [
            ('features = ["x"]', 'records.schema: "closed" needs a list of all labels'),
            ('labels = ["a"]', 'schema = "closed" needs a list of all features'),
            ('features = ["x"]\nlabels = ["a", "a"]', "labels are declared more than once: a"),
            ('features = ["x"]\nlabels = ["nan"]', 'labels declare "nan", which can never occur'),
            ('features = ["x"]\nlabels = ["a"]\nclosed = true', "fields.closed: leave it out"),
        ],
    )
    def test_a_closed_schema_must_name_all_features_and_labels(self, refused, fields, says):
        assert says in refused(self.CLOSED.format(fields=fields))

    def test_labels_are_declared_of_a_closed_schema_of_objects_only(self, refused):
        assert 'fields.labels lists all labels that may occur, so it needs schema = "closed"' in refused(
            records={"topics": ["r"], "fields": {"labels": ["a"]}}
        )
        packed = {"topics": ["r"], "schema": "closed", "format": "packed"}
        assert "packed messages name their fields themselves" in refused(records=packed)
        regression = {"topics": ["r"], "schema": "closed", "fields": {"features": ["x"], "labels": ["a"]}}
        assert "the task is regression" in refused(records=regression, federation={"task": "regression"})

    def test_more_names_than_there_may_be_are_refused_at_the_start(self, refused):
        fields = {"topics": ["r"], "fields": {"features": ["x", "y"]}}
        assert "names 2 features, but at most 1" in refused(records=fields, federation={"most_features": 1})


@pytest.mark.parametrize("given", [9464, "9464", "127.0.0.1:9464"])
def test_an_address_may_be_a_port_alone_as_the_number_that_it_is(given):
    assert address(Telemetry(address=given).address) == ("127.0.0.1", 9464)


@pytest.mark.parametrize("name", ["part_bytes", "largest_update", "unfinished_bytes"])
def test_bytes_may_be_more_than_a_billion(name):
    for size in (2**30, 2**31 - 1):
        assert getattr(KafkaSettings(bootstrap_servers="127.0.0.1:9092", **{name: size}), name) == size


def numbers_of(kind, place):
    """Yield the numbers among settings, with their schemas."""
    shape = kind.model_json_schema()
    tables = {"": shape, **shape.get("$defs", {})}
    for table, schema in tables.items():
        for name, field in schema.get("properties", {}).items():
            for one in field.get("anyOf", [field]):
                if one.get("type") in {"integer", "number"}:
                    yield f"{place}{table}.{name}", one


@pytest.mark.parametrize("kind", [FederationSettings, KafkaSettings])
def test_every_number_among_the_settings_has_a_range(kind):
    """What is beyond all sense would be found out much later, by an overflow far away."""
    without = {
        place
        for place, one in numbers_of(kind, "")
        if not one.keys() & {"minimum", "exclusiveMinimum"} or not one.keys() & {"maximum", "exclusiveMaximum"}
    }
    assert {place.rpartition(".")[2] for place in without} <= {
        "seed", "quorum", "bytes", "max_order", "l1", "l2", "radius", "step", "noise", "rho_scale",
    }  # fmt: skip
