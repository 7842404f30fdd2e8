"""River models as external models: their states are exported to named arrays, merged, and imported again."""

from streamfl.models.river_models.federated import FederatedRiverModel
from streamfl.models.river_models.kind import ModelKind, federable
from streamfl.models.river_models.names import given, named
from streamfl.models.river_models.river_pass import RiverPass
from streamfl.models.river_models.state import export, imported
from streamfl.online.external.merging import merged, refusal
from streamfl.protocol.external.tables import Exported, ExportedTable

__all__ = [
    "Exported",
    "ExportedTable",
    "FederatedRiverModel",
    "ModelKind",
    "RiverPass",
    "export",
    "federable",
    "given",
    "imported",
    "merged",
    "named",
    "refusal",
]
