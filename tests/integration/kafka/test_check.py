"""`streamfl check` on a real broker: what it finds, what it advises, and that it leaves nothing behind."""

import json
import subprocess
import sys
import time
import uuid
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
)
from kafka.errors import TopicAuthorizationFailedError

from deploy.broker import Broker
from streamfl.errors import UsageError
from streamfl.protocol.messages import Leave, Left
from streamfl.records.formats import FieldMap, JsonRecords, LabelMap, Packed, record_format
from streamfl.runtime.ports import LabelTopics, Placement, RecordAnswer, Unlabelled
from streamfl_connectors.kafka.access.sample import at_both_ends
from streamfl_connectors.kafka.connection import Connection
from streamfl_connectors.kafka.connector import KafkaConnector
from streamfl_connectors.kafka.settings import KafkaSettings
from streamfl_connectors.kafka.writer import END_OF_STREAM

COMMAND = str(Path(sys.executable).parent / "streamfl")
JSON = record_format("json", FieldMap())


@pytest.fixture
def name():
    return f"check-{uuid.uuid4().hex[:8]}"


def found(broker, name, *, topics=None, records=JSON, **placement):
    """All findings."""
    connector = KafkaConnector(
        name, KafkaSettings.model_validate({"bootstrap_servers": broker.bootstrap, "patience": 5})
    )
    return connector.findings(Placement(topics or (f"{name}.records.*",), **placement), records)


def states(findings):
    return [(finding.subject, finding.state) for finding in findings]


def of(findings, subject):
    (one,) = [finding for finding in findings if finding.subject == subject]
    return one


def make(broker, **topics):
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(
            {
                topic: {"num_partitions": n, "replication_factor": 1, "configs": configs}
                for topic, (n, configs) in topics.items()
            },
            wait_for_metadata=True,
        )


def write(broker, topic, *values, partition=0, end=False):
    with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        sent = [producer.send(topic, value, partition=partition, key=b"k") for value in values]
        if end:
            sent.append(producer.send(topic, None, key=b"end", partition=partition, headers=[(END_OF_STREAM, b"")]))
        for one in sent:
            one.get(timeout=10)


def record(i, label="a", **more):
    return json.dumps({"label": label, "x": i, "y": i / 2} | more).encode()


def everything(broker):
    """Names and ends of all topics of ours, and all groups: what a check must not change."""
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
        topics = [name for name in admin.list_topics() if not name.startswith("__")]
        partitions = {
            TopicPartition(topic["name"], part["partition_index"]): -1
            for topic in admin.describe_topics(topics)
            for part in topic["partitions"]
        }
        ends = {partition: told.offset for partition, told in admin.list_partition_offsets(partitions).items()}
        groups = {group["group_id"]: admin.list_group_offsets(group["group_id"]) for group in admin.list_groups()}
        return sorted(topics), ends, groups


OWN = ("control", "models", "updates", "commands", "heartbeats", "state", "dead-letter")
ROLES = [("rights of hosts", "ok"), ("rights of the coordinator", "ok")]


class TestTopics:
    @pytest.mark.full
    def test_a_new_federation_is_told_what_is_still_to_come(self, broker, name):
        findings = found(broker, name)
        assert states(findings) == [
            ("brokers", "ok"),
            ("topics", "ok"),
            (f"{name}.records.*", "warning"),
            *ROLES,
        ]
        assert findings[0].found.startswith(f"{broker.bootstrap} answers: 1 broker, Apache Kafka ")
        says = (
            f"none of the federation's {len(OWN)} topics exist yet; the coordinator creates them at its first start"
        )
        assert findings[1].found == says
        assert "streamfl produce" in findings[2].remedy

    def test_a_healthy_federation_is_all_right_and_stays_as_it_is(self, broker, name):
        connector = KafkaConnector(name, KafkaSettings.model_validate({"bootstrap_servers": broker.bootstrap}))
        connector.prepare()
        link = connector.coordinator(Placement((f"{name}.records.*",)), JSON)
        link.publish(())
        link.close()
        for client in ("c0", "c1"):
            make(broker, **{f"{name}.records.{client}": (1, {})})
            records = [record(i, "ab"[i % 2]) for i in range(300)]
            write(broker, f"{name}.records.{client}", *records, end=True)
        before = everything(broker)
        findings = found(broker, name)
        assert states(findings) == [
            ("brokers", "ok"),
            ("topics", "ok"),
            ("records", "ok"),
            *ROLES,
            (f"{name}.records.c0/0", "ok"),
            (f"{name}.records.c1/0", "ok"),
        ]
        assert findings[2].found == f"2 topics of 2 partitions: {name}.records.c0, {name}.records.c1"
        assert findings[-1].found == "199 records, 2 features, labels a, b"  # the 200th newest message marks the end
        assert everything(broker) == before

    @pytest.mark.full
    def test_a_check_does_not_fence_the_coordinator(self, broker, name):
        connector = KafkaConnector(name, KafkaSettings.model_validate({"bootstrap_servers": broker.bootstrap}))
        connector.prepare()
        link = connector.coordinator(Placement((f"{name}.records.*",)), JSON)
        found(broker, name)
        link.publish(())
        link.close()

    def test_topics_that_are_not_as_they_must_be_are_errors(self, broker, name):
        make(
            broker,
            **{
                f"{name}.models": (1, {"cleanup.policy": "delete"}),
                f"{name}.state": (1, {"cleanup.policy": "compact", "max.message.bytes": "100000"}),
            },
        )
        wrong = {finding.subject: finding for finding in found(broker, name) if finding.state == "error"}
        assert {subject: finding.found for subject, finding in wrong.items()} == {
            f"{name}.models": f"topic {name}.models has cleanup.policy delete, not compact",
            f"{name}.state": f"topic {name}.state takes messages of 100000 bytes, parts have 900000",
        }
        assert all(finding.remedy for finding in wrong.values())

    @pytest.mark.full
    def test_topics_that_could_not_be_made_are_errors(self, broker, name):
        settings = {"bootstrap_servers": broker.bootstrap, "replication_factor": 3}
        finding = of(
            KafkaConnector(name, KafkaSettings.model_validate(settings)).findings(
                Placement((f"{name}.records.*",)), JSON
            ),
            "topics",
        )
        assert finding.state == "error"
        assert "replication_factor is 3, with 1 brokers" in finding.found
        assert finding.remedy == "lower it to 1 or less, or add brokers"

    @pytest.mark.full
    def test_a_record_topic_that_is_named_must_be_there(self, broker, name):
        finding = of(found(broker, name, topics=(f"{name}.one",)), f"{name}.one")
        assert (finding.state, finding.found) == ("error", f"topic {name}.one does not exist")
        assert "correct topics in [records]" in finding.remedy

    @pytest.mark.full
    @pytest.mark.parametrize(
        ("placement", "told"),
        [
            ({}, "has 2 partitions, and one client by topic reads one"),
            ({"by": "partition", "partitions": 4}, "has 2 partitions, but the settings want 4"),
        ],
    )
    def test_a_record_topic_has_as_many_partitions_as_its_clients_need(self, broker, name, placement, told):
        make(broker, **{f"{name}.one": (2, {})})
        finding = of(found(broker, name, topics=(f"{name}.one",), **placement), f"{name}.one")
        assert (finding.state, finding.found) == ("error", f"topic {name}.one {told}")
        assert finding.remedy

    @pytest.mark.full
    def test_a_name_that_takes_in_the_federations_own_topics_is_told_and_they_are_not_read(self, broker, name):
        KafkaConnector(name, KafkaSettings.model_validate({"bootstrap_servers": broker.bootstrap})).prepare()
        make(broker, **{f"{name}.c0": (1, {})})
        write(broker, f"{name}.c0", record(0))
        findings = found(broker, name, topics=(f"{name}.*",))
        assert f"{name}.control" in of(findings, f"{name}.*").found
        assert of(findings, "records").found == f"1 topic of 1 partition: {name}.c0"


class TestSchema:
    def test_bad_records_among_good_ones_are_told_with_reason_and_place(self, broker, name):
        make(broker, **{f"{name}.records.c0": (1, {})})
        bad = [b"not json", record(1, label=None), record(2, label=[1]), b"[]", record(3, label=None)]
        write(broker, f"{name}.records.c0", record(0), *bad, record(6))
        finding = of(found(broker, name), f"{name}.records.c0/0")
        assert finding.state == "warning"
        assert finding.found.startswith("5 of 7 records cannot be used: offset 1: ")
        assert "offset 2: " in finding.found and 'offset 3: field "label": a list' in finding.found
        assert "1 more reasons" in finding.found
        assert finding.found.endswith("the others: 2 records, 2 features, labels a")
        assert f"{name}.dead-letter" in finding.remedy

    @pytest.mark.full
    def test_a_topic_of_bad_records_alone_is_an_error_of_it_alone(self, broker, name):
        make(broker, **{f"{name}.records.{client}": (1, {}) for client in ("c0", "c1")})
        packed = Packed("classification").encode(("x",), np.ones((2, 1)), np.zeros(2), ("a",))
        write(broker, f"{name}.records.c0", packed, b"", packed)
        write(broker, f"{name}.records.c1", record(0))
        findings = found(broker, name)
        assert of(findings, f"{name}.records.c1/0").state == "ok"
        finding = of(findings, f"{name}.records.c0/0")
        assert finding.state == "error"
        assert finding.found.startswith("none of 3 records can be used: offset 0: ")
        assert "[records.fields]" in finding.remedy

    @pytest.mark.full
    def test_the_check_counts_every_record_of_a_packed_message(self, broker, name):
        make(broker, **{f"{name}.records.c0": (1, {})})
        form = Packed("classification")
        X = np.array([[1.0, np.nan], [np.inf, np.nan], [3.0, np.nan]])
        write(broker, f"{name}.records.c0", *[form.encode(("x", "y"), X, np.array([0, 0, 1]), ("a", "b"))] * 2)
        finding = of(found(broker, name, records=form), f"{name}.records.c0/0")
        assert finding.found == (
            '2 of 6 records cannot be used: offset 0, record 1: feature "x" is infinite; '
            "the others: 4 records, 1 features, labels a, b"
        )

    @pytest.mark.full
    def test_targets_and_clients_of_a_shared_topic_are_told(self, broker, name):
        make(broker, **{f"{name}.all": (2, {})})
        form = record_format("json", FieldMap(label="y", client="site", drop=("label",), task="regression"))
        write(broker, f"{name}.all", *(record(i, site=f"s{i % 3}") for i in range(8)), partition=1)
        findings = found(broker, name, topics=(f"{name}.all",), records=form, by="field")
        assert of(findings, f"{name}.all/1").found == "8 records, 1 features, targets from 0 to 3.5, 3 clients"
        empty = next(finding for finding in findings if finding.state == "warning" and finding.subject == "records")
        assert empty.found == f"no record in {name}.all/0"

    def test_both_ends_of_each_partition_are_read_and_no_message_twice(self, broker, name):
        make(broker, **{f"{name}.all": (3, {})})
        for partition, (n, size) in enumerate(((400, 30_000), (60, 1), (150, 1))):
            # The first partition takes several polls, so the others are paused before it is read.
            write(broker, f"{name}.all", *(f"{i:>{size}}".encode() for i in range(n)), partition=partition)
        connection = Connection(KafkaSettings.model_validate({"bootstrap_servers": broker.bootstrap}))
        newest, oldest = at_both_ends(connection, {f"{name}.all": 3}, 300)
        of = [[[int(one.value) for one in messages] for messages in end] for end in (newest, oldest)]
        assert of[0] == [[*range(300, 400)], [*range(60)], [*range(50, 150)]]
        assert of[1] == [[*range(100)], [], [*range(50)]]

    @pytest.mark.full
    @pytest.mark.parametrize(("key", "state", "says"), [("id", "ok", "30 of"), ("x", "error", "0 of")])
    def test_it_says_how_many_labels_find_a_record_in_any_partition(self, broker, name, key, state, says):
        make(broker, **{f"{name}.all": (3, {}), f"{name}.told": (2, {})})
        for n in range(3):
            records = [{"id": i, "site": f"s{i % 4}", "x": 1.5} for i in range(n, 30, 3)]
            write(broker, f"{name}.all", *(json.dumps(one).encode() for one in records), partition=n)
        for n in range(2):
            labels = [{"id": i, "label": "a"} for i in range(n, 30, 2)]
            write(broker, f"{name}.told", *(json.dumps(one).encode() for one in labels), partition=n)
        form = record_format("json", FieldMap(client="site", task="unlabelled", key=key))
        told = LabelTopics(Placement((f"{name}.told",), "field"), JsonRecords(LabelMap(key="id")), 10_000)
        connector = KafkaConnector(name, KafkaSettings.model_validate({"bootstrap_servers": broker.bootstrap}))
        findings = connector.findings(Placement((f"{name}.all",), "field"), form, delayed_labels=told)
        assert of(findings, "clients").found == "4 clients in 30 records: s0, s1, s2, s3"
        finding = [one for one in findings if one.subject == "labels"][-1]
        assert (finding.state, finding.found.startswith(f"{says} 30 labels find their record")) == (state, True)

    @pytest.mark.full
    def test_the_check_reads_the_newest_records_of_at_most_five_partitions(self, broker, name):
        make(broker, **{f"{name}.all": (7, {})})
        write(broker, f"{name}.all", *[b"once"] * 10, *(record(i) for i in range(200)), partition=1)
        for partition in range(2, 7):
            write(broker, f"{name}.all", record(0), partition=partition)
        findings = found(broker, name, topics=(f"{name}.all",), by="partition")
        read = [finding for finding in findings if finding.subject.startswith(f"{name}.all/")]
        assert [finding.subject for finding in read] == [f"{name}.all/{n}" for n in range(1, 6)]
        assert read[0].found == "200 records, 2 features, labels a"


@pytest.mark.full
class TestCommand:
    def run(self, tmp_path, bootstrap, *flags, **kafka):
        path = tmp_path / "federation.toml"
        lines = [f"{key} = {json.dumps(value)}" for key, value in {"patience": 1, **kafka}.items()]
        path.write_text(
            '[federation]\nname = "nobody"\n[records]\ntopics = ["nobody.records.*"]\n[kafka]\n'
            + f'bootstrap_servers = "{bootstrap}"\n'
            + "\n".join(lines)
        )
        return subprocess.run(
            [COMMAND, "check", "--settings", path, *flags], capture_output=True, text=True, timeout=60, check=False
        )

    def test_the_check_ends_with_0_when_nothing_is_wrong(self, broker, tmp_path):
        ran = self.run(tmp_path, broker.bootstrap)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.startswith(f"ok       brokers: {broker.bootstrap} answers")

    def test_an_unreachable_broker_is_one_finding_and_ends_with_1(self, tmp_path):
        ran = self.run(tmp_path, "127.0.0.1:1")
        assert ran.returncode == 1
        line, remedy = ran.stdout.splitlines()
        assert line.startswith("error    brokers: no answer from 127.0.0.1:1 (") and "ECONNREFUSED" in line
        assert remedy == "         -> start it, or correct bootstrap_servers in [kafka]"
        assert ran.stderr == ""

    def test_the_check_ends_with_2_when_settings_cannot_be_used(self, tmp_path):
        ran = self.run(tmp_path, "127.0.0.1:1", ssl_cafle="ca.pem")
        assert ran.returncode == 2
        file, _, why = ran.stderr.removeprefix("streamfl: error: ").partition(": ")
        assert (Path(file).parent, Path(file).suffix) == (tmp_path, ".toml")
        assert why == "[kafka] ssl_cafle: kafka-python has no such setting; did you mean ssl_cafile?\n"

    def test_a_file_of_keys_that_is_not_there_is_the_callers_error(self, broker, tmp_path):
        ran = self.run(tmp_path, broker.bootstrap, security_protocol="SSL", ssl_cafile="/no/such/file")
        assert ran.returncode == 1
        assert "No such file" in ran.stdout and len(ran.stdout.splitlines()) == 2

    def test_tls_to_a_broker_without_it_names_the_setting(self, broker, tmp_path):
        ran = self.run(tmp_path, broker.bootstrap, security_protocol="SSL")
        assert ran.returncode == 1
        assert "security_protocol" in ran.stdout.splitlines()[1]


PASSWORDS = {
    "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.client.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="a" user_admin="a" user_client="c" user_coordinator="k" user_scorer="s";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}

LOG_INS = {"admin": "a", "client": "c", "coordinator": "k", "scorer": "s"}
SECRET = "not the pass word"


def log_in(user, password=None):
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": password or LOG_INS[user],
    }


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, libs):
    """A broker that asks for passwords and rights."""
    folder = tmp_path_factory.mktemp("guarded")
    with Broker.start(folder, libs=libs, config=PASSWORDS, client=log_in("admin")) as broker:
        yield broker


def grant(broker, user, *rights):
    """Give a user rights: (operation, kind, name); wait until all have arrived."""
    acls = [
        ACL(
            f"User:{user}",
            "*",
            ACLOperation[operation],
            ACLPermissionType.ALLOW,
            ResourcePattern(ResourceType[kind], name, ACLResourcePatternType.LITERAL),
        )
        for operation, kind, name in rights
    ]
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap, **log_in("admin")) as admin:
        admin.create_acls(acls)
        topics = [name for _, kind, name in rights if kind == "TOPIC"]
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap, **log_in(user)) as admin:
        until = time.monotonic() + 20
        denied = TopicAuthorizationFailedError.errno
        while any(topic["error_code"] == denied for topic in admin.describe_topics(topics)):
            assert time.monotonic() < until, "rights have not arrived after 20 s"
            time.sleep(0.05)


def as_client(name):
    read = [("READ", "TOPIC", f"{name}.{topic}") for topic in ("records.c0", "control", "models")]
    return [*read, ("WRITE", "TOPIC", f"{name}.dead-letter"), ("READ", "GROUP", f"{name}.clients")]


def as_coordinator(name):
    return [
        *(("WRITE", "TOPIC", f"{name}.{topic}") for topic in ("control", "models", "state", "dead-letter")),
        *(
            ("READ", "TOPIC", f"{name}.{topic}")
            for topic in ("updates", "commands", "state", "heartbeats", "control")
        ),
        ("WRITE", "TOPIC", f"{name}.heartbeats"),
        ("DESCRIBE", "TOPIC", f"{name}.records.c0"),
        ("READ", "GROUP", f"{name}.coordinator"),
        ("WRITE", "TRANSACTIONAL_ID", f"{name}.coordinator"),
    ]


@pytest.mark.full
def test_topics_of_records_without_labels_are_checked_and_read(broker, name):
    make(broker, **{f"{name}.asked": (2, {}), f"{name}.records.c0": (1, {})})
    connector = KafkaConnector(
        name, KafkaSettings.model_validate({"bootstrap_servers": broker.bootstrap, "patience": 5})
    )
    form = record_format("json", FieldMap(task="unlabelled"))

    def findings(*topics):
        return connector.findings(Placement((f"{name}.records.*",)), JSON, (Unlabelled(topics), form))

    missing = of(findings(f"{name}.none"), f"{name}.none")
    assert (missing.state, missing.found) == ("error", f"topic {name}.none does not exist")
    assert "produce --unlabelled" in missing.remedy
    with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send(f"{name}.asked", b'{"x":1}', partition=0)
        producer.send(f"{name}.asked", b"[1]", partition=1)
    told = findings(f"{name}.asked")
    assert of(told, "records without labels").found == f"2 partitions: {name}.asked"
    assert of(told, f"{name}.asked/0").state == "ok"
    assert "not a JSON object" in of(told, f"{name}.asked/1").found


@pytest.mark.full
class TestRights:
    @pytest.fixture
    def federation(self, guarded, name):
        """Its topics, made by an administrator, with a record."""
        admin = log_in("admin")
        connector = KafkaConnector(
            name, KafkaSettings.model_validate({"bootstrap_servers": guarded.bootstrap, **admin})
        )
        connector.prepare()
        writer = connector.writer(Placement((f"{name}.records.*",)), ["c0"])
        writer.write("c0", record(1))
        writer.close()
        return name

    def connector(self, broker, name, user, **more):
        return KafkaConnector(
            name, KafkaSettings.model_validate({"bootstrap_servers": broker.bootstrap, **log_in(user), **more})
        )

    def found(self, broker, name, user):
        return self.connector(broker, name, user).findings(Placement((f"{name}.records.*",)), JSON)

    def test_a_client_that_may_not_write_updates_is_told_which_right_it_lacks(self, guarded, federation):
        grant(guarded, "client", *as_client(federation))
        finding = of(self.found(guarded, federation, "client"), "rights of hosts")
        assert finding.state == "error"
        assert finding.found == f"this log-in lacks WRITE on topic {federation}.updates"
        assert finding.remedy == (
            f"grant it WRITE on topic {federation}.updates: `streamfl acls --role host` prints how"
        )

    def test_a_client_needs_no_right_of_the_coordinators(self, guarded, federation):
        grant(guarded, "client", *as_client(federation), ("WRITE", "TOPIC", f"{federation}.updates"))
        findings = self.found(guarded, federation, "client")
        assert [finding for finding in findings if finding.state == "error"] == []
        assert of(findings, "rights of hosts").state == "ok"
        assert of(findings, "rights of the coordinator").state == "warning"
        assert of(findings, f"{federation}.records.c0/0").state == "ok"

    def test_rights_that_the_check_finds_sufficient_are_sufficient(self, guarded, federation):
        grant(guarded, "client", *as_client(federation), ("WRITE", "TOPIC", f"{federation}.updates"))
        connector = self.connector(guarded, federation, "client")
        connector.prepare()
        host = connector.host("h", Placement((f"{federation}.records.*",)), JSON)
        try:
            until = time.monotonic() + 30
            while not (hosted := host.poll_clients()):
                assert time.monotonic() < until, "no client after 30 s"
            while not (batches := hosted["c0"].poll(10)):
                assert time.monotonic() < until, "no record after 30 s"
                host.poll_clients()
            assert [len(batch) for batch in batches] == [1]
            host.link("c0").send(Leave(client="c0", nonce="1"))
        finally:
            host.close()

    @pytest.mark.parametrize("seen", [(), ("DESCRIBE",)], ids=["unseen", "seen"])
    def test_a_group_that_may_not_be_joined_is_found(self, guarded, federation, seen):
        rights = [right for right in as_client(federation) if right[1] != "GROUP"]
        rights += [(right, "GROUP", f"{federation}.clients") for right in seen]
        grant(guarded, "client", *rights, ("WRITE", "TOPIC", f"{federation}.updates"))
        finding = of(self.found(guarded, federation, "client"), "rights of hosts")
        assert finding.found == f"this log-in lacks READ on group {federation}.clients"

    def test_a_coordinators_log_in_is_enough_for_a_coordinator(self, guarded, federation):
        grant(guarded, "coordinator", *as_coordinator(federation))
        findings = self.found(guarded, federation, "coordinator")
        assert of(findings, "rights of the coordinator").state == "ok"
        assert of(findings, "rights of hosts").state == "warning"
        connector = self.connector(guarded, federation, "coordinator")
        connector.prepare()
        link = connector.coordinator(Placement((f"{federation}.records.*",)), JSON)
        assert link.restore() is None
        link.publish(())
        assert link.ends([f"{federation}.records.c0/0"]) == {f"{federation}.records.c0/0": 1}
        link.close()

    def test_where_records_end_is_not_told_without_the_right_to_see(self, guarded, federation):
        rights = [right for right in as_coordinator(federation) if "records" not in right[2]]
        grant(guarded, "coordinator", *rights)
        connector = self.connector(guarded, federation, "coordinator")
        finding = of(connector.findings(Placement((f"{federation}.records.c0",)), JSON), "rights of the coordinator")
        assert finding.found == f"this log-in lacks DESCRIBE on topic {federation}.records.c0"
        connector.prepare()
        with closing(connector.coordinator(Placement((f"{federation}.records.*",)), JSON)) as link:
            assert link.ends([f"{federation}.records.c0/0"]) == {f"{federation}.records.c0/0": None}

    def test_a_coordinator_without_its_transactional_id_is_told_so(self, guarded, federation):
        grant(guarded, "coordinator", *(r for r in as_coordinator(federation) if r[1] != "TRANSACTIONAL_ID"))
        finding = of(self.found(guarded, federation, "coordinator"), "rights of the coordinator")
        assert finding.found == f"this log-in lacks WRITE on transactional id {federation}.coordinator"

    @pytest.mark.parametrize("exactly_once", [False, True])
    def test_a_scorer_is_told_which_right_it_lacks_and_needs_no_other(self, guarded, federation, exactly_once):
        asked, answers = f"{federation}.records.c0", f"{federation}.predictions"
        with KafkaAdminClient(bootstrap_servers=guarded.bootstrap, **log_in("admin")) as admin:
            admin.create_topics({answers: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
        topics = [(right, "TOPIC", name) for right, name in (
            ("READ", asked), ("READ", f"{federation}.control"), ("READ", f"{federation}.models"),
            ("WRITE", f"{federation}.dead-letter"), ("DESCRIBE", answers),
        )]  # fmt: skip
        group = [("READ", "GROUP", f"{federation}.scorers")]
        unlabelled = Unlabelled((asked,), exactly_once=exactly_once)
        connector = self.connector(guarded, federation, "scorer")

        def rights():
            findings = connector.findings(Placement((f"{federation}.records.*",)), JSON, (unlabelled, JSON))
            return of(findings, "rights of scorers")

        grant(guarded, "scorer", *topics, *group)
        assert f"lacks WRITE on topic {answers}" in rights().found
        grant(guarded, "scorer", ("WRITE", "TOPIC", answers))
        if exactly_once:
            assert rights().found == f"this log-in lacks WRITE on transactional id {federation}.scorers.*"
            grant(guarded, "scorer", ("WRITE", "TRANSACTIONAL_ID", f"{federation}.scorers.s"))
        with closing(connector.scorer("s", unlabelled, JSON)) as scorer:
            until = time.monotonic() + 30
            while not (batches := scorer.read()):
                assert time.monotonic() < until, "no record after 30 s"
            assert len(batches[0].records.positions) == 1
            scorer.answer([RecordAnswer(None, b"{}")])
            assert (scorer.counts.answered, scorer.counts.again) == (1, 0)
        if not exactly_once:
            assert rights().state == "ok"

    def test_a_log_in_that_is_refused_is_the_one_finding_and_names_no_secret(self, guarded, federation):
        connector = KafkaConnector(
            federation,
            KafkaSettings.model_validate({"bootstrap_servers": guarded.bootstrap, **log_in("client", SECRET)}),
        )
        (finding,) = connector.findings(Placement((f"{federation}.records.*",)), JSON)
        assert (finding.subject, finding.state) == ("brokers", "error")
        assert "refuses the log-in: authentication failed" in finding.found
        assert "sasl_*" in finding.remedy
        assert SECRET not in repr(finding)

    def test_a_log_in_that_may_see_no_topic_is_told_what_it_lacks(self, guarded, federation):
        with pytest.raises(UsageError) as raised:
            self.connector(guarded, federation, "coordinator").prepare()
        own = ", ".join(f"{federation}.{topic}" for topic in OWN)
        assert str(raised.value).startswith(f"this log-in may see none of {own}; grant it READ and WRITE")

    def test_a_coordinator_that_may_not_read_updates_is_told_so(self, guarded, federation):
        rights = [right for right in as_coordinator(federation) if right[2] != f"{federation}.updates"]
        grant(guarded, "coordinator", *rights)
        connector = self.connector(guarded, federation, "coordinator")
        connector.prepare()
        with pytest.raises(UsageError, match=f"{federation}.updates"):
            connector.coordinator(Placement((f"{federation}.records.*",)), JSON)

    def test_letters_that_may_not_be_written_are_told_and_the_coordinator_goes_on(self, guarded, federation):
        rights = [right for right in as_coordinator(federation) if right[2] != f"{federation}.dead-letter"]
        grant(guarded, "coordinator", *rights, ("DESCRIBE", "TOPIC", f"{federation}.dead-letter"))
        connector = self.connector(guarded, federation, "coordinator")
        connector.prepare()
        with (
            closing(connector.coordinator(Placement((f"{federation}.records.*",)), JSON)) as link,
            KafkaProducer(bootstrap_servers=guarded.bootstrap, **log_in("admin")) as producer,
        ):
            for round_ in (1, 2):
                producer.send(f"{federation}.updates", b"junk", key=b"c0").get(timeout=10)
                until = time.monotonic() + 60
                while link.unwritten < round_:
                    assert time.monotonic() < until
                    for heard in link.receive():
                        link.refuse(heard.reason)
                link.publish((Left(client="c0", nonce="1"),))

    def test_a_refused_log_in_is_no_reason_to_try_again(self, guarded, federation):
        settings = {"bootstrap_servers": guarded.bootstrap, **log_in("client"), "sasl_mechanism": "SCRAM-SHA-256"}
        with pytest.raises(UsageError, match=r"log-in|sasl_\*"):
            KafkaConnector(federation, KafkaSettings.model_validate(settings | {"patience": 0})).prepare()


@pytest.mark.full
def test_topics_of_labels_are_checked_and_read(broker, name):
    records, labels = f"{name}.r", f"{name}.l"
    halves = [{"task": "unlabelled", "key": "id"}, {"key": "id"}]
    features, told = record_format("json", FieldMap(**halves[0])), JsonRecords(LabelMap(**halves[1]))
    settings = KafkaSettings.model_validate({"bootstrap_servers": broker.bootstrap, "patience": 5})
    connector = KafkaConnector(name, settings)
    placement = Placement((records,), by="partition")
    delayed_labels = LabelTopics(Placement((labels,), by="partition"), told, 10)

    def findings():
        return connector.findings(placement, features, delayed_labels=delayed_labels)

    make(broker, **{records: (2, {})})
    write(broker, records, b'{"id":1,"x":2}')
    missing = of(findings(), labels)
    assert (missing.state, missing.found) == ("error", f"topic {labels} of the labels of {records} does not exist")
    make(broker, **{labels: (1, {})})
    wrong = of(findings(), labels)
    assert wrong.found == f"topic {labels} of labels has 1 partitions, but topic {records} of their records has 2"
    assert f"--alter --topic {labels} --partitions 2" in wrong.remedy
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_partitions({labels: 2})
    write(broker, labels, b'{"id":1,"label":"fir"}', b'{"label":"oak"}')
    assert of(findings(), "labels").found == f"1 topics: {labels}"
    read = of(findings(), f"{labels}/0")
    assert read.state == "warning"
    assert read.found.startswith(
        '1 of 2 records cannot be used: offset 1: field "id": the key is missing; the others:'
    )
    assert of(findings(), f"{records}/0").found == "1 records, 1 features"
