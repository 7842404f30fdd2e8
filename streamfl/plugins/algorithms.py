"""The base algorithms by name: those of this package, and those that other packages register."""

from streamfl.learning.algorithms.base import Algorithm
from streamfl.learning.algorithms.fedavg import FedAvg
from streamfl.learning.algorithms.fednova import FedNova
from streamfl.learning.algorithms.fedomd import FedOMD
from streamfl.learning.algorithms.fedprox import FedProx
from streamfl.protocol.registered import Registered

# Each is a class that derives from `Algorithm`; its `of` makes one from the user's options.
ALGORITHMS = Registered[type[Algorithm]](
    "algorithm",
    Algorithm,
    "streamfl.algorithms",
    {"fedavg": FedAvg, "fedprox": FedProx, "fednova": FedNova, "fedomd": FedOMD},
)
