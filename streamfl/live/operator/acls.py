"""`streamfl acls`: what each role of a federation may do on the log, and the commands that grant it."""

import json
from collections.abc import Sequence

from streamfl.errors import UsageError
from streamfl.live.settings.connectors import connect
from streamfl.live.settings.settings import FederationSettings
from streamfl.runtime.ports import Access, Guarded


def guarded(settings: FederationSettings) -> Guarded:
    """Return the connector to the log of a federation.

    Raises
    ------
    UsageError
        The log grants no rights.
    """
    connector = connect(settings)
    if not isinstance(connector, Guarded):
        raise UsageError(f"[federation] connector: {settings.federation.connector!r} has no rights to grant")
    return connector


def accesses(
    connector: Guarded, settings: FederationSettings, role: str | None, principal: str | None, config: str | None
) -> Sequence[Access]:
    """Return what each role may do, or the one that is named.

    Raises
    ------
    UsageError
        There is no such role, or one log-in is to have all roles.
    """
    if principal is not None and role is None:
        raise UsageError("--principal is the user of one role; name the role as well, for example --role host")
    named = {"role": role, "principal": principal, "config": config}
    return connector.access(settings.placement, settings.unlabelled, settings.delayed_labels, **named)


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
