"""Construction of the connector that the settings name."""

from streamfl.errors import UsageError
from streamfl.live.settings.installed import connector_named
from streamfl.live.settings.settings import FederationSettings
from streamfl.runtime.ports import Connector
from streamfl.wire.signing import OPEN, Signatures


def connect(settings: FederationSettings, signatures: Signatures = OPEN) -> Connector:
    """Return the connector that the settings name, built from its own settings.

    Raises
    ------
    UsageError
        Messages are to be signed, and the connector cannot carry signatures.
    """
    connector = connector_named(settings.federation.connector)
    if signatures == OPEN:
        return connector(settings.federation.name, settings.section)
    if not getattr(connector, "carries_signatures", False):
        raise UsageError(
            f"[federation] members: the connector {settings.federation.connector!r} has no signatures; set it to "
            '"open"'
        )
    return connector(settings.federation.name, settings.section, signatures)
