"""`streamfl acls`: what each role of a federation may do on the log, and the commands that grant it."""

import json
import re
from collections.abc import Mapping, Sequence

from streamfl.core.errors import UsageError
from streamfl.ports import Access, Guarded
from streamfl.services.connectors import connect
from streamfl.services.settings import FederationSettings


def accesses(
    settings: FederationSettings, role: str | None, principal: str | None, config: str | None
) -> Sequence[Access]:
    """Return what each role may do, or the one that is named.

    Raises
    ------
    UsageError
        The log grants no rights, there is no such role, or one log-in is to have all roles.
    """
    connector = connect(settings)
    if not isinstance(connector, Guarded):
        raise UsageError(f"[federation] connector: {settings.federation.connector!r} has no rights to grant")
    if principal is not None and role is None:
        raise UsageError("--principal is the log-in of one role; name that, too: --role host")
    named = {"role": role, "principal": principal, "config": config}
    return connector.access(settings.placement, settings.unlabelled, settings.apart, **named)


def as_commands(all_accesses: Sequence[Access]) -> str:
    """Return the commands that grant the rights, as a script.

    >>> print(as_commands([Access("watch", "User:w", [], ["kafka-acls.sh --add"])]))
    # watch: User:w
    kafka-acls.sh --add
    """
    return "\n\n".join("\n".join([f"# {one.role}: {one.principal}", *one.commands]) for one in all_accesses)


def as_json(all_accesses: Sequence[Access]) -> str:
    """Return the rights as JSON, for tools that grant them.

    >>> as_json([Access("watch", "User:w", [{"operation": "READ"}], [])])
    '[{"role": "watch", "operation": "READ"}]'
    """
    return json.dumps([{"role": one.role, **right} for one in all_accesses for right in one.rights])


def as_strimzi(all_accesses: Sequence[Access], cluster: str) -> str:
    """Return a KafkaUser of Strimzi for each role, as documents of JSON, which is YAML.

    Parameters
    ----------
    all_accesses
        What the roles may do.
    cluster
        The name of the Kafka cluster in Kubernetes.

    Examples
    --------
    >>> right = {"operation": "READ", "resource_type": "TOPIC", "resource_name": "f.", "pattern_type": "PREFIXED"}
    >>> user = json.loads(as_strimzi([Access("watch", "User:f-watch", [right], [])], "kafka"))
    >>> user["metadata"], user["spec"]["authentication"]["type"]
    ({'name': 'f-watch', 'labels': {'strimzi.io/cluster': 'kafka'}}, 'scram-sha-512')
    >>> user["spec"]["authorization"]["acls"]
    [{'resource': {'type': 'topic', 'name': 'f.', 'patternType': 'prefix'}, 'operations': ['Read'], 'host': '*'}]

    Raises
    ------
    UsageError
        A log-in cannot be the name of a resource of Kubernetes.
    """
    return "\n---\n".join(json.dumps(_user(one, cluster), indent=2) for one in all_accesses)


def _user(one: Access, cluster: str) -> dict[str, object]:
    name = one.principal.removeprefix("User:")
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", name):
        raise UsageError(
            f"a KafkaUser cannot be called {name!r}: small letters, digits, - and . alone; name it with --principal"
        )
    granted: dict[tuple[str, str, str], list[str]] = {}
    for right in one.rights:
        granted.setdefault(_resource(right), []).append(_words(right["operation"]))
    acls = [
        {"resource": {"type": kind, "name": name, "patternType": pattern}, "operations": operations, "host": "*"}
        for (kind, name, pattern), operations in granted.items()
    ]
    return {
        "apiVersion": "kafka.strimzi.io/v1beta2",
        "kind": "KafkaUser",
        "metadata": {"name": name, "labels": {"strimzi.io/cluster": cluster}},
        "spec": {
            "authentication": {"type": "scram-sha-512"},
            "authorization": {"type": "simple", "acls": acls},
        },
    }


def _resource(right: Mapping[str, str]) -> tuple[str, str, str]:
    kind = _words(right["resource_type"])
    pattern = "prefix" if right["pattern_type"] == "PREFIXED" else "literal"
    return kind[0].lower() + kind[1:], right["resource_name"], pattern


def _words(name: str) -> str:
    """Return a name of the admin protocol as Strimzi writes it: DescribeConfigs."""
    return "".join(word.capitalize() for word in name.split("_"))
