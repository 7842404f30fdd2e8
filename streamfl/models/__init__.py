"""The models that clients average; their losses are all convex in the weights."""

from streamfl.models.linear import Huber, Linear
from streamfl.models.logistic import Logistic
from streamfl.models.softmax import Softmax

# What the name of a River model or detector begins with. River takes a second to load, so it is imported only where
# such a name, or an object of River's, is given.
RIVER = "river:"

__all__ = ["RIVER", "Huber", "Linear", "Logistic", "Softmax"]
