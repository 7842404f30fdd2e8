"""Base algorithms: what a client does to a model in a round, and how the coordinator combines it."""

from streamfl.core.learning.algorithms.base import Algorithm, LocalProblem, combine, local_model
from streamfl.core.learning.algorithms.fedavg import FedAvg
from streamfl.core.learning.algorithms.fedomd import FedOMD

__all__ = ["Algorithm", "FedAvg", "FedOMD", "LocalProblem", "combine", "local_model"]
