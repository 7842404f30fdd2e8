"""The table of rights: what each role gets, in commands, in the words of the admin protocol, and in the docs."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from streamfl.errors import UsageError
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import Unlabelled
from streamfl_connectors.kafka.access.acls import access
from streamfl_connectors.kafka.access.rights import OPTIONAL, ROLES, Federated

ROOT = Path(__file__).parents[3]
COMMAND = str(Path(sys.executable).parent / "streamfl")

READ_BY_PAGES = [("READ", "TOPIC", "f.control"), ("READ", "TOPIC", "f.dead-letter")]
SEEN_BY_PAGES = [("TOPIC", "r.", "PREFIXED"), ("TOPIC", "l.", "PREFIXED"), ("GROUP", "f.clients", "LITERAL")]

WHOLE = Federated(Topics("f"), ("r.*",), ("l.*",), Unlabelled(("u",), exactly_once=True))
REPARTITIONED = Federated(Topics("f"), ("r",), ("l",), is_repartitioned=True)


def granted(federated, role):
    """A role's rights as (operation, type, name, pattern)."""
    (one,) = access(federated, role, "User:u", ["--bootstrap-server", "b"])
    keys = ("operation", "resource_type", "resource_name", "pattern_type")
    return {tuple(right[key] for key in keys) for right in one.rights}


def read(command):
    """The rights in a command of kafka-acls.sh."""
    words = shlex.split(command)
    assert words[:6] == ["kafka-acls.sh", "--bootstrap-server", "b", "--add", "--allow-principal", "User:u"]
    options = list(zip(words[6::2], words[7::2], strict=True))
    operations = [value for option, value in options if option == "--operation"]
    pattern = dict(options).get("--resource-pattern-type", "literal")
    kinds = {"--topic": "TOPIC", "--group": "GROUP", "--transactional-id": "TRANSACTIONAL_ID"}
    names = [(kinds[option], value) for option, value in options if option in kinds]
    assert len(operations) + len(names) + ("--resource-pattern-type" in dict(options)) == len(options)
    in_capitals = {"DescribeConfigs": "DESCRIBE_CONFIGS"}
    return {
        (in_capitals.get(operation, operation.upper()), *name, pattern.upper())
        for operation in operations
        for name in names
    }


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("federated", [WHOLE, Federated(Topics("f"), ("r1", "r2"))], ids=["whole", "small"])
def test_commands_grant_what_the_table_says_and_nothing_twice(federated, role):
    (one,) = access(federated, role, "User:u", ["--bootstrap-server", "b"])
    found = [right for command in one.commands for right in read(command)]
    assert len(found) == len(set(found))
    assert set(found) == granted(federated, role)


def test_a_watcher_reads_what_the_coordinator_tells_and_nothing_else():
    assert granted(WHOLE, "watch") == {("READ", "TOPIC", "f.control", "LITERAL")}


def test_a_page_reads_dead_letters_too_sees_how_far_records_go_and_does_without():
    reads = {(*right, "LITERAL") for right in READ_BY_PAGES}
    assert granted(WHOLE, "page") == reads | {("DESCRIBE", *seen) for seen in SEEN_BY_PAGES}
    assert [need.name for need in WHOLE.needs("page") if need.vital] == ["f.control"]
    repartitioned = {need.name for need in REPARTITIONED.needs("page")}
    assert {"f.client-records", "f.client-labels", "f.clients"} <= repartitioned


def test_only_the_coordinator_speaks_as_it_and_only_hosts_as_clients():
    def may(right, name):
        return {role for role in ROLES if any(r == right and n == name for r, _, n, _ in granted(WHOLE, role))}

    for own in ("f.control", "f.models", "f.state"):
        assert may("WRITE", own) == {"coordinator"}
    assert may("WRITE", "f.updates") == {"host"}
    assert may("READ", "f.updates") == may("READ", "f.commands") == {"coordinator"}
    assert may("READ", "f.state") == {"coordinator", "operator"}
    assert may("WRITE", "f.commands") == {"operator"}
    assert may("READ", "r.") == {"host"}
    assert may("WRITE", "r.") == {"producer"}


def test_only_hosts_write_repartitioned_records_and_no_producer_or_coordinator():
    written = {("WRITE", "TOPIC", f"f.client-{kind}", "LITERAL") for kind in ("records", "labels")}
    assert {role for role in ROLES if written & granted(REPARTITIONED, role)} == {"host"}
    assert written <= granted(REPARTITIONED, "host")
    assert not written & granted(WHOLE, "host")


def test_a_right_that_the_settings_do_not_need_is_not_granted():
    small = Federated(Topics("f"), ("r1", "r2"))
    assert {right for right in granted(small, "host") if "f.predictions" in right} == set()
    assert {right for right in granted(small, "scorer") if "TRANSACTIONAL_ID" in right} == set()
    assert granted(small, "producer") == {
        (right, "TOPIC", name, "LITERAL") for right in ("WRITE", "CREATE") for name in ("r1", "r2")
    }
    assert ("WRITE", "TRANSACTIONAL_ID", "f.scorers.", "PREFIXED") in granted(WHOLE, "scorer")


@pytest.mark.parametrize("name", ["f.*", "*", "f.con*"])
def test_a_right_on_records_that_would_be_one_on_our_own_topics_is_refused(name):
    with pytest.raises(UsageError, match=r"f\.control.*give topics of records a beginning of their own"):
        access(Federated(Topics("f"), (name,)), "producer", None, [])


def test_a_role_that_does_not_exist_is_told_those_that_do():
    with pytest.raises(UsageError, match="no role is called 'hosts': use one of coordinator, host, scorer, "):
        access(WHOLE, "hosts", None, [])


@pytest.mark.process
class TestCommand:
    def run(self, *options):
        words = [COMMAND, "acls", "--settings", "deploy/federation.toml", *options]
        return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)

    def test_the_acls_command_prints_a_script_for_each_role_and_the_same_as_json(self):
        script = self.run("--command-config", "admin.properties").stdout
        commands = [line for line in script.splitlines() if line.startswith("kafka-acls.sh")]
        assert [line for line in script.splitlines() if line.startswith("#")] == [
            f"# {role}: User:forest-{role}" for role in ROLES
        ]
        with_log_in = "kafka-acls.sh --bootstrap-server 127.0.0.1:9092 --command-config admin.properties --add"
        assert all(command.startswith(with_log_in) for command in commands)
        rights = json.loads(self.run("--json").stdout)
        assert {right["role"] for right in rights} == set(ROLES)
        assert {"READ", "WRITE", "DESCRIBE"} | OPTIONAL == {right["operation"] for right in rights}

    def test_users_of_strimzi_have_the_rights_of_the_table_and_no_others(self):
        users = [json.loads(one) for one in self.run("--strimzi", "kafka").stdout.split("\n---\n")]
        assert [user["metadata"]["name"] for user in users] == [f"forest-{role}" for role in ROLES]
        granted = {
            (user["metadata"]["name"], of["type"], of["name"], of["patternType"], operation)
            for user in users
            for one in user["spec"]["authorization"]["acls"]
            for of in [one["resource"]]
            for operation in one["operations"]
        }
        kinds = {"TOPIC": "topic", "GROUP": "group", "TRANSACTIONAL_ID": "transactionalId"}
        words = {"READ": "Read", "WRITE": "Write", "DESCRIBE": "Describe", "CREATE": "Create"}
        words["DESCRIBE_CONFIGS"] = "DescribeConfigs"
        assert granted == {
            (
                right["principal"].removeprefix("User:"),
                kinds[right["resource_type"]],
                right["resource_name"],
                {"LITERAL": "literal", "PREFIXED": "prefix"}[right["pattern_type"]],
                words[right["operation"]],
            )
            for right in json.loads(self.run("--json").stdout)
        }

    def test_a_log_in_that_kubernetes_cannot_name_is_refused_with_the_remedy(self):
        refused = self.run("--role", "watch", "--principal", "User:CN=eye", "--strimzi", "kafka")
        assert (refused.returncode, "a KafkaUser cannot be called 'CN=eye'" in refused.stderr) == (2, True)

    def test_the_acls_command_takes_a_user_for_one_role_only(self):
        ran = self.run("--role", "watch", "--principal", "User:CN=eye,O=Plant 7")
        assert ran.stdout.splitlines()[1].endswith(
            "--allow-principal 'User:CN=eye,O=Plant 7' --operation Read --topic forest.control"
        )
        refused = self.run("--principal", "User:all")
        assert (refused.returncode, "name the role as well, for example --role host" in refused.stderr) == (2, True)


# What the page calls that which a row is about.
SAYS = {
    "records": "the records",
    "labels": "the labels",
    "unlabelled": "the topics of `[score]`",
    "repartitioned": "`NAME.client-records` and `NAME.client-labels`",
    "coordinator": "`NAME.coordinator`",
    "clients": "`NAME.clients`",
    "scorers": "`NAME.scorers`",
    "each scorer": "`NAME.scorers.*`",
}


def page_table():
    """The table of docs/kafka.md."""
    columns = ("READ", "WRITE", "DESCRIBE", "CREATE")
    lines = ["| role | reads | writes | sees | may make | group, transactional id |", "| --- " * 6 + "|"]
    for role, rows in ROLES.items():
        of_topics = [row for row in rows if row.kind == "topic" or row.right == "DESCRIBE"]
        cells = [", ".join(cell(row, row.kind) for row in of_topics if row.right == right) for right in columns]
        others = ", ".join(cell(row, row.kind) for row in rows if row not in of_topics)
        lines.append(f"| {' | '.join([role, *cells, others])} |".replace("|  |", "| |").replace("|  |", "| |"))
    return "\n".join(lines)


def cell(row, kind=""):
    own = f"`NAME.{row.what.replace('_', '-').removesuffix('s') if row.what == 'dead_letters' else row.what}`"
    words = [
        kind.replace("topic", ""),
        SAYS.get(row.what, own) + "*" * (not row.vital),
        row.when and f"with `{row.when}`",
    ]
    return " ".join(word for word in words if word)


def test_the_documentation_has_the_table_of_rights():
    assert page_table() in (ROOT / "docs" / "kafka.md").read_text()
