"""The [kafka] table: what passes through, what is secret; and what kafka-python's errors mean."""

import logging
from importlib.metadata import EntryPoint, EntryPoints

import pytest
from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.net.sasl.oauth import AbstractTokenProvider

from streamfl.errors import PeerError, UsageError
from streamfl.live.settings.installed import section
from streamfl.protocol import registered
from streamfl_connectors.kafka import causes, connection, tokens
from streamfl_connectors.kafka.connection import Connection, explained
from streamfl_connectors.kafka.settings import KafkaSettings

HERE = {"bootstrap_servers": "b:9092"}
SECRET = "sesame-7391"


def settings(**told):
    return section("kafka", KafkaSettings, HERE | told)


class TestSettings:
    def test_kafka_settings_that_are_not_ours_pass_through_as_they_are(self):
        told = settings(ssl_cafile="ca.pem", request_timeout_ms=1234, part_bytes=5000)
        assert told.passed_through == {"ssl_cafile": "ca.pem", "request_timeout_ms": 1234}
        assert (told.part_bytes, told.replication_factor) == (5000, 1)

    def test_several_brokers_may_be_named(self):
        assert settings(bootstrap_servers=["a:1", "b:2"]).bootstrap_servers == ["a:1", "b:2"]

    def test_texts_of_the_environment_become_numbers_and_truth_values(self):
        told = settings(request_timeout_ms="1000", ssl_check_hostname="false", part_bytes="5000", ssl_cafile="1")
        assert told.passed_through == {"request_timeout_ms": 1000, "ssl_check_hostname": False, "ssl_cafile": "1"}
        assert told.part_bytes == 5000

    @pytest.mark.parametrize(
        ("told", "message"),
        [
            (
                {"ssl_cafle": "ca.pem"},
                "[kafka] ssl_cafle: kafka-python has no such setting; did you mean ssl_cafile?",
            ),
            ({"part_bytes": 0}, "[kafka] part_bytes: Input should be greater than or equal to 1000"),
            ({"request_timeout_ms": "soon"}, "[kafka] request_timeout_ms: a number is needed"),
            ({"ssl_check_hostname": "maybe"}, "[kafka] ssl_check_hostname: true or false is needed"),
            (
                {"security_protocol": "SASL_SLL"},
                "[kafka] security_protocol: set it to one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
            ),
            (
                {"enable_auto_commit": True},
                "[kafka] enable_auto_commit: streamfl sets it itself, because exactly-once training depends on it; "
                "leave it out",
            ),
            (
                {"acks": "all"},
                "[kafka] acks: streamfl sets it itself, because exactly-once training depends on it; leave it out",
            ),
        ],
    )
    def test_a_setting_that_cannot_be_used_is_named_without_its_value(self, told, message):
        with pytest.raises(UsageError) as raised:
            settings(**told)
        assert str(raised.value) == message

    def test_brokers_must_be_named(self):
        with pytest.raises(UsageError, match=r"\[kafka\] bootstrap_servers: it is required"):
            section("kafka", KafkaSettings, {})


class Tokens(AbstractTokenProvider):
    """Gives one token."""

    def token(self):
        """Return it."""
        return "a.b.c"


class TestTokens:
    def told(self, **more):
        return settings(security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", **more)

    def test_the_provider_that_a_package_registers_gives_the_tokens_of_all_connections(self, monkeypatch):
        entry = EntryPoint("plant", f"{__name__}:Tokens", tokens.TOKEN_PROVIDERS.group)
        monkeypatch.setattr(registered, "entry_points", lambda **chosen: EntryPoints([entry]).select(**chosen))
        monkeypatch.setattr(EntryPoint, "load", lambda self: Tokens)
        told = self.told(sasl_oauth_token_provider="plant")
        told.require_log_in()
        (provider,) = told.token_provider.values()
        assert provider.token() == "a.b.c"
        assert told.token_provider["sasl_oauth_token_provider"] is provider

    def test_a_provider_that_nobody_registers_is_the_callers_error(self):
        with pytest.raises(UsageError, match="no token provider is called 'plant': no installed package registers"):
            self.told(sasl_oauth_token_provider="plant").token_provider  # noqa: B018

    @pytest.mark.parametrize(
        ("mechanism", "message"),
        [("OAUTHBEARER", "sasl_oauth_token_provider: OAUTHBEARER needs it"), ("AWS_MSK_IAM", "install it")],
    )
    def test_a_log_in_by_token_that_is_not_complete_is_the_callers_error(self, mechanism, message):
        told = settings(security_protocol="SASL_SSL", sasl_mechanism=mechanism)
        with pytest.raises(UsageError, match=message):
            told.require_log_in()


class TestSecrets:
    @pytest.fixture
    def file(self, tmp_path):
        path = tmp_path / "password"
        path.write_text(f"{SECRET}\n")
        return path

    def test_secrets_may_come_from_a_file(self, file):
        told = settings(sasl_plain_password_file=str(file), ssl_password_file=str(file))
        assert told.passed_through == {"sasl_plain_password": SECRET, "ssl_password": SECRET}

    def test_a_name_that_ends_so_by_itself_is_no_secret(self):
        with pytest.raises(UsageError, match=r"\[kafka\] other_file: kafka-python has no such setting"):
            settings(other_file="f")

    def test_a_file_that_cannot_be_read_is_told_by_its_setting_as_its_name_may_be_the_secret(self):
        with pytest.raises(UsageError) as raised:
            settings(sasl_plain_password_file=SECRET)
        found = "[kafka] sasl_plain_password_file: its file cannot be read: No such file or directory; correct it"
        assert str(raised.value) == found

    def test_a_file_of_bytes_that_are_no_text_is_told_without_them(self, file):
        file.write_bytes(b"\xff" + SECRET.encode())
        with pytest.raises(UsageError, match=r"sasl_plain_password_file: its file is not UTF-8 text") as raised:
            settings(sasl_plain_password_file=str(file))
        assert SECRET not in str(raised.value)

    @pytest.mark.parametrize("number", [73915, 7.5, True, ["a"]])
    def test_secrets_that_are_no_text_are_refused(self, number):
        with pytest.raises(UsageError, match=r"\[kafka\] sasl_plain_password: text is needed; put it in quotes"):
            settings(sasl_plain_password=number)

    @pytest.mark.parametrize("show", [repr, str, "{}".format, "{!r}".format])
    def test_secrets_are_never_shown_in_settings(self, show):
        told = settings(sasl_plain_password=SECRET)
        assert SECRET not in show(told)
        assert "sasl_plain_password" in show(told)

    @pytest.mark.parametrize("wrong", [{"part_bytes": SECRET}, {"patience": SECRET}, {"bootstrap_servers": 7}])
    def test_secrets_are_in_no_error_about_other_settings(self, wrong):
        with pytest.raises(UsageError) as raised:
            settings(**({"sasl_plain_password": SECRET} | wrong))
        assert SECRET not in str(raised.value)
        assert raised.value.__cause__ is None

    def test_a_secret_in_the_wrong_place_is_in_no_error(self):
        with pytest.raises(UsageError) as raised:
            settings(session_timeout_ms=SECRET)
        assert SECRET not in str(raised.value)


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "kind", "told"),
        [
            (kafka_errors.ProducerFencedError(), PeerError, "another coordinator"),
            (kafka_errors.InvalidProducerEpochError(), PeerError, "another coordinator"),
            (kafka_errors.FencedInstanceIdError(), PeerError, "another process of the same name"),
            (kafka_errors.SaslAuthenticationFailedError("no"), UsageError, "refuses the log-in"),
            (kafka_errors.UnsupportedSaslMechanismError("no"), UsageError, "refuses the log-in"),
            (kafka_errors.TopicAuthorizationFailedError("t"), UsageError, "does not allow it"),
            (kafka_errors.GroupAuthorizationFailedError("g"), UsageError, "does not allow it"),
            (kafka_errors.KafkaConnectionError("111 ECONNREFUSED"), PeerError, "no answer from b:9092"),
            (kafka_errors.KafkaTimeoutError("late"), PeerError, "no answer from b:9092"),
            (kafka_errors.KafkaConnectionError("socket disconnected"), PeerError, "b:9092 ends the connection"),
            (kafka_errors.KafkaConnectionError("Handshake failed"), PeerError, "correct security_protocol"),
        ],
    )
    def test_errors_of_kafka_say_whose_fault_it_is_and_what_to_do(self, error, kind, told):
        with pytest.raises(kind) as raised, explained(KafkaSettings(bootstrap_servers="b:9092")):
            raise error
        assert told in str(raised.value)
        assert "; " in str(raised.value)
        assert raised.value.__cause__ is error

    def test_an_error_of_kafka_that_we_do_not_explain_says_that_it_is_kafkas(self):
        with (
            pytest.raises(PeerError, match="b:9092: CorruptRecordError"),
            explained(KafkaSettings(bootstrap_servers="b:9092")),
        ):
            raise kafka_errors.CorruptRecordError

    def test_an_error_that_is_not_kafkas_stays_as_it_is(self):
        with pytest.raises(ZeroDivisionError), explained(KafkaSettings(bootstrap_servers="b:9092")):
            raise ZeroDivisionError


TIME_IS_UP = kafka_errors.KafkaTimeoutError("Unable to bootstrap")


class Made:
    """In place of one of kafka-python's clients: tells its log, and fails or not."""

    DEFAULT_CONFIG = KafkaAdminClient.DEFAULT_CONFIG

    def __init__(self, *told, fails=TIME_IS_UP):
        self.told, self.fails, self.configs = told, fails, []

    def __call__(self, **configs):
        self.configs.append(configs)
        for told in self.told:
            logging.getLogger("kafka.net.manager").error("Bootstrap connection to %s failed: %s", "b-0", told)
        if self.fails:
            raise self.fails
        return self


REFUSED = kafka_errors.SaslAuthenticationFailedError("invalid password")
GONE = kafka_errors.KafkaConnectionError("socket disconnected")
LATE = kafka_errors.RequestTimedOutError("late")


class TestMaking:
    def make(self, monkeypatch, made, **told):
        monkeypatch.setattr(connection, "KafkaAdminClient", made)
        return Connection(settings(**told)).admin()

    @pytest.mark.parametrize(
        ("told", "kind", "message"),
        [
            ([GONE, REFUSED, GONE, LATE], UsageError, "invalid password"),
            ([kafka_errors.KafkaConnectionError("111 ECONNREFUSED"), LATE], PeerError, "ECONNREFUSED"),
            ([FileNotFoundError(2, "No such file", "ca.pem")], UsageError, "No such file"),
            ([TypeError("expected str instance, NoneType found")], UsageError, r"\[kafka\] a setting cannot be used"),
            ([LATE], PeerError, "Unable to bootstrap"),
            ([], PeerError, "Unable to bootstrap"),
        ],
    )
    def test_a_failure_tells_its_cause_and_logs_nothing(self, monkeypatch, caplog, told, kind, message):
        with pytest.raises(kind, match=message):
            self.make(monkeypatch, Made(*told))
        assert caplog.records == []
        assert logging.getLogger("kafka").propagate

    def test_what_was_told_on_the_way_to_success_is_logged(self, monkeypatch, caplog):
        self.make(monkeypatch, Made(GONE, fails=None))
        assert [record.args for record in caplog.records] == [("b-0", GONE)]

    def test_a_setting_that_kafka_python_refuses_at_once_is_the_callers(self, monkeypatch):
        with pytest.raises(UsageError, match=r"\[kafka\] a setting cannot be used: .*no such thing"):
            self.make(monkeypatch, Made(fails=kafka_errors.KafkaConfigurationError("no such thing")))

    def test_every_client_gets_what_it_knows_of_the_settings(self, monkeypatch):
        made = Made(fails=None)
        self.make(monkeypatch, made, ssl_cafile="ca.pem", batch_size=5)
        (configs,) = made.configs
        names = "bootstrap_servers", "bootstrap_timeout_ms", "reconnect_backoff_max_ms", "ssl_cafile"
        assert {name: configs[name] for name in names} == {
            "bootstrap_servers": "b:9092",
            "bootstrap_timeout_ms": connection.BOOTSTRAP_MS,
            "reconnect_backoff_max_ms": connection.RECONNECT_MS,
            "ssl_cafile": "ca.pem",
        }
        assert configs.keys() <= Made.DEFAULT_CONFIG.keys()

    def test_the_log_is_left_as_it_was(self, monkeypatch):
        log = logging.getLogger("kafka")
        before = list(log.handlers)
        with pytest.raises(PeerError):
            self.make(monkeypatch, Made())
        assert log.handlers == before


class TestPatience:
    @pytest.fixture(autouse=True)
    def clock(self, monkeypatch):
        """Time that passes by being slept through."""
        now = [0.0]
        monkeypatch.setattr(connection.time, "monotonic", lambda: now[0])
        monkeypatch.setattr(connection.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
        return now

    def test_a_connection_tries_again_until_there_is_an_answer(self):
        answers = iter([PeerError("not yet"), None, "there"])

        def attempt():
            answer = next(answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

        assert Connection(settings()).patiently("topics", attempt) == "there"

    def test_a_connection_gives_up_after_its_patience_and_says_what_was_missing(self, clock):
        with pytest.raises(UsageError, match=r"^topics: gave up after 7 s: not yet$"):
            Connection(settings(patience=7)).patiently("topics", lambda: (_ for _ in ()).throw(PeerError("not yet")))
        assert 7.0 <= clock[0] <= 7.0 + 5.0

    def test_a_connection_does_not_try_again_after_an_error_of_the_caller(self, clock):
        with pytest.raises(UsageError, match="wrong"):
            Connection(settings()).patiently("topics", lambda: (_ for _ in ()).throw(UsageError("wrong")))
        assert clock[0] == 0.0


def test_a_cause_is_heard_only_while_a_client_is_made():
    with causes.raised():
        pass
    with pytest.raises(kafka_errors.KafkaTimeoutError, match="late"), causes.raised():
        raise kafka_errors.KafkaTimeoutError("late")
