"""Base algorithms: the local step of a client, and how the coordinator combines clients' results."""

from streamfl.learning.algorithms.base import Algorithm, LocalProblem, combine, local_model
from streamfl.learning.algorithms.fedavg import FedAvg
from streamfl.learning.algorithms.fednova import FedNova
from streamfl.learning.algorithms.fedomd import FedOMD
from streamfl.learning.algorithms.fedprox import FedProx

__all__ = ["Algorithm", "FedAvg", "FedNova", "FedOMD", "FedProx", "LocalProblem", "combine", "local_model"]
