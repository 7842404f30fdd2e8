"""Which key a process signs with, whose signatures it asks for, and what it says if that cannot be."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from streamfl.cli.live import members
from streamfl.errors import PeerError, UsageError
from streamfl.learning.profiles.experts import Experts
from streamfl.live.coordinator import _machine
from streamfl.live.identity import Process, grants, members_of, signatures
from streamfl.live.members_file import read_members
from streamfl.live.operator.check import member_findings
from streamfl.live.operator.members import order
from streamfl.live.settings.connectors import connect
from streamfl.live.settings.loading import load
from streamfl.live.settings.settings import FederationSettings
from streamfl.machines.coordinator.gate.grants import KeyGrants, TrustOnFirstUse
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.messages import Command, MemberChanged
from streamfl.wire.sealing import Sealing
from streamfl.wire.signing import OPEN, Anybody, Pinned, PublicKey, make_key, read_key

SETTINGS = """
[federation]
members = "{mode}"
members_file = "{folder}/members.toml"
[coordinator]
key = "{folder}/coordinator.key"
[client]
key = "{folder}/host.key"
[records]
topics = ["r.*"]
[kafka]
bootstrap_servers = "127.0.0.1:1"
"""
LIST = """
[coordinator]
key = "{coordinator}"
[[operators]]
name = "anna"
key = "{operator}"
[groups.north]
clients = ["plant-7.*"]
[[hosts]]
name = "host"
key = "{host}"
clients = ["lab"]
groups = ["north"]
"""
NAMES = ("coordinator", "operator", "host")


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, PublicKey]:
    return {name: make_key(tmp_path / f"{name}.key") for name in NAMES}


@pytest.fixture
def settings(tmp_path: Path, keys) -> Any:
    def loaded(mode: str, listed: str | None = LIST) -> FederationSettings:
        (tmp_path / "f.toml").write_text(SETTINGS.format(mode=mode, folder=tmp_path))
        (tmp_path / "members.toml").unlink(missing_ok=True)
        if listed is not None:
            (tmp_path / "members.toml").write_text(listed.format(**keys))
        return load(tmp_path / "f.toml")

    return loaded


def refused(settings: FederationSettings, process: Process, key: Path | None = None) -> str:
    with pytest.raises(UsageError) as error:
        signatures(settings, process, key)
    return str(error.value)


def test_in_an_open_federation_nothing_is_signed_and_nobody_is_asked(settings):
    assert signatures(settings("open", None), "client") is OPEN
    assert grants(settings("open", None)) is None


@pytest.mark.parametrize("mode", ["trust_on_first_use", "file"])
def test_every_process_signs_as_what_it_is(mode, settings, keys, tmp_path):
    told = settings(mode)
    signed = {
        "client": signatures(told, "client"),
        "coordinator": signatures(told, "coordinator"),
        "operator": signatures(told, "operator", tmp_path / "operator.key"),
    }
    for process, key in (("client", "host"), ("coordinator", "coordinator"), ("operator", "operator")):
        own = signed[process].own
        assert (own.role, own.key.public, own.whole) == (process, keys[key], mode == "trust_on_first_use")
    assert signatures(told, "reader").own is None
    data = b"d" * 32
    hears = signed["coordinator"]
    for process, verifier in (("client", hears.clients), ("operator", hears.operators)):
        own = signed[process].own
        assert verifier.signer("p", data, own.stamp("p", data)) == str(own.key.public)
    own = signed["coordinator"].own
    for process in ("client", "operator", "coordinator"):
        assert signed[process].coordinator.signer("p", data, own.stamp("p", data)) == str(keys["coordinator"])


class NewFederation:
    """The link of a coordinator that nothing was saved of."""

    def restore(self) -> None:
        return None

    def ends(self, partitions: Any) -> dict[str, int | None]:
        return {}

    def log_ids(self, partitions: Any) -> dict[str, str | None]:
        return {}


def test_a_coordinator_and_its_standby_draw_signs_from_their_key_and_in_an_open_federation_from_the_seed(
    settings, tmp_path
):
    one, standby = (_machine(settings("file"), NewFederation()).settings for _ in range(2))
    assert one.secret == standby.secret == Sealing.of(read_key(tmp_path / "coordinator.key"), "federation")
    assert _machine(settings("open", None), NewFederation()).settings.secret is None


def test_hosts_may_speak_for_the_clients_that_the_list_grants(settings, keys):
    assert grants(settings("trust_on_first_use")) == TrustOnFirstUse()
    assert grants(settings("file")) == KeyGrants({str(keys["host"]): ("lab", "plant-7.*")})


def test_a_list_must_name_every_key_with_file_and_operators_always(settings, keys, tmp_path):
    without = LIST.replace("{coordinator}", "{other}").replace("{host}", "{other2}").replace("{operator}", "{other3}")
    keys |= {f"other{n}": make_key(tmp_path / f"o{n}") for n in ("", "2", "3")}
    told = settings("file", without)
    for process, key in (("client", None), ("coordinator", None), ("operator", tmp_path / "operator.key")):
        assert f"is not in the list as a key of this {process}; add it, or name another key" in refused(
            told, process, key
        )
    told = settings("trust_on_first_use", without)
    assert "is not in the list" in refused(told, "operator", tmp_path / "operator.key")
    assert "is not in the list" in refused(told, "coordinator")
    assert signatures(told, "client").own.key.public == keys["host"]
    assert "[coordinator] key is missing" in refused(settings("file", "[groups.a]\nclients = ['a']"), "reader")


def test_without_a_list_hosts_take_any_client_and_pin_the_coordinator(settings, tmp_path):
    told = settings("trust_on_first_use", None)
    assert isinstance(signatures(told, "coordinator").clients.keys, Anybody)
    heard = signatures(told, "client").coordinator.keys
    assert isinstance(heard, Pinned)
    assert heard.path == tmp_path / "host.key.coordinator"
    assert signatures(told, "reader").coordinator.keys.path is None
    elsewhere = told.client.model_copy(update={"coordinator_key": tmp_path / "pinned"})
    named = told.model_copy(update={"client": elsewhere})
    assert signatures(named, "client").coordinator.keys.path == tmp_path / "pinned"


def test_a_missing_key_or_list_says_what_to_do(settings, tmp_path):
    told = settings("file")
    nameless = told.model_copy(update={"client": told.client.model_copy(update={"key": None})})
    assert "[client] key is missing" in refused(nameless, "client")
    assert "streamfl members key --out F" in refused(nameless, "client")
    assert "--key F is missing" in refused(told, "operator")
    assert "cannot be read: No such file" in refused(told, "operator", tmp_path / "nowhere")
    assert "the list of members cannot be read" in refused(settings("file", None), "client")


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        ("[[hosts]]\nname='h'\nkey='k'\nclients=['a']", "hosts.0.key: not a public key"),
        ("[[hosts]]\nname='h'\nkey='{host}'", "name the clients that this host may run"),
        ("[[hosts]]\nname='h'\nkey='{host}'\nclients=['a*b*']", "a name may contain only one *"),
        ("[[hosts]]\nname='h'\nkey='{host}'\ngroups=['nord']\n[groups.north]\nclients=['a']", "did you mean north?"),
        ("[[hosts]]\nname='h'\nkey='{host}'\nclient=['a']", "there is no such setting"),
        ("[coordinator]\nkey='{host}'\n[[operators]]\nname='anna'\nkey='{host}'", "have the same key"),
        ("[[hosts]", "members.toml: "),
        ("[[hosts]]\nname='h'\nkey='{host}'\nclients=['" + "x" * 300 + "']", "at most 256 characters"),
    ],
)
def test_what_is_wrong_in_a_list_is_named(listed, why, settings):
    with pytest.raises(UsageError) as error:
        members_of(settings("file", listed))
    assert why in str(error.value)


def test_a_coordinator_with_a_new_key_reads_what_it_signed_with_the_one_before(settings, keys, tmp_path):
    keys["new"] = make_key(tmp_path / "new.key")
    listed = LIST.replace('key = "{coordinator}"', 'key = "{new}"\nformer = ["{coordinator}"]')
    before, data = signatures(settings("file"), "coordinator").own, b"d" * 32
    (tmp_path / "new.key").replace(tmp_path / "coordinator.key")
    told = settings("file", listed)
    signatures(told, "coordinator").coordinator.signer("state", data, before.stamp("state", data))
    with pytest.raises(PeerError, match="not listed"):
        signatures(told, "client").coordinator.signer("state", data, before.stamp("state", data))


def test_check_says_which_keys_can_be_used(settings, keys, tmp_path):
    (finding,) = member_findings(settings("open"))
    assert (finding.state, "anybody" in finding.found) == ("warning", True)
    found = member_findings(settings("file"))
    assert [(one.subject, one.state) for one in found] == [
        ("members (client)", "ok"),
        ("members (coordinator)", "ok"),
    ]
    assert str(keys["host"]) in found[0].found
    (tmp_path / "host.key").chmod(0o644)
    first = member_findings(settings("file"))[0]
    assert (first.state, "chmod 600" in first.remedy) == ("error", True)


def test_a_connector_that_carries_no_signatures_serves_open_federations_only(settings, monkeypatch):
    from streamfl_connectors.kafka.connector import KafkaConnector

    monkeypatch.setattr(KafkaConnector, "carries_signatures", False)
    with pytest.raises(UsageError, match="has no signatures"):
        connect(settings("file"), signatures(settings("file"), "client"))
    assert connect(settings("open"))


def test_the_command_that_makes_a_key_prints_its_line(tmp_path, keys):
    made = CliRunner().invoke(members, ["key", "--out", str(tmp_path / "new.key")])
    (tmp_path / "m.toml").write_text(f"[coordinator]\n{made.output}")
    assert read_members(tmp_path / "m.toml").coordinator is not None
    assert (tmp_path / "new.key").read_text().strip().rpartition(":")[2] not in made.output


class Log:
    """In place of a connector: a state, and a coordinator that carries out commands, or another one before."""

    def __init__(self, before: MemberChanged | None = None, instead: str = "", *, runs: bool = True) -> None:
        self.kept = CoordinatorState(Experts(), keys={"c0": "k"}, changed=before)
        self.instead, self.runs = instead, runs
        self.ordered: list[Command] = []

    def state(self) -> CoordinatorState:
        return self.kept

    def order(self, command: Command) -> None:
        self.ordered.append(command)
        if self.runs:
            client, number = self.instead or command.client, command.number
            self.kept.changed = MemberChanged(action=command.action, client=client, number=number, by="", entry=5)


def test_an_order_has_the_next_number_and_is_over_when_the_coordinator_says_so():
    log = Log()
    assert order(log, "evict", "c0").entry == 5  # type: ignore[arg-type]
    assert order(log, "reset", "c0").number == 2  # type: ignore[arg-type]
    assert [command.number for command in log.ordered] == [1, 2]


def test_an_order_that_has_no_effect_says_so():
    with pytest.raises(PeerError, match="another command came first"):
        order(Log(instead="c7"), "evict", "c0")  # type: ignore[arg-type]
    with pytest.raises(PeerError, match="no coordinator has carried out the command"):
        order(Log(runs=False), "evict", "c0", patience=0.0)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"no client is called 'c00'; did you mean c0\?"):
        order(Log(), "evict", "c00")  # type: ignore[arg-type]
    assert order(Log(), "admit", "c00").client == "c00"  # type: ignore[arg-type]
