"""River models as base learners: what they learn is exported to plain arrays, merged, and imported again."""

from streamfl.models.river_models.exported import Exported, Table
from streamfl.models.river_models.kind import Kind, federable
from streamfl.models.river_models.merging import merged, refusal
from streamfl.models.river_models.names import named
from streamfl.models.river_models.river_pass import RiverPass
from streamfl.models.river_models.state import export, imported

__all__ = ["Exported", "Kind", "RiverPass", "Table", "export", "federable", "imported", "merged", "named", "refusal"]
