"""Rights as Kafka's administrators grant them: ACLs, and the commands of Kafka's own `kafka-acls.sh`."""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from streamfl.errors import UsageError
from streamfl.runtime.ports import Access
from streamfl_connectors.kafka.access.rights import ROLES, Federated, Need

Group = tuple[str, bool, tuple[str, ...]]


def access(federated: Federated, role: str | None, principal: str | None, connect: Sequence[str]) -> Sequence[Access]:
    """Return what each role may do, or the one that is named; see `streamfl.runtime.ports.Guarded`.

    Raises
    ------
    UsageError
        There is no such role, or a right on records would be one on the federation's own topics.
    """
    if role is not None and role not in ROLES:
        raise UsageError(f"no role is called {role!r}: use one of {', '.join(ROLES)}")
    federated.require_apart()
    return [
        _access(one, principal or f"User:{federated.topics.federation}-{one}", federated.needs(one), connect)
        for one in ([role] if role is not None else ROLES)
    ]


def _access(role: str, principal: str, needs: Sequence[Need], connect: Sequence[str]) -> Access:
    rights = [binding(need, principal) for need in needs]
    return Access(role, principal, rights, list(commands(needs, principal, connect)))


def binding(need: Need, principal: str) -> dict[str, str]:
    """Return a right as Kafka's admin protocol names it.

    >>> binding(Need("READ", "topic", "forest.records.*"), "User:forest-host")["resource_name"]
    'forest.records.'
    """
    beginning = need.beginning
    return {
        "principal": principal,
        "host": "*",
        "permission_type": "ALLOW",
        "operation": need.right,
        "resource_type": need.kind.replace(" ", "_").upper(),
        "resource_name": need.name if beginning is None else beginning,
        "pattern_type": "LITERAL" if beginning is None else "PREFIXED",
    }


def commands(needs: Sequence[Need], principal: str, connect: Sequence[str]) -> Iterator[str]:
    """Yield the commands that grant rights, few of them: one takes several names that get the same rights.

    Parameters
    ----------
    principal
        Who gets them, such as `User:forest-host`.
    connect
        The words by which the command reaches the brokers.

    Examples
    --------
    >>> needs = [Need(right, "topic", name) for name in ("f.a", "f.b") for right in ("READ", "DESCRIBE_CONFIGS")]
    >>> [command] = commands(needs, "User:h", ["--bootstrap-server", "b:9092"])
    >>> print(command)
    kafka-acls.sh --bootstrap-server b:9092 --add --allow-principal User:h --operation Read
        --operation DescribeConfigs --topic f.a --topic f.b
    """
    for (kind, starred, rights), names in _grouped(needs).items():
        words = ["kafka-acls.sh", *connect, "--add", "--allow-principal", principal]
        words += [word for right in rights for word in ("--operation", spelt(right))]
        words += [word for name in names for word in (f"--{kind.replace(' ', '-')}", name)]
        yield shlex.join([*words, *(["--resource-pattern-type", "prefixed"] if starred else [])])


def _grouped(needs: Sequence[Need]) -> Mapping[Group, Sequence[str]]:
    rights: dict[tuple[str, bool, str], list[str]] = {}
    for need in needs:
        starred = need.beginning is not None
        name = need.name if need.beginning is None else need.beginning
        rights.setdefault((need.kind, starred, name), []).append(need.right)
    grouped: dict[Group, list[str]] = {}
    for (kind, starred, name), granted in rights.items():
        grouped.setdefault((kind, starred, tuple(dict.fromkeys(granted))), []).append(name)
    return grouped


def spelt(name: str) -> str:
    """Return a name of the admin protocol as Kafka's own commands, and Strimzi, spell it.

    >>> spelt("DESCRIBE_CONFIGS")
    'DescribeConfigs'
    """
    return "".join(word.capitalize() for word in name.split("_"))
