"""River estimators that run a whole federation in one process, and the file format that saves them."""

from streamfl.estimators.master_fl import MasterFLClassifier, MasterFLRegressor

__all__ = ["MasterFLClassifier", "MasterFLRegressor"]
