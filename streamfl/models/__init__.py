"""The models that clients average; their losses are all convex in the weights."""

from streamfl.models.linear import Linear
from streamfl.models.logistic import Logistic
from streamfl.models.softmax import Softmax

__all__ = ["Linear", "Logistic", "Softmax"]
