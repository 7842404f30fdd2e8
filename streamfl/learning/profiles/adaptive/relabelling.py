"""Models with permuted labels, which fit after a rewired sensor or a changed code table."""

from collections.abc import Mapping

import numpy as np

from streamfl.arrays import FloatArray, IntArray

# Breaks ties in favour of leaving a label unchanged. docs/choices.md, "Bounds and rounding".
TIE = 1e-6


def best_permutation(S: FloatArray) -> IntArray:
    """Return the permutation pi that maximises the sum over a of S[a, pi(a)].

    S[a, b] is the sum, over records of label a, of the log-likelihood that the model gives label b. Of all relabelled
    models, the one whose column a is the old column pi(a) fits the records best. The assignment problem is solved by
    successive shortest paths (Jonker and Volgenant 1987), O(K^3).

    >>> best_permutation(np.array([[-9.0, -1.0, -9.0], [-1.0, -9.0, -9.0], [0.0, 0.0, 0.0]]))
    array([1, 0, 2])
    """
    K = len(S)
    cost = -S - TIE * np.eye(K)
    row_price, column_price = np.zeros(K + 1), np.zeros(K + 1)
    row_of = np.full(K + 1, -1)  # by column; column K holds the row to be placed
    for row in range(K):
        row_of[K] = row
        column, least = K, np.full(K, np.inf)
        came_from, used = np.full(K, K), np.zeros(K + 1, np.bool_)
        while row_of[column] >= 0:
            used[column] = True
            here = row_of[column]
            reduced = cost[here] - row_price[here] - column_price[:K]
            better = ~used[:K] & (reduced < least)
            least[better], came_from[better] = reduced[better], column
            nearest = int(np.where(used[:K], np.inf, least).argmin())
            step = least[nearest]
            row_price[row_of[used]] += step
            column_price[used] -= step
            least[~used[:K]] -= step
            column = nearest
        while column != K:
            before = int(came_from[column])
            row_of[column], column = row_of[before], before
    permutation = np.empty(K, np.int64)
    permutation[row_of[:K]] = np.arange(K)
    return permutation


def relabelled(W: FloatArray, permutation: IntArray) -> FloatArray:
    """Return a model whose column a is column pi(a) of W; columns beyond the permutation stay.

    >>> relabelled(np.array([[1.0, 2.0, 3.0]]), np.array([1, 0]))
    array([[2., 1., 3.]])
    """
    columns = np.arange(W.shape[1])
    columns[: len(permutation)] = permutation
    return W[:, columns]


def relabelled_losses(fits: Mapping[str, FloatArray], permutation: IntArray, bound: float) -> dict[str, float]:
    """Return the relabelled model's sum of scores by client: -S[a, pi(a)], summed and divided by the bound 2 ln K.

    >>> relabelled_losses({"c0": np.array([[-2.0, -0.5], [-1.0, -2.0]])}, np.array([1, 0]), 2.0)
    {'c0': 0.75}
    """
    rows = np.arange(len(permutation))
    return {client: float(-S[rows, permutation].sum()) / bound for client, S in fits.items()}
