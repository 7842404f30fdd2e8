"""Permutations of labels: the best one, the relabelled model, and its loss."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from streamfl.learning.profiles.adaptive.relabelling import best_permutation, relabelled, relabelled_losses


@pytest.mark.parametrize("K", [1, 2, 3, 5, 10, 40])
@pytest.mark.parametrize("scale", [1.0, 1e5])
def test_the_best_permutation_of_labels_is_the_best_assignment(K: int, scale: float) -> None:
    rng = np.random.default_rng(K)
    for _ in range(20):
        S = -scale * rng.exponential(size=(K, K))
        permutation = best_permutation(S)
        assert sorted(permutation.tolist()) == list(range(K))
        rows, columns = linear_sum_assignment(S, maximize=True)
        assert S[np.arange(K), permutation].sum() == pytest.approx(S[rows, columns].sum(), abs=1e-4)


def test_sums_of_few_values_have_many_best_assignments_of_which_one_is_found() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        S = -rng.integers(0, 3, (6, 6)).astype(np.float64)
        best = S[linear_sum_assignment(S, maximize=True)].sum()
        assert S[np.arange(6), best_permutation(S)].sum() == best


def test_ties_between_permutations_keep_the_labels_as_they_are() -> None:
    assert best_permutation(np.zeros((7, 7))).tolist() == list(range(7))
    # S[a, b] = u_a + v_b: all permutations are as good.
    rng = np.random.default_rng(3)
    for _ in range(20):
        S = -rng.integers(0, 50, (6, 1)) - rng.integers(0, 50, (1, 6)).astype(np.float64)
        assert best_permutation(S).tolist() == list(range(6))
    # Labels 0 and 1 swapped; nothing is known of the others, which had no records.
    S = np.zeros((5, 5))
    S[:2] = [[-9.0, -1.0, -9.0, -9.0, -9.0], [-1.0, -9.0, -9.0, -9.0, -9.0]]
    assert best_permutation(S).tolist() == [1, 0, 2, 3, 4]


def test_outputs_of_the_relabelled_model_are_those_of_the_permuted_labels() -> None:
    rng = np.random.default_rng(1)
    W, Z = rng.normal(size=(3, 4)), rng.normal(size=(10, 3))
    permutation = np.array([2, 0, 1])  # a fourth label came later and stays
    outputs = Z @ relabelled(W, permutation)
    for a, b in enumerate([2, 0, 1, 3]):
        assert outputs[:, a] == pytest.approx((Z @ W)[:, b])


def test_what_a_relabelled_model_loses_is_known_without_scoring_it() -> None:
    # Records of three labels; scores are capped at the bound 2 ln 3, as S is.
    rng = np.random.default_rng(2)
    bound = 2.0 * np.log(3.0)
    W, Z, y = 3.0 * rng.normal(size=(2, 3)), rng.normal(size=(200, 2)), rng.integers(0, 3, 200)

    def logs(model: np.ndarray) -> np.ndarray:
        outputs = Z @ model
        return np.maximum(outputs - np.log(np.exp(outputs).sum(axis=1, keepdims=True)), -bound)

    S = np.eye(3)[y].T @ logs(W)
    permutation = best_permutation(S)
    truth = -logs(relabelled(W, permutation))[np.arange(200), y].sum() / bound
    assert relabelled_losses({"c": S}, permutation, bound) == {"c": pytest.approx(truth)}
    for other in ([0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]):
        assert relabelled_losses({"c": S}, np.array(other), bound)["c"] >= truth - 1e-9
