"""River models as base learners: what they learn is exported to plain arrays, merged, and imported again."""

from streamfl.models.river_models.exported import Exported, Table
from streamfl.models.river_models.merging import merged, refusal

__all__ = ["Exported", "Table", "merged", "refusal"]
