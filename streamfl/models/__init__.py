"""The models that are averaged across clients; all are convex in their weights."""

from streamfl.models.linear import Linear
from streamfl.models.logistic import Logistic
from streamfl.models.softmax import Softmax

__all__ = ["Linear", "Logistic", "Softmax"]
