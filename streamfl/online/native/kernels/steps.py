"""The outputs of each model for a record, and its step down its loss."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamfl.arrays import BoolArray, FloatArray, IntArray
from streamfl.online.native.kernels.compiled import inner
from streamfl.online.native.kernels.ferns import is_awake
from streamfl.protocol.native.settings import FERNS, WHITENED, WINDOW

# The ridge, as a part of the mean of the second moments; and how many records an inverse is kept for at least.
RIDGE, REFRESH = 0.1, 32

# Up to so many inputs steps are whitened by all second moments, beyond by their diagonal.
MOST_WHITENED = 256

# With so few columns loops go over the ferns first: one over the columns would take longer to begin than to run.
# docs/choices.md, "Loops over ferns".
NARROW = 8

Table = npt.NDArray[np.float32]


class Kinds(NamedTuple):
    """The kinds of the models, which come in the order linear, fern, whitened.

    `sees` is the factor of the features in each model's input, shape (M,); `rate` the rate of each normalised step;
    `first_fern` the first model on ferns, and `ferns` the number of these.
    """

    sees: FloatArray
    rate: FloatArray
    first_fern: int
    ferns: int


class Models(NamedTuple):
    """The arrays that records change: see `NativeState`.

    `visits` counts the visits of this round to each cell. `norms`, running means of squared norms, and `norm_sums`,
    their sums over the round, are of two inputs, shape (2,): the features, and the cells and features of a fern.
    `bearing` counts the round's records by label (C,), `right` those that each model predicted right (M, C). `mean`,
    of z z^T, and `along`, shape (d + 1,), are scratch. `centre` is the value from which targets are measured, shape
    (1,); NaN until it is known.
    """

    weights: FloatArray
    table: Table
    visits: IntArray
    second: FloatArray
    inverse: FloatArray
    norms: FloatArray
    norm_sums: FloatArray
    bearing: FloatArray
    right: FloatArray
    mean: FloatArray
    along: FloatArray
    centre: FloatArray


# The number of rows of the table that a round has changed, and the number of its records.
# `loss` is the sum, over the records, of the log-loss of the agreed mixture, in nats; of targets 0.
COUNTED = np.dtype([("rows", np.int64), ("records", np.int64), ("loss", np.float64)])


class Touched(NamedTuple):
    """The rows of the table that this round has changed, and their values before; `counted` is one `COUNTED`.

    Shapes (rows,), (rows, rates, C) and (1,), with room for all rows that a call may change.
    """

    cells: IntArray
    before: Table
    counted: npt.NDArray[np.void]


@inner
def predict_by_models(
    models: Models, kinds: Kinds, z: FloatArray, cells: IntArray, outputs: FloatArray, awake: BoolArray
) -> None:
    """Compute the outputs of each model, shape (M, C): the product of weights and features, plus its cells."""
    count, columns = models.weights.shape[1:]
    start, end = 0, count
    while end > 1 and not awake[end - 1]:
        end -= 1
    while start < end and not awake[start]:
        start += 1
    for m in range(count):
        for c in range(columns):
            outputs[m, c] = 0.0
    for j in range(len(z)):
        for m in range(start, end):
            for c in range(columns):
                outputs[m, c] += kinds.sees[m] * z[j] * models.weights[j, m, c]
    rates = models.table.shape[1]
    for start in range(0, len(cells), FERNS):
        for r in range(rates):
            m = kinds.first_fern + start // FERNS * rates + r
            if awake[m]:
                add_cells(models.table, cells, start, r, outputs, m)


@inner
def add_cells(table: Table, cells: IntArray, start: int, r: int, outputs: FloatArray, m: int) -> None:
    """Add the cells of the ferns of one depth, `start` the first of them, to the outputs of a model."""
    columns = outputs.shape[1]
    if columns > NARROW:
        for fern in range(start, start + FERNS):
            for c in range(columns):
                outputs[m, c] += table[cells[fern], r, c]
        return
    for c in range(columns):
        total = outputs[m, c]
        for fern in range(start, start + FERNS):
            total += table[cells[fern], r, c]
        outputs[m, c] = total


@inner
def step(
    models: Models,
    kinds: Kinds,
    z: FloatArray,
    cells: IntArray,
    errors: FloatArray,
    seen: int,
    touched: Touched,
    awake: BoolArray,
) -> None:
    """Take every model's step down its loss; `errors` are the derivatives by the outputs, shape (M, C).

    `seen` is the number of records so far, this one included.
    """
    count, columns = models.weights.shape[1:]
    normalised = len(kinds.rate)
    normalise(models, kinds, z, errors, seen)
    step_cells(models, kinds, cells, errors, touched, awake)
    for j in range(len(z)):
        for m in range(normalised):
            for c in range(columns):
                models.weights[j, m, c] -= kinds.sees[m] * z[j] * errors[m, c]
    if normalised < count:
        count_products(models, z)
        if awake[count - 1]:
            whitened_step(models, z, errors, seen)


@inner
def normalise(models: Models, kinds: Kinds, z: FloatArray, errors: FloatArray, seen: int) -> None:
    """Turn derivatives into steps: divide by the mean squared norm of the input, and by more for a larger record.

    So no step overshoots. The input of ferns is their cells, and the features halved.
    """
    square = 0.0
    for j in range(len(z)):
        square += z[j] * z[j]
    squares = (square, FERNS + 0.25 * square)
    for k in range(2):
        models.norm_sums[k] += squares[k]
        models.norms[k] += (squares[k] - models.norms[k]) / min(seen, WINDOW)
    for m in range(len(kinds.rate)):
        k = int(kinds.first_fern <= m < kinds.first_fern + kinds.ferns)
        size = kinds.rate[m] / (models.norms[k] + 0.5 * kinds.rate[m] * squares[k])
        for c in range(errors.shape[1]):
            errors[m, c] *= size


@inner
def step_cells(
    models: Models, kinds: Kinds, cells: IntArray, steps: FloatArray, touched: Touched, awake: BoolArray
) -> None:
    """Take the ferns' steps in the cells of a record; save a cell's values before its first step in the round."""
    rates = models.table.shape[1]
    for start in range(0, len(cells), FERNS):
        first, known = kinds.first_fern + start // FERNS * rates, touched.counted[0].rows
        if not is_awake(awake, first, rates):
            continue
        visit(models, cells, start, touched)
        for r in range(rates):
            keep_rows(models.table, touched, known, r, steps.shape[1])
            step_rows(models.table, cells, start, r, steps, first + r)


@inner
def visit(models: Models, cells: IntArray, start: int, touched: Touched) -> None:
    """Count the visits of a record to the cells of one depth, and note those that are the first of the round."""
    counted = touched.counted[0]
    for fern in range(start, start + FERNS):
        cell = cells[fern]
        if not models.visits[cell] and counted.rows < len(touched.cells):
            touched.cells[counted.rows] = cell
            counted.rows += 1
        models.visits[cell] += 1


@inner
def keep_rows(table: Table, touched: Touched, known: int, r: int, columns: int) -> None:
    """Keep the values of one rate in the cells noted from place `known` on."""
    if columns > NARROW:
        for row in range(known, touched.counted[0].rows):
            for c in range(columns):
                touched.before[row, r, c] = table[touched.cells[row], r, c]
        return
    for c in range(columns):
        for row in range(known, touched.counted[0].rows):
            touched.before[row, r, c] = table[touched.cells[row], r, c]


@inner
def step_rows(table: Table, cells: IntArray, start: int, r: int, steps: FloatArray, m: int) -> None:
    """Take the steps of one model in the cells of one depth."""
    if steps.shape[1] > NARROW:
        for fern in range(start, start + FERNS):
            for c in range(steps.shape[1]):
                table[cells[fern], r, c] -= steps[m, c]
        return
    for c in range(steps.shape[1]):
        for fern in range(start, start + FERNS):
            table[cells[fern], r, c] -= steps[m, c]


@inner
def count_products(models: Models, z: FloatArray) -> None:
    """Add z z^T to the second moments, or its diagonal if no more is used; also while the models sleep."""
    size = len(z)
    for j in range(size):
        if size > MOST_WHITENED:
            models.second[j, j] += z[j] * z[j]
            continue
        for k in range(size):
            models.second[j, k] += z[j] * z[k]


@inner
def whitened_step(models: Models, z: FloatArray, errors: FloatArray, seen: int) -> None:
    """Take the whitened models' steps along A^-1 z, A the mean of z z^T plus a ridge, a few records old."""
    size, count, along = len(z), len(WHITENED), models.along
    first = models.weights.shape[1] - count
    if size <= MOST_WHITENED:
        whiten(models, z, seen)
    else:
        standardise(models, z, seen)
    square = 0.0
    for j in range(size):
        square += z[j] * along[j]
    for m in range(count):
        length = WHITENED[m] / (1.0 + 0.5 * WHITENED[m] * square)
        for j in range(size):
            for c in range(errors.shape[1]):
                models.weights[j, first + m, c] -= along[j] * length * errors[first + m, c]


@inner
def whiten(models: Models, z: FloatArray, seen: int) -> None:
    """Compute A^-1 z by rows of a symmetric matrix, so that no sum waits for the one before."""
    size = len(z)
    if is_stale(models, seen):
        invert(models, seen)
    for k in range(size):
        models.along[k] = 0.0
    for j in range(size):
        for k in range(size):
            models.along[k] += z[j] * models.inverse[j, k]


@inner
def standardise(models: Models, z: FloatArray, seen: int) -> None:
    """Compute A^-1 z for the diagonal of A alone; the whole matrix would cost far more than all other work."""
    size, trace = len(z), 0.0
    for j in range(size):
        trace += models.second[j, j]
    for j in range(size):
        models.along[j] = z[j] * seen / (models.second[j, j] + RIDGE * trace / size)


@inner
def is_stale(models: Models, seen: int) -> bool:
    """Tell whether the inverse must be computed again: so seldom that it costs no more than the steps.

    That is every 32 records, or every d + 1 if that is more, and whenever the number of records has doubled.
    """
    size = len(models.inverse)
    doubled = seen >= REFRESH and seen & (seen - 1) == 0
    return math.isnan(models.inverse[0, 0]) or doubled or seen % max(REFRESH, size) == 0


@inner
def invert(models: Models, seen: int) -> None:
    """Invert the mean of z z^T plus a ridge by elimination; it is positive definite, so it needs no pivoting."""
    A, inverse = models.mean, models.inverse
    size = len(A)
    ridge = 0.0
    for j in range(size):
        ridge += RIDGE * models.second[j, j] / seen / size
    for j in range(size):
        for k in range(size):
            A[j, k] = models.second[j, k] / seen
            inverse[j, k] = 0.0
        A[j, j] += ridge
        inverse[j, j] = 1.0
    for i in range(size):
        pivot = A[i, i]
        for k in range(size):
            A[i, k] /= pivot
            inverse[i, k] /= pivot
        for j in range(size):
            factor = A[j, i]
            if j != i and factor != 0.0:
                for k in range(size):
                    A[j, k] -= factor * A[i, k]
                    inverse[j, k] -= factor * inverse[i, k]
