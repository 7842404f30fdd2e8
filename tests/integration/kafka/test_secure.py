"""TLS, log-ins and rights by role on a real broker: each role does its work to the end, and nothing else."""

import base64
import gc
import json
import os
import re
import subprocess
import sys
import time
import uuid
from contextlib import closing
from datetime import timedelta
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import ClassVar

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider
from secured import Attempts, PlantUsers, Users, topics_of
from structlog.testing import capture_logs

import streamfl.plugins.profiles  # noqa: F401  states name them
from deploy.broker import Broker
from deploy.broker.authority import Authority
from streamfl.errors import UsageError
from streamfl.protocol import registered
from streamfl.protocol.messages import Leave
from streamfl.records.formats import FieldMap, record_format
from streamfl.runtime.ports import Placement, Unlabelled
from streamfl_connectors.confluent.connector import ConfluentConnector
from streamfl_connectors.kafka.access.granted import LogInRights
from streamfl_connectors.kafka.access.rights import HOLDERS, OPTIONAL, ROLES
from streamfl_connectors.kafka.connector import KafkaConnector
from streamfl_connectors.kafka.settings import KafkaSettings
from streamfl_connectors.kafka.tokens import TOKEN_PROVIDERS

COMMAND = str(Path(sys.executable).parent / "streamfl")
JSON = record_format("json", FieldMap())
PATIENCE = 60.0
ASKED = 60

SETTINGS = """
[federation]
name = "{name}"
connector = "{connector}"
min_clients = 2
[rounds]
clock = "records"
size = 25
deadline = 0
[records]
topics = ["{name}.records.*"]
[learning]
features = "rounds"
[client]
retry = 1.0
[score]
topics = ["{name}.asked"]
exactly_once = true
[logs]
form = "json"
level = "debug"
[{connector}]
patience = 20
"""


@pytest.fixture(scope="module")
def secure(tmp_path_factory, libs):
    """A broker that trusts nobody."""
    with Broker.start(tmp_path_factory.mktemp("secure"), libs=libs, secure=True) as broker:
        yield broker


class Processes:
    """The processes of one federation, each with the log-in of its role; all that they say is kept.

    The password of each comes another way.
    """

    WAYS: ClassVar = {"coordinator": "environment", "host": "file", "scorer": "flag"}

    def __init__(self, folder, users, log_in, connector="kafka"):
        self.folder, self.users, self.log_in, self.connector = folder, users, log_in, connector
        self.running = []

    def start(self, role, *words):
        told = dict(self.log_in(role))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("STREAMFL_")}
        password = told.pop("sasl_plain_password", None)
        if password is not None:
            match self.WAYS.get(role):
                case "environment":
                    environment[f"STREAMFL_{self.connector.upper()}__SASL_PLAIN_PASSWORD"] = password
                case "file":
                    told["sasl_plain_password_file"] = f"{self.folder}/secret"
                    (self.folder / "secret").write_text(f"{password}\n")
                case "flag":
                    words = (*words, "--set", f"{self.connector}.sasl_plain_password={password}")
                case _:
                    told["sasl_plain_password"] = password
        settings = self.folder / f"{role}.toml"
        lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in told.items())
        settings.write_text(SETTINGS.format(name=self.users.name, connector=self.connector) + lines)
        with (self.folder / f"{role}.log").open("ab") as file:
            command = [COMMAND, *words, "--settings", settings]
            process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
        self.running.append(process)
        return process

    def said(self):
        return "\n".join(log.read_text() for log in sorted(self.folder.glob("*.log")))

    def ends(self, process):
        assert process.wait(PATIENCE) == 0, self.said()[-3000:]

    def close(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def users(secure):
    return Users.made(secure, f"f{uuid.uuid4().hex[:8]}")


@pytest.fixture(scope="module")
def federation(users, tmp_path_factory):
    """A federation that ran from its first record to its end, with passwords over TLS."""
    processes = Processes(tmp_path_factory.mktemp("federation"), users, users.log_in)
    try:
        coordinator = processes.start("coordinator", "coordinator", "--until-end")
        processes.ends(processes.start("producer", "produce", "covtype", "--clients", "2", "--limit", "200", "--end"))
        host = processes.start("host", "client", "--host", "h", "--until-end")
        ask(users)
        scorer = processes.start("scorer", "score", "--name", "s")
        processes.ends(host)
        processes.ends(coordinator)
        processes.ends(processes.start("watch", "watch", "--from-start", "--rounds", "4"))
        wait_for_answers(processes)
        scorer.terminate()
        processes.ends(scorer)
        yield processes
    finally:
        processes.close()


def ask(users):
    with closing(
        users.connector("producer").writer(Placement((f"{users.name}.asked",), by="message-key"), ["a"])
    ) as writer:
        for _ in range(ASKED):
            writer.write("a", b'{"elevation": 1}')


def wait_for_answers(processes):
    until, users = time.monotonic() + PATIENCE, processes.users
    with users.admin() as admin:
        group = f"{users.name}.scorers"
        while sum(told.offset for told in admin.list_group_offsets(group)[group].values()) < ASKED:
            assert time.monotonic() < until, processes.said()[-3000:]
            time.sleep(0.1)


def said(processes, event, by="*"):
    text = "".join(log.read_text() for log in processes.folder.glob(f"{by}.log"))
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


class TestPasswords:
    def test_each_role_does_its_work_to_the_end(self, federation):
        assert [line["records"] for line in said(federation, "round", "coordinator")] == [50] * 4
        assert {line["accepted"] for line in said(federation, "ended") if "accepted" in line} == {200}
        assert {line["answered"] for line in said(federation, "ended") if "answered" in line} == {ASKED}
        assert (federation.folder / "watch.log").read_text().count("records of 2 clients") == 4

    def test_nobody_lacks_a_right_and_no_secret_is_told(self, federation, users):
        told = federation.said()
        assert "a right is lacking" not in told
        assert "Traceback" not in told
        for role in ROLES:
            assert users.passwords[role] not in told, role

    @pytest.mark.full
    @pytest.mark.parametrize("role", ROLES)
    def test_a_check_finds_each_log_in_fit_for_its_role(self, federation, users, role):
        asked = (
            Unlabelled((f"{users.name}.asked",), exactly_once=True),
            record_format("json", FieldMap(task="unlabelled")),
        )
        findings = users.connector(role).findings(Placement((f"{users.name}.records.*",)), JSON, asked)
        assert [finding for finding in findings if finding.state == "error"] == []
        (own,) = [one for one in findings if one.subject == f"rights of {HOLDERS[role]}"]
        assert own.state == "ok"


@pytest.mark.full
class TestCertificates:
    @pytest.mark.parametrize(
        ("connector", "by"), [("kafka", "certificate"), ("confluent", "certificate"), ("confluent", "password")]
    )
    def test_a_federation_runs_by_certificates_or_passwords_alone(self, connector, by, secure, tmp_path):
        users = Users.made(secure, f"m{uuid.uuid4().hex[:8]}")
        locked = lambda role: {**users.certified(role, password=LOCK), "ssl_password": LOCK}  # noqa: E731
        processes = Processes(tmp_path, users, locked if by == "certificate" else users.log_in, connector)
        try:
            coordinator = processes.start("coordinator", "coordinator", "--until-end")
            host = processes.start("host", "client", "--host", "h", "--until-end")
            self.produce(users)
            processes.ends(host)
            processes.ends(coordinator)
        finally:
            processes.close()
        assert [line["records"] for line in said(processes, "round", "coordinator")] == [50] * 2
        assert LOCK not in processes.said()

    def produce(self, users):
        told = KafkaSettings.model_validate(users.certified("producer"))
        placement = Placement((f"{users.name}.records.*",))
        with closing(KafkaConnector(users.name, told).writer(placement, ["c0", "c1"])) as writer:
            for i in range(100):
                writer.write(f"c{i % 2}", json.dumps({"label": "ab"[i // 2 % 2], "x": i}).encode())
            writer.end()


REPARTITIONED = (
    'records.clients="message-key"',
    'records.topics=["{name}.records.all"]',
    'labels.topic="{name}.results"',
    'labels.key="id"',
    "labels.window=1000",
)


def start_repartitioned(processes, role, *words):
    told = (word.format(name=processes.users.name) for word in REPARTITIONED)
    return processes.start(role, *words, *(flag for word in told for flag in ("--set", word)))


def produce_plant(users):
    """Write records keyed by machine in one topic, and labels keyed by part in another."""
    topics = (f"{users.name}.records.all", f"{users.name}.results")
    with users.admin() as admin:
        admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1} for topic in topics})
    with closing(KafkaProducer(**users.log_in("producer"))) as producer:
        for i in range(200):
            told = {"id": f"P{i}", "x": i}, {"id": f"P{i}", "label": "ab"[i // 2 % 2]}
            for topic, value, key in zip(topics, told, (f"m{i % 2}", f"P{i}"), strict=True):
                producer.send(topic, json.dumps(value).encode(), key=key.encode())
        producer.flush()


@pytest.fixture(scope="module")
def plant(secure, tmp_path_factory):
    """A federation whose hosts repartition, after all its records were learnt."""
    users = PlantUsers.made(secure, f"p{uuid.uuid4().hex[:8]}")
    processes = Processes(tmp_path_factory.mktemp("plant"), users, users.log_in)
    try:
        produce_plant(users)
        start_repartitioned(processes, "coordinator", "coordinator")
        start_repartitioned(processes, "host", "client", "--host", "h")
        until = time.monotonic() + PATIENCE
        while len(said(processes, "round", "coordinator")) < 4:
            assert time.monotonic() < until, processes.said()[-3000:]
            time.sleep(0.1)
        yield processes
    finally:
        processes.close()


@pytest.mark.full
class TestRepartitioning:
    def test_the_documented_rights_suffice(self, plant):
        assert [line["records"] for line in said(plant, "round", "coordinator")] == [50] * 4
        assert "a right is lacking" not in plant.said()
        assert "Traceback" not in plant.said()

    @pytest.mark.parametrize("role", ["coordinator", "host"])
    def test_a_check_finds_each_log_in_fit_for_its_role(self, plant, role):
        plant.ends(start_repartitioned(plant, role, "check"))


class UnsecuredTokens(AbstractTokenProvider):
    """Gives tokens that are not signed, which a broker takes only for trials."""

    def token(self):
        """Return one that is new."""
        now = time.time()
        # The broker rounds to milliseconds, and refuses a token that is issued half of one later than now.
        parts = ({"alg": "none"}, {"sub": "plant-7", "iat": now - 1.0, "exp": now + 600.0})
        return (
            ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."
        )


@pytest.mark.full
def test_a_process_logs_in_with_the_tokens_of_a_registered_provider(tmp_path, libs, monkeypatch):
    package = "org.apache.kafka.common.security.oauthbearer"
    module = f"{package}.OAuthBearerLoginModule required"
    handler = f"{package}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
    config = {
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "listener.name.client.oauthbearer.sasl.jaas.config": f'{module} unsecuredLoginStringClaim_sub="broker";',
        "listener.name.client.oauthbearer.sasl.server.callback.handler.class": handler,
    }
    client = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
    entry = EntryPoint("unsecured", "plant:Tokens", TOKEN_PROVIDERS.group)
    monkeypatch.setattr(registered, "entry_points", lambda **chosen: EntryPoints([entry]).select(**chosen))
    monkeypatch.setattr(EntryPoint, "load", lambda self: UnsecuredTokens)
    provided = client | {"sasl_oauth_token_provider": UnsecuredTokens()}
    with Broker.start(tmp_path, libs=libs, config=config, client=provided) as broker:
        told = {"bootstrap_servers": broker.bootstrap, "sasl_oauth_token_provider": "unsecured", **client}
        connector = KafkaConnector("f", KafkaSettings.model_validate(told))
        connector.prepare()
        placement = Placement(("f.records.*",))
        with closing(connector.writer(placement, ["c0"])) as writer:
            writer.write("c0", b'{"x": 1, "label": "a"}')
        assert connector.sample(["f.records.*"]).partitions == {"f.records.c0": 1}
        for kind in (KafkaConnector, ConfluentConnector):
            reading = kind("f", kind.Settings.model_validate(told))
            host = reading.host(kind.__name__, placement, record_format("json", FieldMap()))
            with closing(host):
                until = time.monotonic() + PATIENCE
                while not (host.poll_clients() and host.poll_clients()["c0"].waiting):
                    assert time.monotonic() < until, f"{kind.__name__} has read nothing"


LOCK = "opens-the-key-4711"


def told(secure, **more):
    """Settings that reach the broker, with little patience."""
    ca = str(secure.security.authority.certificate)
    least = {"bootstrap_servers": secure.bootstrap, "ssl_cafile": ca, "bootstrap_timeout_ms": 700, "patience": 30}
    return least | more


def by_password(users, **more):
    return told(users.broker, **{**users.log_in("watch"), **more})


def by_certificate(users, path, **more):
    secure = users.broker
    return told(
        secure, bootstrap_servers=secure.security.bootstrap, security_protocol="SSL", ssl_certfile=str(path), **more
    )


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
class TestFaults:
    """A log-in that fails is the caller's error at once, in one line: nothing is tried again."""

    @pytest.fixture
    def stranger(self, tmp_path):
        return Authority(tmp_path / "stranger")

    @pytest.fixture(autouse=True)
    def collected(self):
        """kafka-python closes no socket whose handshake failed: here they go, not in a later test."""
        yield
        gc.collect()

    def fault(self, users, most_waits=0, **settings):
        connector = KafkaConnector(users.name, KafkaSettings.model_validate(settings))
        with pytest.raises(UsageError) as raised, capture_logs() as logs:
            connector.prepare()
        assert len([line for line in logs if line["event"] == "waiting"]) <= most_waits
        text = str(raised.value)
        assert "\n" not in text and "; " in text
        return text

    def test_a_wrong_password_is_reported_as_the_callers_error(self, users):
        said = self.fault(users, **by_password(users, sasl_plain_password="0000"))
        assert "refuses the log-in" in said and "correct sasl_*" in said and "0000" not in said

    def test_a_missing_password_is_reported_as_the_callers_error(self, users):
        settings = by_password(users)
        del settings["sasl_plain_password"]
        said = self.fault(users, **settings)
        assert said.startswith("[kafka] sasl_plain_password: SCRAM-SHA-256 needs it, but it is missing or empty; ")

    def test_brokers_that_are_not_trusted_are_reported_as_the_callers_error(self, users, stranger):
        said = self.fault(users, **by_password(users, ssl_cafile=str(stranger.certificate)))
        assert "the brokers' certificate is not trusted" in said and "ssl_cafile" in said

    def test_settings_without_tls_for_brokers_with_tls_are_the_callers_error(self, users):
        # Brokers answer by TLS and hang up; where only the end arrives, it is tried again.
        said = self.fault(users, most_waits=30, **by_password(users, security_protocol="SASL_PLAINTEXT"))
        assert "the brokers speak TLS" in said and "security_protocol to SSL or SASL_SSL" in said

    def test_a_certificate_that_brokers_do_not_trust_is_reported_as_the_callers_error(self, users, stranger):
        said = self.fault(users, **by_certificate(users, stranger.issue(users.user("watch"))))
        assert "the brokers refuse the certificate of this process" in said and "ssl_certfile" in said

    def test_a_certificate_that_has_expired_is_reported_as_the_callers_error(self, users):
        expired = users.broker.security.authority.issue("expired", lasts=timedelta(hours=-1))
        said = self.fault(users, **by_certificate(users, expired))
        assert re.search(
            r"ssl_certfile: the certificate expired on \d{4}-\d\d-\d\d \d\d:\d\d UTC; have it renewed", said
        )

    def test_a_missing_certificate_is_reported_as_the_callers_error(self, users):
        said = self.fault(
            users, **told(users.broker, bootstrap_servers=users.broker.security.bootstrap, security_protocol="SSL")
        )
        assert "the brokers refuse the certificate of this process, or that there is none" in said


SECRET = "sesame7391"


@pytest.mark.full
class TestSecrets:
    """No command tells one, at level debug, however wrong the settings: all run in one process, one after another."""

    RUN = "import json, sys\nfrom streamfl.cli.main import main\nimport os\n" + (
        "for case in json.load(sys.stdin):\n"
        "    os.environ.update(case['environment'])\n"
        "    sys.argv = ['streamfl', *case['words']]\n"
        "    try:\n"
        "        main()\n"
        "        print('code 0', flush=True)\n"
        "    except SystemExit as ended:\n"
        "        print('code', ended.code, flush=True)\n"
        "    for name in case['environment']:\n"
        "        del os.environ[name]\n"
    )

    def cases(self, users, folder):
        """Yield (command, flags, environment, lines of [kafka])."""
        least = by_password(users)
        least["patience"] = 0
        del least["sasl_plain_password"]
        log_in = "".join(f"{name} = {json.dumps(value)}\n" for name, value in least.items())
        flag, variable = f"kafka.sasl_plain_password={SECRET}", {"STREAMFL_KAFKA__SASL_PLAIN_PASSWORD": SECRET}
        for command in ("coordinator", "client", "score", "watch", "check"):
            yield command, ["--set", flag], {}, log_in
        yield "client", [], variable, log_in
        (folder / "secret").write_text(SECRET)
        yield "client", [], {}, f"{log_in}sasl_plain_password_file = '{folder}/secret'\n"
        yield "client", [], {}, f"{log_in}sasl_plain_password_file = '{SECRET}'\n"
        yield "client", [], {}, f"{log_in}sasl_plain_password = '{SECRET}\n"
        yield "client", [], {}, f"{log_in}sasl_plain_pasword = '{SECRET}'\n"
        yield "client", [], {}, f"{log_in}sasl_plain_password = ['{SECRET}']\n"
        yield "client", [], {}, f"{log_in}sasl_plain_password = {{ is = '{SECRET}' }}\n"
        yield "client", ["--set", "kafka.sasl_plain_password", SECRET], {}, log_in
        yield "client", ["--set", f"sasl_plain_password={SECRET}"], {}, log_in
        yield "client", ["--set", flag, "--set", "kafka.patience=soon"], {}, log_in
        yield "client", ["--set", flag, "--set", f"kafka.security_protocol={SECRET}"], {}, log_in
        yield "client", ["--set", flag, "--set", "kafka.ssl_cafile=/no/such/file"], {}, log_in
        yield "client", [], {"STREAMFL_KAFKA": '{"sasl_plain_password": "' + SECRET}, log_in
        yield "client", [], variable | {"STREAMFL_KAFKA__SESSION_TIMEOUT_MS": SECRET}, log_in
        key = users.broker.security.authority.issue("locked", password="another")
        yield (
            "client",
            ["--set", "kafka.security_protocol=SSL", "--set", f"kafka.ssl_certfile={key}"],
            {"STREAMFL_KAFKA__SSL_PASSWORD": SECRET},
            log_in,
        )

    def test_no_command_shows_a_secret_however_wrong_the_settings_are(self, users, tmp_path):
        cases = []
        for i, (command, flags, environment, lines) in enumerate(self.cases(users, tmp_path)):
            settings = tmp_path / f"{i}.toml"
            settings.write_text(
                SETTINGS.format(name=users.name, connector="kafka").replace("patience = 20", "") + lines
            )
            cases.append({"words": [command, "--settings", str(settings), *flags], "environment": environment})
        run = [sys.executable, "-c", self.RUN]
        ran = subprocess.run(
            run, input=json.dumps(cases), capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        said = ran.stdout + ran.stderr
        codes = re.findall(r"^code (\d+)$", ran.stdout, re.MULTILINE)
        assert codes == ["2"] * 4 + ["1"] + ["2"] * (len(cases) - 5), said
        assert "Traceback" not in said
        assert SECRET not in said
        assert "BEGIN" not in said and "password_file: its file cannot be read" in said


@pytest.mark.full
class TestRights:
    """One right after another is taken away, and given back."""

    def begin(self, users, role, need):
        """Begin the work of a role, and end it."""
        connector, placement = users.connector(role), Placement((f"{users.name}.records.*",))
        match role:
            case "coordinator":
                connector.coordinator(placement, JSON).close()
            case "host":
                connector.host("h", placement, JSON).close()
            case "scorer":
                connector.scorer("s", Unlabelled((f"{users.name}.asked",), exactly_once=True), JSON).close()
            case "watch":
                with closing(connector.watcher(last=None, letters=False)) as watcher:
                    watcher.read()
            case "page" if need.right == "DESCRIBE":
                connector.reach(placement, JSON).close()
            case "page":
                with closing(connector.watcher(last=None)) as watcher:
                    while not watcher.read():
                        pass
            case "producer" if "asked" in need.name:
                connector.writer(Placement((f"{users.name}.asked",), by="message-key"), ["a"]).close()
            case "producer":
                connector.writer(placement, ["c0"]).close()
            case "operator":
                with KafkaAdminClient(**users.log_in(role)) as admin:
                    LogInRights(admin, users.federated).require(role)

    @pytest.mark.parametrize("role", ROLES)
    def test_a_role_that_lacks_a_right_names_it(self, federation, users, role):
        for need in users.federated.needs(role):
            if need.right in OPTIONAL:
                continue
            users.take(role, need)
            names = re.escape(str(need)).replace(r"\*", r"\S+")
            if need.vital:
                with pytest.raises(UsageError, match=f"this log-in lacks {names}; grant it, as `streamfl acls"):
                    self.begin(users, role, need)
            else:
                with capture_logs() as logs:
                    self.begin(users, role, need)
                (lacking,) = [line["right"] for line in logs if line["event"] == "a right is lacking"]
                assert re.fullmatch(names, lacking)
            users.grant(role, [need])
        self.begin(users, role, need)

    @pytest.mark.parametrize("role", ["host", "watch"])
    def test_a_process_ends_when_a_right_that_it_needs_is_taken_away(self, federation, users, role):
        connector, placement = users.connector(role), Placement((f"{users.name}.records.*",))
        topic, act, close = f"{users.name}.control", None, None
        match role:
            case "host":
                host, topic = connector.host("h", placement, JSON), f"{users.name}.updates"
                act, close = lambda: host.link("c0").send(Leave(client="c0", nonce="1")), host.close
            case "watch":
                watcher = connector.watcher(last=None, letters=False)
                act, close = watcher.read, watcher.close
        act()
        (need,) = [one for one in users.federated.needs(role) if one.name == topic and one.right in ("READ", "WRITE")]
        users.take(role, need)
        try:
            with pytest.raises(UsageError, match=rf"does not allow it: .*{topic}.*; grant what `streamfl acls`"):
                for _ in range(200):
                    act()
                    time.sleep(0.02)
        finally:
            close()
            users.grant(role, [need])

    def test_topics_that_may_not_be_made_are_waited_for_and_named(self, secure):
        users = Users.made(secure, f"t{uuid.uuid4().hex[:8]}")
        with pytest.raises(UsageError, match=rf"no topic {users.name}\.control, .* this log-in lacks CREATE"):
            users.connector("host", patience=0).prepare()

    @pytest.mark.parametrize("role", ROLES)
    def test_a_role_can_do_nothing_but_what_its_rights_allow(self, federation, users, role):
        name = users.name
        fill(users)
        needs = users.federated.needs(role)

        def has(right, kind, what):
            return any(n.right == right and n.kind == kind and fits(n.name, what) for n in needs)

        with closing(Attempts(users.log_in(role))) as attempts:
            for topic in topics_of(name):
                tried = {"READ": attempts.read, "WRITE": attempts.write, "CREATE": attempts.create}
                let = {right for right, attempt in tried.items() if attempt(topic)}
                assert let == {right for right in tried if has(right, "topic", topic)}, topic
                assert not attempts.delete(topic)
            for group in (f"{name}.coordinator", f"{name}.clients", f"{name}.scorers", f"{name}.other"):
                assert attempts.join(group) == has("READ", "group", group), group
            for transaction in (f"{name}.coordinator", f"{name}.scorers.s", f"{name}.other"):
                assert attempts.transact(transaction) == has("WRITE", "transactional id", transaction), transaction
            assert not attempts.create(f"{name}.other")
            assert not attempts.rule()


def fits(pattern, name):
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".+"), name) is not None


def fill(users):
    """Write a message to each topic: who may read it, gets something."""
    with KafkaProducer(**users.broker.security.admin) as producer:
        for topic in topics_of(users.name):
            producer.send(topic, b"junk", key=b"k", partition=0).get(timeout=10)
