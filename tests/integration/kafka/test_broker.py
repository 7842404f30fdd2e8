import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from contextlib import ExitStack

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import TopicAuthorizationFailedError

from deploy.broker import Broker
from deploy.broker.jars import fetched, folder_of_jars
from deploy.broker.ports import free_port, is_open, is_taken
from streamfl.errors import UsageError


@pytest.fixture
def topic(broker):
    return new_topic(broker.bootstrap)


def new_topic(bootstrap, **client):
    name = f"test.{uuid.uuid4()}"
    with KafkaAdminClient(bootstrap_servers=bootstrap, **client) as admin:
        admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}})
    return name


def topics(bootstrap):
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        return list(admin.list_topics())


def produce(broker, topic, *values):
    with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for value in values:
            producer.send(topic, value).get(timeout=10)


def consume(broker, topic, **config):
    """All values from the start of the topic to where it ends now."""
    partition = TopicPartition(topic, 0)
    values = []
    with KafkaConsumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False, **config
    ) as consumer:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        until = time.monotonic() + 20
        while consumer.position(partition) < end:  # by position: the last offset may be a transaction's marker
            assert time.monotonic() < until, f"at {consumer.position(partition)} of {end} after 20 s"
            for records in consumer.poll(timeout_ms=200).values():
                values += [record.value for record in records]
    return values


class TestOneBroker:
    def test_a_broker_returns_the_messages_that_it_was_given(self, broker, topic):
        produce(broker, topic, b"one", b"two", b"three")
        assert consume(broker, topic) == [b"one", b"two", b"three"]

    def test_a_broker_hides_aborted_messages_from_readers_of_committed_ones(self, broker, topic):
        with KafkaProducer(
            bootstrap_servers=broker.bootstrap, transactional_id=topic, retry_backoff_ms=10
        ) as producer:
            producer.init_transactions()
            for value, keep in ((b"kept", True), (b"aborted", False), (b"kept too", True)):
                producer.begin_transaction()
                producer.send(topic, value)
                producer.flush()
                producer.commit_transaction() if keep else producer.abort_transaction()
        assert consume(broker, topic, isolation_level="read_committed") == [b"kept", b"kept too"]
        assert consume(broker, topic, isolation_level="read_uncommitted") == [b"kept", b"aborted", b"kept too"]

    @pytest.mark.full
    def test_a_broker_keeps_its_address_and_messages_when_it_is_stopped_and_started(self, own_broker):
        topic = new_topic(own_broker.bootstrap)
        produce(own_broker, topic, b"before")
        bootstrap = own_broker.bootstrap
        own_broker.down()
        assert not is_open(own_broker.port)
        own_broker.up()
        assert own_broker.bootstrap == bootstrap
        produce(own_broker, topic, b"after")
        assert consume(own_broker, topic) == [b"before", b"after"]

    def test_a_broker_listens_on_loopback_only(self, own_broker):
        with socket.socket() as probe:  # all of 127.0.0.0/8 is this machine, and only 127.0.0.1 is the broker's
            assert probe.connect_ex(("127.0.0.2", own_broker.port)) != 0


class TestStart:
    def test_a_broker_refuses_a_port_that_is_taken(self, tmp_path):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            with pytest.raises(UsageError, match=f"port {port} of 127.0.0.1 is taken"):
                Broker.start(tmp_path, port)

    def test_the_error_names_java_when_it_is_missing(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(UsageError, match=r"no working `java` .* Install Java 17 .* STREAMFL_TEST_BOOTSTRAP"):
            Broker.start(tmp_path)

    def test_the_error_names_java_when_it_is_too_old(self, tmp_path, monkeypatch):
        program(tmp_path / "java", """echo 'openjdk version "11.0.2" 2019-01-15' >&2""")
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(UsageError, match=r"needs Java 17 or later; .*java is Java 11"):
            Broker.start(tmp_path)

    def test_a_broker_refuses_a_folder_that_is_in_use(self, own_broker, libs):
        with pytest.raises(UsageError, match="another broker uses"):
            Broker.start(own_broker.folder, libs=libs, fresh=True)
        assert own_broker.data.is_dir()

    @pytest.mark.full
    def test_a_broker_that_does_not_start_reports_what_kafka_said(self, tmp_path, libs):
        with pytest.raises(UsageError, match=r"(?s)last lines of .*num\.network\.threads"):
            Broker.start(tmp_path, libs=libs, config={"num.network.threads": "many"})

    @pytest.mark.full
    def test_a_broker_takes_properties_that_ask_for_passwords_and_rights(self, tmp_path, libs):
        plain = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
        admin = {**plain, "sasl_plain_username": "admin", "sasl_plain_password": "a"}
        stranger = {**plain, "sasl_plain_username": "stranger", "sasl_plain_password": "s"}
        with Broker.start(tmp_path, libs=libs, config=PASSWORDS, client=admin) as broker:
            topic = new_topic(broker.bootstrap, **admin)
            with KafkaProducer(bootstrap_servers=broker.bootstrap, **admin) as producer:
                producer.send(topic, b"mine").get(timeout=10)
            with (
                KafkaProducer(bootstrap_servers=broker.bootstrap, **stranger) as producer,
                pytest.raises(TopicAuthorizationFailedError),
            ):
                producer.send(topic, b"not mine").get(timeout=10)


PASSWORDS = {
    "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.client.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="a" user_admin="a" user_stranger="s";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",  # the node speaks with itself without a name
}


@pytest.mark.full
class TestCommand:
    @pytest.fixture
    def run(self, tmp_path, libs):
        """Run the command on a port; wait until it says that the broker is there."""
        (tmp_path / "libs").symlink_to(libs)
        with ExitStack() as running:

            def run(port, *options):
                words = [
                    "-m",
                    "deploy.broker",
                    "--port",
                    str(port),
                    "--data",
                    str(tmp_path),
                    *options,
                ]
                command = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
                running.enter_context(command)
                running.callback(command.kill)
                assert command.stdout.readline() == (
                    f"Apache Kafka 4.1.1 on 127.0.0.1:{port}; data in {tmp_path}/data; stop with Ctrl-C\n"
                )
                return command

            yield run

    def test_the_broker_command_runs_until_it_is_stopped_and_finds_its_data_again(self, run):
        first, second = free_port(), free_port()
        command = run(first)
        topic = new_topic(f"127.0.0.1:{first}")
        end(command, signal.SIGINT, first)
        command = run(second)
        assert topics(f"127.0.0.1:{second}") == [topic]
        end(command, signal.SIGTERM, second)

    def test_the_broker_command_begins_empty_if_asked_and_takes_kafka_along_when_killed(self, run, tmp_path):
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "meta.properties").write_text("not what Kafka writes")
        port = free_port()
        run(port, "--fresh").kill()
        until = time.monotonic() + 30
        while is_taken(port):
            assert time.monotonic() < until, "Kafka still runs after 30 s"
            time.sleep(0.05)


def end(command, by, port):
    command.send_signal(by)
    assert command.wait(30) == 0
    assert not is_taken(port)


def program(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


class TestJars:
    """With a Maven of paper: these tests fetch nothing."""

    MAVEN = """
    for word; do case $word in -DoutputDirectory=*) into=${word#*=} ;; esac; done
    echo called >> "$(dirname "$0")/calls"
    touch "$into/kafka-clients-9.9.jar"
    sleep 0.3
    """

    @pytest.mark.full
    def test_two_processes_that_want_the_jars_at_once_fetch_them_once(self, tmp_path, monkeypatch):
        program(tmp_path / "mvn", self.MAVEN)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        found = []
        wanting = [threading.Thread(target=lambda: found.append(fetched(tmp_path / "libs"))) for _ in range(2)]
        for thread in wanting:
            thread.start()
        for thread in wanting:
            thread.join()
        assert (tmp_path / "calls").read_text() == "called\n"
        assert [[jar.name for jar in jars.glob("*.jar")] for jars in found] == [["kafka-clients-9.9.jar"]] * 2

    @pytest.mark.full
    def test_a_fetch_that_failed_leaves_nothing_to_be_mistaken_for_the_jars(self, tmp_path, monkeypatch):
        program(tmp_path / "mvn", self.MAVEN + "echo '[ERROR] no such network'; exit 1")
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        with pytest.raises(UsageError, match=r"(?s)Maven could not fetch .* Install Java 17 .*no such network"):
            fetched(tmp_path / "libs")
        assert not folder_of_jars(tmp_path / "libs").exists()

    def test_the_error_names_maven_when_it_is_missing(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(UsageError, match=r"no `mvn` on the PATH\. Install"):
            fetched(tmp_path / "libs")
