"""Construction of the connector that the settings name."""

from streamfl.ports import Connector
from streamfl.services.installed import connector_named
from streamfl.services.settings import FederationSettings


def connect(settings: FederationSettings) -> Connector:
    """Return the connector that the settings name, built from its own settings."""
    return connector_named(settings.federation.connector)(settings.federation.name, settings.section)
