"""River estimators that run a whole federation in one process, the file format that saves them, and a transformer."""

from streamfl.run.estimators.master_fl import MasterFLClassifier, MasterFLRegressor
from streamfl.run.estimators.time_encoder import TimeEncoder

__all__ = ["MasterFLClassifier", "MasterFLRegressor", "TimeEncoder"]
