"""Log-ins with their rights as Strimzi's operator makes them in Kubernetes: a KafkaUser each."""

import json
import re
from collections.abc import Mapping, Sequence

from streamfl.errors import UsageError
from streamfl.runtime.ports import Access
from streamfl_connectors.kafka.access.acls import spelt


def users(accesses: Sequence[Access], cluster: str) -> str:
    """Return a KafkaUser of Strimzi for each role, as documents of JSON, which is YAML.

    Examples
    --------
    >>> right = {"operation": "READ", "resource_type": "TOPIC", "resource_name": "f.", "pattern_type": "PREFIXED"}
    >>> user = json.loads(users([Access("watch", "User:f-watch", [right], [])], "kafka"))
    >>> user["metadata"], user["spec"]["authentication"]["type"]
    ({'name': 'f-watch', 'labels': {'strimzi.io/cluster': 'kafka'}}, 'scram-sha-512')
    >>> user["spec"]["authorization"]["acls"]
    [{'resource': {'type': 'topic', 'name': 'f.', 'patternType': 'prefix'}, 'operations': ['Read'], 'host': '*'}]

    Raises
    ------
    UsageError
        A log-in cannot be the name of a resource of Kubernetes.
    """
    return "\n---\n".join(json.dumps(_user(one, cluster), indent=2) for one in accesses)


def _user(one: Access, cluster: str) -> dict[str, object]:
    name = one.principal.removeprefix("User:")
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", name):
        raise UsageError(
            f"a KafkaUser cannot be called {name!r}: small letters, digits, - and . alone; name it with --principal"
        )
    granted: dict[tuple[str, str, str], list[str]] = {}
    for right in one.rights:
        granted.setdefault(_resource(right), []).append(spelt(right["operation"]))
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
    kind = spelt(right["resource_type"])
    pattern = "prefix" if right["pattern_type"] == "PREFIXED" else "literal"
    return kind[0].lower() + kind[1:], right["resource_name"], pattern
