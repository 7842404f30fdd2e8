"""Who may join, on the real broker: signed federations learn what open ones learn, and forgeries change nothing."""

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka_federation import Federation, check_ledger
from kafka_stream import check_as_undisturbed
from small_stream import ROUNDS, SmallStream, make

from streamfl.protocol.messages import Command, Leave, MemberChanged, Refusal
from streamfl.runtime.log import commands
from streamfl.runtime.log.control import PLACE as CONTROL
from streamfl.runtime.log.parts import DIGEST, cut
from streamfl.runtime.log.signatures import SIGNATURE, stamp_of
from streamfl.runtime.log.updates import PLACE as UPDATES
from streamfl.wire import messages
from streamfl.wire.signing import Listed, PrivateKey, Signer, Verifier, make_key, read_key

pytestmark = pytest.mark.full

HOSTS = ("a", "b")

Message = tuple[str, bytes | None, bytes | None, list[tuple[str, bytes]]]


@dataclass
class Members:
    """The keys of a federation's processes, in a folder, and the list of them."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.public = {name: make_key(self.key(name)) for name in ("coordinator", "operator", *HOSTS)}
        self.grant(clients=["c*"])

    def key(self, name: str) -> Path:
        """Return the file of a private key."""
        return self.folder / f"{name}.key"

    def grant(self, clients: list[str]) -> None:
        """Grant clients to the hosts, which are a group."""
        hosts = "".join(f'[[hosts]]\nname = "{n}"\nkey = "{self.public[n]}"\ngroups = ["site"]\n' for n in HOSTS)
        self.file.write_text(
            f'[coordinator]\nkey = "{self.public["coordinator"]}"\n'
            f'[[operators]]\nname = "anna"\nkey = "{self.public["operator"]}"\n'
            f"[groups.site]\nclients = {json.dumps(clients)}\n{hosts}"
        )

    @property
    def file(self) -> Path:
        """Return the list."""
        return self.folder / "members.toml"

    def settings(self, mode: str) -> list[str]:
        """Return the settings that all processes share."""
        return [
            f"federation.members={mode}",
            f"federation.members_file={self.file}",
            f"coordinator.key={self.key('coordinator')}",
        ]

    def verifier(self, federation: str) -> Verifier:
        """Return what checks the coordinator's signatures."""
        return Verifier(Listed.of([self.public["coordinator"]]), "coordinator", federation)


@pytest.fixture
def members(tmp_path: Path) -> Members:
    return Members(tmp_path / "keys")


@pytest.fixture
def signed(federate, members) -> Any:
    """Make a federation whose members are `trust_on_first_use` or in a `file`; without a list, hosts pin the
    coordinator's key."""

    def federation(stream: SmallStream, mode: str, *, listed: bool = True) -> Federation:
        told = members.settings(mode) if listed else members.settings(mode)[::2]
        made = federate(stream, *told, "logs.level=debug")
        made.verifier = members.verifier(made.name)
        return made

    return federation


def host(federation: Federation, members: Members, name: str) -> Any:
    return federation.start(name, "--set", f"client.key={members.key(name)}")


def everything(federation: Federation, topic: str) -> list[Any]:
    """Return all messages of a topic, as they are in the log."""
    with KafkaConsumer(bootstrap_servers=federation.bootstrap, enable_auto_commit=False) as consumer:
        partition = TopicPartition(f"{federation.name}.{topic}", 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end, found = consumer.end_offsets([partition])[partition], []
        while consumer.position(partition) < end:
            found += consumer.poll(timeout_ms=500).get(partition, [])
    return found


def write(federation: Federation, forged: list[Message]) -> None:
    with KafkaProducer(bootstrap_servers=federation.bootstrap) as producer:
        for topic, key, value, headers in forged:
            producer.send(f"{federation.name}.{topic}", value, key=key, headers=headers, partition=0)
        producer.flush()


def again(federation: Federation, topic: str) -> Iterator[Message]:
    """Everything that was written to a topic, once more: replays."""
    for message in everything(federation, topic):
        yield topic, message.key, message.value, list(message.headers)


def unsigned(replayed: list[Message]) -> Iterator[Message]:
    for topic, key, value, headers in replayed:
        yield topic, key, value, [(name, content) for name, content in headers if name != SIGNATURE]


def tampered(replayed: list[Message]) -> Iterator[Message]:
    """The same stamps beside other bytes, and other stamps beside the same."""
    rng = random.Random(3)
    for topic, key, value, headers in replayed:
        if value:
            at = rng.randrange(len(value))
            other = value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]
            digest = hashlib.sha256(other).hexdigest().encode()
            yield topic, key, other, headers
            yield topic, key, other, [(name, digest if name == DIGEST else content) for name, content in headers]
        stamp = bytes(rng.randrange(256) for _ in range(73))
        yield topic, key, value, [(name, stamp if name == SIGNATURE else content) for name, content in headers]


def by_a_stranger(federation: Federation, replayed: list[Message], place: str, role: Any) -> Iterator[Message]:
    """What was written, signed by a key that nobody has listed."""
    signer = Signer(PrivateKey(b"s" * 32), role, federation.name, whole=True)
    for topic, key, value, headers in replayed:
        if value is not None:
            kept = [(name, content) for name, content in headers if name != SIGNATURE]
            yield topic, key, value, [*kept, *stamp_of(signer, place, value)]


def leaves(signer: Signer) -> list[Message]:
    """Every member leaves, whatever its incarnation."""
    sent: list[Message] = []
    for client in ("c0", "c1", "c2"):
        for after in range(4):
            data = messages.encode(Leave(client=client, nonce="f" * 16, after=after))
            (part,) = cut(data, 1000)
            sent.append(("updates", client.encode(), data, [*part.headers, *stamp_of(signer, UPDATES, data)]))
    return sent


def forgeries(federation: Federation) -> list[Message]:
    """What a stranger can make who may write to all topics, and has read them."""
    topics = ("updates", "control", "models", "state")
    sent, told, models, states = (list(again(federation, topic)) for topic in topics)
    of_client = Signer(PrivateKey(b"s" * 32), "client", federation.name)
    of_coordinator = Signer(PrivateKey(b"s" * 32), "coordinator", federation.name)
    evicted = messages.encode(Refusal(client="c0", incarnation=1, entry=3, reason="evicted", evicted=True))
    return [
        *sent[-60:],
        *unsigned(sent[-20:]),
        *tampered(sent[-20:]),
        *by_a_stranger(federation, sent[-20:], UPDATES, "client"),
        *leaves(of_client),
        *leaves(of_coordinator),
        *told[-60:],
        *unsigned(told[-20:]),
        *tampered(told[-20:]),
        *by_a_stranger(federation, told[-20:], CONTROL, "coordinator"),
        ("control", None, evicted, []),
        ("control", None, evicted, list(stamp_of(of_coordinator, CONTROL, evicted))),
        ("control", None, b'{"type":"ended","entry":3}', []),
        *unsigned(models[-20:]),
        *tampered(models[-20:]),
        *[("models", key, None, headers) for _, key, _, headers in models[-20:]],
        *unsigned(states[-40:]),
        *tampered(states[-40:]),
    ]


@pytest.mark.parametrize("mode", ["file", "trust_on_first_use"])
def test_forgeries_and_a_takeover_change_no_byte(mode, signed, members, small):
    federation = signed(small, mode, listed=mode == "file")
    host(federation, members, "a")
    coordinator = federation.start("coordinator")
    small.write(until=4)
    federation.until("four rounds", lambda: federation.rounds() == 4)

    write(federation, forgeries(federation))
    small.write(until=6)
    federation.until("rounds after the forgeries", lambda: federation.rounds() == 6)
    refused = coordinator.said("refused")
    assert {line["reason"] for line in refused} >= {"it is not signed", "the signature is not valid"}
    assert not coordinator.said("left")
    assert federation.running[0].said("unusable message")

    federation.running.pop(0).kill()
    if mode == "trust_on_first_use":  # the client belongs to the key, not to the process
        assert pinned(members, "a").read_text() == f"{members.public['coordinator']}\n"
        members.key("a").rename(members.key("b"))
    heir = host(federation, members, "b")
    small.write(until=10)
    federation.until("the other host has all", lambda: heir.serves() == set(small.names))
    federation.until("rounds of the other host", lambda: federation.rounds() == 10, patience=60.0)
    coordinator.kill()
    federation.running.remove(coordinator)
    coordinator = federation.start("coordinator")

    small.write(until=ROUNDS)
    small.end()
    check_as_undisturbed(federation, small)
    assert [line["round"] for line in coordinator.said("resumed")] == [11]
    check_no_secrets(federation, members)


def pinned(members: Members, name: str) -> Path:
    """Return the file in which a host keeps the coordinator's key."""
    return members.folder / f"{name}.key.coordinator"


def check_no_secrets(federation: Federation, members: Members) -> None:
    """No log, at debug, and no message holds a private key."""
    secrets = [members.key(name).read_text().strip().rpartition(":")[2] for name in ("coordinator", "operator", "b")]
    logs = [log.read_text() for log in federation.folder.glob("*.log")]
    assert all(logs)
    assert not [secret for secret in secrets for log in logs if secret in log]


def test_a_client_that_nobody_is_granted_joins_nothing_and_is_told_once(signed, members, small):
    make(small.bootstrap, {f"{small.prefix}.labb": 1})
    small.places["labb"] = (f"{small.prefix}.labb", 0)
    members.grant(clients=[*small.names, "lab"])
    federation = signed(small, "file")
    there = host(federation, members, "a")
    coordinator = federation.start("coordinator")
    for k in range(40):
        small.send("labb", small.message("c0", k))
    small.write(until=8)
    federation.until("eight rounds", lambda: federation.rounds() == 8)
    (line,) = (line for line in coordinator.said("refused") if line["client"] not in small.names)
    assert (line["client"], line["reason"]) == ("labb", "no host may speak for it; did you mean lab?")
    (line,) = there.said("refused in a client's name")
    assert (line["client"], line["reason"]) == ("labb", "no host may speak for it; did you mean lab?")
    assert [message.client for message in federation.told() if isinstance(message, Refusal)] == ["labb"]


def test_a_process_that_is_not_listed_says_so(signed, members, small, tmp_path):
    federation = signed(small, "file")
    make_key(members.folder / "stranger.key")
    stranger = host(federation, members, "stranger")
    assert stranger.ended() == 2
    assert "is not in the list as a key of this client; add it, or name another key" in stranger.error()
    assert federation.start("b").ended() == 2
    nameless = next(process for process in federation.running if process.name == "b")
    assert "[client] key is missing" in nameless.error()


def members_command(federation: Federation, members: Members, *words: str) -> tuple[int, str]:
    """Run `streamfl members`, with the operator's key; return its exit code and what it printed."""
    key = [] if words[0] == "list" else ["--key", str(members.key("operator"))]
    process = federation.start(f"operator-{'-'.join(words)}", role=("members", *words, *key))
    federation.running.remove(process)
    return process.ended(), process.log.read_text()


def lines_of(listed: str) -> dict[str, str]:
    return {line.split("  ")[0]: line for line in listed.splitlines()}


def test_operators_evict_admit_and_reset_through_the_log(signed, members, small):
    federation = signed(small, "trust_on_first_use")
    first = host(federation, members, "a")
    coordinator = federation.start("coordinator")
    small.write(until=3)
    federation.until("three rounds", lambda: federation.rounds() == 3)

    code, told = members_command(federation, members, "evict", "c2")
    assert (code, told) == (0, "evict c2: done, in effect from entry 5 on\n")
    small.write(until=5)
    federation.until("rounds without it", lambda: federation.rounds() == 5)
    assert [len(closed.accepted) for closed in federation.closed()] == [3, 3, 3, 2, 2]
    assert first.said("client failed")[0]["client"] == "c2"
    (evicted,) = again(federation, "commands")
    stranger = Signer(PrivateKey(b"s" * 32), "operator", federation.name)
    as_client = Signer(read_key(members.key("a")), "client", federation.name)
    forged = messages_of_operators(federation, 2, (None, stranger, as_client))

    code, told = members_command(federation, members, "admit", "c2")
    assert (code, told) == (0, "admit c2: done, in effect from entry 7 on\n")
    write(federation, [evicted, *forged])  # a replay, and commands of others
    federation.until("they are refused", lambda: len(coordinator.said("refused")) >= 4)
    code, listed = members_command(federation, members, "list")
    assert code == 0
    assert lines_of(listed)["c2"].startswith("c2  evicted  incarnation 1  host a  60 records learnt")
    first.kill()
    federation.running.remove(first)

    for name in small.names:
        code, told = members_command(federation, members, "reset", name)
        assert code == 0, told
    host(federation, members, "b")
    small.write(until=ROUNDS)
    small.end()
    federation.until("the end", lambda: all(one.popen.poll() is not None for one in federation.running))
    check_ledger(federation.closed(), small.each)
    code, listed = members_command(federation, members, "list")
    told_of = {name: line.split("  ") for name, line in lines_of(listed).items()}
    assert all(told_of[name][1] == "left" for name in small.names), listed
    assert {told_of[name][3] for name in small.names} == {"host b"}
    changes = [(one.action, one.client) for one in federation.told() if isinstance(one, MemberChanged)]
    assert changes == [("evict", "c2"), ("admit", "c2"), ("reset", "c0"), ("reset", "c1"), ("reset", "c2")]
    code, told = members_command(federation, members, "evict", "c22")
    assert code == 2
    assert "no client is called 'c22'; did you mean c2?" in told


def messages_of_operators(federation: Federation, number: int, signers: Sequence[Signer | None]) -> list[Message]:
    """The same command, signed by nobody and by others than operators."""
    command = Command(action="evict", client="c0", number=number)
    written = (commands.written(command, signer) for signer in signers)
    return [("commands", None, value, list(headers)) for value, headers in written]
