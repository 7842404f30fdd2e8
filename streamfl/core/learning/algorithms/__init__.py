"""Base algorithms: the local step of a client, and how the coordinator combines clients' results."""

from streamfl.core.learning.algorithms.base import Algorithm, LocalProblem, combine, local_model
from streamfl.core.learning.algorithms.fedavg import FedAvg
from streamfl.core.learning.algorithms.fedomd import FedOMD

__all__ = ["Algorithm", "FedAvg", "FedOMD", "LocalProblem", "combine", "local_model"]
