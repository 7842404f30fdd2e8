"""Base algorithms: the local step of a client, and how the coordinator combines clients' results."""

from streamfl.learning.algorithms.base import Algorithm, LocalProblem, combine, local_model
from streamfl.learning.algorithms.fedavg import FedAvg
from streamfl.learning.algorithms.fedomd import FedOMD

__all__ = ["Algorithm", "FedAvg", "FedOMD", "LocalProblem", "combine", "local_model"]
