"""The models that rounds train, by name: those of this package, and those that other packages register."""

from streamfl.learning.model import Model
from streamfl.models import RIVER
from streamfl.models.linear import Huber, Linear
from streamfl.models.logistic import Logistic
from streamfl.models.softmax import Softmax
from streamfl.protocol.registered import Registered

# The task decides: `softmax` for labels, `squared` for targets.
AUTO = "auto"

# Each is a class that derives from `Model` and is made without arguments. A River model learns online.
MODELS = Registered[type[Model]](
    "model",
    Model,
    "streamfl.models",
    {"softmax": Softmax, "logistic": Logistic, "squared": Linear, "huber": Huber},
    others=(AUTO, f"{RIVER}NAME"),
)
