"""What any base algorithm must do: hold yours against it."""

from collections.abc import Callable
from copy import deepcopy

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.core.learning.algorithms.base import RADIUS, Algorithm, LocalProblem, combine, local_model
from streamfl.core.learning.fixed_point import shortened, weighted_mean
from streamfl.core.learning.model import objective
from streamfl.core.sampling import generator
from streamfl.models import Linear, Softmax
from streamfl.testing.audit import Violation

CLIENTS, RECORDS, FEATURES, LABELS, ROUNDS = 4, 30, 3, 2, 30

# Step sizes that a ladder has, and one that is far too long.
ETAS, TOO_LONG = (0.1, 1.0, 16.0), 1e5


def check_algorithm(make: Callable[[], Algorithm]) -> None:
    """Hold a base algorithm against everything that clients and coordinators rely on.

    Parameters
    ----------
    make
        Makes a new algorithm, whose ball has the default radius; called for every check.

    Raises
    ------
    Violation
        Names the first check that fails.

    Examples
    --------
    >>> from streamfl.core.learning.algorithms import FedAvg
    >>> check_algorithm(FedAvg)
    """
    for check in CHECKS:
        check(make)


def keeps_shapes_and_numbers(make: Callable[[], Algorithm]) -> None:
    """Every result is as large as what it is made from, of finite numbers, and a new array or the same one."""
    algorithm, (W, slope) = make(), _drawn()
    for columns in (0, 1, LABELS):
        part, pull = W[:, :columns], slope[:, :columns]
        for name, found in _results(algorithm, part, pull):
            _expect(isinstance(found, np.ndarray) and found.dtype == np.float64, f"{name} returns {type(found)}")
            _expect(found.shape == part.shape, f"{name} returns shape {found.shape} of {part.shape}")
            _expect(bool(np.isfinite(found).all()), f"{name} returns what is no number")


def changes_nothing_that_it_is_given(make: Callable[[], Algorithm]) -> None:
    """The model and the slope are as before: others hold them, too."""
    W, slope = _drawn()
    before = W.tobytes(), slope.tobytes()
    _results(make(), W, slope)
    _expect((W.tobytes(), slope.tobytes()) == before, "an array that it was given has changed")


def remembers_nothing(make: Callable[[], Algorithm]) -> None:
    """The same step has the same bytes, whatever came before it, at every client."""
    algorithm, (W, slope) = make(), _drawn()
    first = _bytes(algorithm, W, slope)
    for seed in range(1, 4):
        _results(algorithm, *_drawn(seed))
    _expect(_bytes(algorithm, W, slope) == first, "other bytes of the same step: it draws, or remembers other steps")
    _expect(_bytes(make(), W, slope) == first, "a new one has other bytes of the same step")
    _expect(_bytes(deepcopy(algorithm), W, slope) == first, "a copy has other bytes of the same step")


def keeps_a_model_that_nobody_has_changed(make: Callable[[], Algorithm]) -> None:
    """A round whose differences are 0 leaves the model where it was, but for rounding; zeros stay zeros."""
    algorithm, (W, _) = make(), _drawn()
    for model in (W, np.zeros_like(W)):
        kept = combine(algorithm, model, np.zeros_like(model))
        _expect(bool(np.allclose(kept, model, rtol=1e-9, atol=1e-12)), "a round without any update changes the model")


def is_whitened_only_if_a_step_is_plain(make: Callable[[], Algorithm]) -> None:
    """One that may be whitened takes W - eta slope, to the last bit, as the coordinator does in its place."""
    algorithm, (W, slope) = make(), _drawn()
    if algorithm.may_be_whitened:
        plain = all(np.array_equal(algorithm.step(W, slope, eta), W - eta * slope) for eta in ETAS)
        _expect(plain, "it may be whitened, and its step is not W - eta slope")


def lowers_the_loss(make: Callable[[], Algorithm]) -> None:
    """On convex losses, with small steps, every round of all clients lowers the loss of their records."""
    for model in (Linear(), Softmax()):
        algorithm, parts = make(), _parts()
        Z, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        W = np.zeros((FEATURES, model.columns(0 if model.link == "identity" else LABELS)))
        before = objective(model, W, Z, y)
        for _ in range(ROUNDS):
            ends = [local_model(algorithm, LocalProblem(model, *part), W, ETAS[0]) for part in parts]
            W = _combined(algorithm, W, ends)
        after = objective(model, W, Z, y)
        _expect(
            after < before,
            f"{type(model).__name__}: a loss of {after:.4g} after {ROUNDS} rounds, {before:.4g} before",
        )


def knows_no_order_of_clients(make: Callable[[], Algorithm]) -> None:
    """What comes of a round does not depend, to the last bit, on which client stepped or was heard first."""
    (W, _), found = _drawn(), set()
    for parts in (_parts(), _parts()[::-1]):
        algorithm = make()  # in a replay all clients share one
        ends = [local_model(algorithm, LocalProblem(Softmax(), *part), W, 1.0) for part in parts]
        found.add(_combined(algorithm, W, ends).tobytes())
    _expect(len(found) == 1, "another order of clients gives other bytes")


def stays_in_a_ball(make: Callable[[], Algorithm]) -> None:
    """Steps that are far too long, round after round, leave numbers, and no model far outside the ball."""
    algorithm, (W, slope) = make(), _drawn()
    for _ in range(ROUNDS):
        W = _combined(algorithm, W, [algorithm.step(W, slope, TOO_LONG)] * CLIENTS)
        _expect(bool(np.isfinite(W).all()), "steps that are too long end in what is no number")
        norm = float(np.linalg.norm(W))
        _expect(
            norm <= 2.0 * RADIUS,
            f"steps that are too long lead to a norm of {norm:.3g}, and the ball's is {RADIUS:g}",
        )


CHECKS: tuple[Callable[[Callable[[], Algorithm]], None], ...] = (
    keeps_shapes_and_numbers,
    changes_nothing_that_it_is_given,
    remembers_nothing,
    keeps_a_model_that_nobody_has_changed,
    is_whitened_only_if_a_step_is_plain,
    lowers_the_loss,
    knows_no_order_of_clients,
    stays_in_a_ball,
)


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Violation(otherwise)


def _drawn(seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Return a model and a slope, shape (features, labels)."""
    random = generator(seed, "check_algorithm")
    return random.normal(size=(FEATURES, LABELS)), random.normal(size=(FEATURES, LABELS))


def _parts() -> list[tuple[FloatArray, FloatArray]]:
    """Return the records of each client, whose second label lies on one side of a plane."""
    random = generator(0, "check_algorithm", "records")
    parts = [random.normal(size=(RECORDS, FEATURES)) for _ in range(CLIENTS)]
    return [(Z, (Z @ np.array([1.0, -2.0, 0.5]) > 0.3).astype(np.float64)) for Z in parts]


def _results(algorithm: Algorithm, W: FloatArray, slope: FloatArray) -> list[tuple[str, FloatArray]]:
    steps = [("step", algorithm.step(W, slope, eta)) for eta in ETAS]
    averaged = algorithm.to_average(W)
    return [*steps, ("to_average", averaged), ("from_average", algorithm.from_average(averaged))]


def _bytes(algorithm: Algorithm, W: FloatArray, slope: FloatArray) -> list[bytes]:
    return [found.tobytes() for _, found in _results(algorithm, W, slope)]


def _combined(algorithm: Algorithm, W: FloatArray, ends: list[FloatArray]) -> FloatArray:
    """Return the round's model as a coordinator makes it of clients with as many records each."""
    start = algorithm.to_average(W)
    differences = [(RECORDS, shortened(algorithm.to_average(end) - start, RECORDS)) for end in ends]
    return combine(algorithm, W, weighted_mean(differences))
