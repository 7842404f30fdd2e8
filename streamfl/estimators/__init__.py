"""River estimators that run a whole federation inside, and the file that one is saved to."""

from streamfl.estimators.master_fl import MasterFLClassifier, MasterFLRegressor

__all__ = ["MasterFLClassifier", "MasterFLRegressor"]
