"""Finding connectors: they are installed beside streamfl, under the entry point `streamfl.connectors`."""

from importlib.metadata import entry_points

from streamfl.core.errors import UsageError
from streamfl.ports import Connector
from streamfl.services.settings import FederationSettings

GROUP = "streamfl.connectors"


def connect(settings: FederationSettings) -> Connector:
    """Return the connector that the settings name.

    Raises
    ------
    UsageError
        None of that name is installed.
    """
    name = settings.federation.connector
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in found:
        raise UsageError(f"[federation] connector: no {name!r} is installed; there are {', '.join(sorted(found))}")
    connector: Connector = found[name].load()(settings.federation.name, settings.kafka)
    return connector
