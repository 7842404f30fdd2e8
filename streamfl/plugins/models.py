"""The models by name: those of this package, and those that other packages register."""

from typing import TYPE_CHECKING, Any

from streamfl.errors import UsageError
from streamfl.learning.model import Model, Task
from streamfl.models import RIVER
from streamfl.models.linear import Huber, Linear
from streamfl.models.logistic import Logistic
from streamfl.models.softmax import Softmax
from streamfl.protocol.registered import Registered

if TYPE_CHECKING:
    from streamfl.models.by_weights import FederatedWeights
    from streamfl.models.river_models import FederatedRiverModel

# The task decides: `softmax` for labels, `squared` for targets.
AUTO = "auto"

# Each is a class: one that derives from `Model` is made without arguments, and rounds train it; one with the methods
# of `streamfl.models.by_weights.WeightsModel` is federated by its weights. A River model learns online.
MODELS = Registered[type[Any]](
    "model",
    Model,
    "streamfl.models",
    {"softmax": Softmax, "logistic": Logistic, "squared": Linear, "huber": Huber},
    others=(AUTO, f"{RIVER}NAME"),
    methods=("weights", "set_weights", "learn", "predict"),
)


def loss_of(model: object) -> type[Model] | None:
    """Return the class of a model that streamfl trains itself, in rounds; None: `auto`, or a model of others.

    >>> loss_of("huber"), loss_of("river:linear_model.PAClassifier")
    (<class 'streamfl.models.linear.Huber'>, None)
    """
    if not isinstance(model, str) or model == AUTO or model.startswith(RIVER):
        return None
    kind = MODELS.find(model)
    return kind if issubclass(kind, Model) else None


def is_external(model: object) -> bool:
    """Tell whether a model is one of others: of River, or a class with weights."""
    return model != AUTO and loss_of(model) is None


def check_model(model: object) -> None:
    """Check that there is such a model.

    Raises
    ------
    UsageError
        There is none, or it cannot be federated.
    """
    if isinstance(model, type):
        _check_class(model)
    elif is_external(model) and not _is_class_name(model):
        from streamfl.models.river_models import given  # noqa: PLC0415  River takes a second to load

        given(model)


def external_model(model: object, task: Task) -> "FederatedRiverModel | FederatedWeights | None":
    """Return the model of others to federate, or None.

    Raises
    ------
    UsageError
        It cannot be federated, or is for the other task.
    """
    if not is_external(model):
        return None
    kind = MODELS.find(model) if isinstance(model, str) and _is_class_name(model) else model
    if isinstance(kind, type):
        from streamfl.models.by_weights import FederatedWeights  # noqa: PLC0415  few use it

        _check_class(kind)
        return FederatedWeights(kind, task)
    from streamfl.models.river_models import FederatedRiverModel, given  # noqa: PLC0415  River takes a second to load

    return FederatedRiverModel(given(kind), task)


def _is_class_name(model: object) -> bool:
    return isinstance(model, str) and not model.startswith(RIVER)


def _check_class(kind: type[Any]) -> None:
    if not MODELS.has_methods(kind):
        missing = [name for name in MODELS.methods if not callable(getattr(kind, name, None))]
        raise UsageError(
            f"model {kind.__name__} has no {' and no '.join(missing)}: a class is federated by its methods "
            f"{', '.join(MODELS.methods)}"
        )
