"""What `streamfl check` looks at: brokers, topics, rights, and the schema on real records."""

from collections.abc import Sequence

from streamfl.ports import Finding, Placement, RecordFormat
from streamfl_connectors.kafka.connection import Connection
from streamfl_connectors.kafka.topics import Topics


def findings(
    connection: Connection, topics: Topics, placement: Placement, records: RecordFormat
) -> Sequence[Finding]:
    """Return what was found, in the order in which things are needed."""
    raise NotImplementedError
