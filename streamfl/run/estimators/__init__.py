"""River estimators that run a whole federation in one process, and the file format that saves them."""

from streamfl.run.estimators.master_fl import MasterFLClassifier, MasterFLRegressor

__all__ = ["MasterFLClassifier", "MasterFLRegressor"]
