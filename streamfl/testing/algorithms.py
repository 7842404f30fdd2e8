"""Conformance checks for base algorithms."""

import math
from collections.abc import Callable
from copy import deepcopy

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.algorithms.base import RADIUS, Algorithm, LocalProblem, combine, local_model
from streamfl.learning.fixed_point import shortened, weighted_mean
from streamfl.learning.model import objective
from streamfl.models import Linear, Softmax
from streamfl.sampling import generator
from streamfl.testing.violation import expect

CLIENTS, RECORDS, FEATURES, LABELS, ROUNDS = 4, 30, 3, 2, 30

# Step sizes of a ladder, and one that is far too long.
ETAS, TOO_LONG = (0.1, 1.0, 16.0), 1e5


def check_algorithm(make: Callable[[], Algorithm]) -> None:
    """Check that a base algorithm does all that clients and coordinators rely on.

    Parameters
    ----------
    make
        Makes a new algorithm whose ball has the default radius; called for every check.

    Raises
    ------
    Violation
        A check fails; the message says how.

    Examples
    --------
    >>> from streamfl.learning.algorithms import FedAvg
    >>> check_algorithm(FedAvg)
    """
    for check in CHECKS:
        check(make)


def keeps_shapes_and_numbers(make: Callable[[], Algorithm]) -> None:
    """Every result is a float64 array of finite numbers with the shape of its input."""
    algorithm, (W, slope) = make(), _drawn()
    for columns in (0, 1, LABELS):
        part, pull = W[:, :columns], slope[:, :columns]
        for name, result in _results(algorithm, part, pull):
            expect(isinstance(result, np.ndarray) and result.dtype == np.float64, f"{name} returns {type(result)}")
            expect(result.shape == part.shape, f"{name} returns shape {result.shape} for shape {part.shape}")
            expect(bool(np.isfinite(result).all()), f"{name} returns numbers that are not finite")


def leaves_its_inputs_unchanged(make: Callable[[], Algorithm]) -> None:
    """The model and the slope stay as they are, since they are used elsewhere as well."""
    W, slope = _drawn()
    before = W.tobytes(), slope.tobytes()
    _results(make(), W, slope)
    expect((W.tobytes(), slope.tobytes()) == before, "it changes an array that was passed to it")


def has_no_state(make: Callable[[], Algorithm]) -> None:
    """The same step has the same bytes, whatever came before it, at every client."""
    algorithm, (W, slope) = make(), _drawn()
    first = _bytes(algorithm, W, slope)
    for seed in range(1, 4):
        _results(algorithm, *_drawn(seed))
    expect(
        _bytes(algorithm, W, slope) == first,
        "the same step gives other bytes: it is random, or depends on other steps",
    )
    expect(_bytes(make(), W, slope) == first, "the same step gives other bytes in a new instance")
    expect(_bytes(deepcopy(algorithm), W, slope) == first, "the same step gives other bytes in a copy")


def keeps_a_model_in_a_round_without_differences(make: Callable[[], Algorithm]) -> None:
    """A round whose differences are 0 leaves the model unchanged, up to rounding; zeros stay zeros."""
    algorithm, (W, _) = make(), _drawn()
    for model in (W, np.zeros_like(W)):
        kept = combine(algorithm, model, np.zeros_like(model))
        expect(bool(np.allclose(kept, model, rtol=1e-9, atol=1e-12)), "a round without differences changes the model")


def is_whitened_only_if_a_step_is_plain(make: Callable[[], Algorithm]) -> None:
    """If it may be whitened, its step is W - eta slope to the last bit: the coordinator takes that step instead."""
    algorithm, (W, slope) = make(), _drawn()
    if algorithm.may_be_whitened:
        plain = all(np.array_equal(algorithm.step(W, slope, eta), W - eta * slope) for eta in ETAS)
        expect(plain, "it may be whitened, but its step is not W - eta slope")


def takes_the_first_step_as_it_is(make: Callable[[], Algorithm]) -> None:
    """Nothing pulls a local step at the round's start, and the work of steps is a positive number."""
    algorithm, (W, _) = make(), _drawn()
    expect(not np.any(algorithm.pull(W, W)), "it pulls a step at the round's start")
    works = [algorithm.work(steps) for steps in (1, 2, 1000)]
    expect(all(0.0 < work < math.inf for work in works), f"the work of 1, 2 and 1000 steps is {works}")


def lowers_the_loss(make: Callable[[], Algorithm]) -> None:
    """On convex losses, rounds of small steps lower the loss of all clients' records."""
    for model in (Linear(), Softmax()):
        algorithm, parts = make(), _parts()
        Z, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        W = np.zeros((FEATURES, model.columns(0 if model.link == "identity" else LABELS)))
        before = objective(model, W, Z, y)
        for _ in range(ROUNDS):
            ends = [local_model(algorithm, LocalProblem(model, *part), W, ETAS[0]) for part in parts]
            W = _combined(algorithm, W, ends)
        after = objective(model, W, Z, y)
        expect(
            after < before,
            f"{type(model).__name__}: the loss is {after:.4g} after {ROUNDS} rounds and was {before:.4g} before",
        )


def ignores_the_order_of_clients(make: Callable[[], Algorithm]) -> None:
    """The result of a round does not depend, to the last bit, on the order in which clients step or are added."""
    (W, _), results = _drawn(), set()
    for parts in (_parts(), _parts()[::-1]):
        algorithm = make()  # in a replay all clients share an instance
        ends = [local_model(algorithm, LocalProblem(Softmax(), *part), W, 1.0) for part in parts]
        results.add(_combined(algorithm, W, ends).tobytes())
    expect(len(results) == 1, "another order of clients gives other bytes")


def stays_in_a_ball(make: Callable[[], Algorithm]) -> None:
    """Steps that are far too long give finite numbers, and no model far outside the ball."""
    algorithm, (W, slope) = make(), _drawn()
    for _ in range(ROUNDS):
        W = _combined(algorithm, W, [algorithm.step(W, slope, TOO_LONG)] * CLIENTS)
        expect(bool(np.isfinite(W).all()), "steps that are too long give numbers that are not finite")
        norm = float(np.linalg.norm(W))
        expect(
            norm <= 2.0 * RADIUS,
            f"steps that are too long give a norm of {norm:.3g}, but the ball's radius is {RADIUS:g}",
        )


CHECKS: tuple[Callable[[Callable[[], Algorithm]], None], ...] = (
    keeps_shapes_and_numbers,
    leaves_its_inputs_unchanged,
    has_no_state,
    keeps_a_model_in_a_round_without_differences,
    is_whitened_only_if_a_step_is_plain,
    takes_the_first_step_as_it_is,
    lowers_the_loss,
    ignores_the_order_of_clients,
    stays_in_a_ball,
)


def _drawn(seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Return a model and a slope, shape (features, labels)."""
    random = generator(seed, "check_algorithm")
    return random.normal(size=(FEATURES, LABELS)), random.normal(size=(FEATURES, LABELS))


def _parts() -> list[tuple[FloatArray, FloatArray]]:
    """Return the records of each client; a plane separates the two labels."""
    random = generator(0, "check_algorithm", "records")
    parts = [random.normal(size=(RECORDS, FEATURES)) for _ in range(CLIENTS)]
    return [(Z, (Z @ np.array([1.0, -2.0, 0.5]) > 0.3).astype(np.float64)) for Z in parts]


def _results(algorithm: Algorithm, W: FloatArray, slope: FloatArray) -> list[tuple[str, FloatArray]]:
    steps = [("step", algorithm.step(W, slope, eta)) for eta in ETAS]
    averaged = algorithm.to_average(W)
    return [*steps, ("to_average", averaged), ("from_average", algorithm.from_average(averaged))]


def _bytes(algorithm: Algorithm, W: FloatArray, slope: FloatArray) -> list[bytes]:
    return [result.tobytes() for _, result in _results(algorithm, W, slope)]


def _combined(algorithm: Algorithm, W: FloatArray, ends: list[FloatArray]) -> FloatArray:
    """Return the round's model as a coordinator makes it from clients with equal numbers of records."""
    start = algorithm.to_average(W)
    differences = [(RECORDS, shortened(algorithm.to_average(end) - start, RECORDS)) for end in ends]
    return combine(algorithm, W, weighted_mean(differences))
