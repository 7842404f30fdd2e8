"""The streams by published matrices: each client has the concept of its step."""

from pathlib import Path

import numpy as np
import pytest

from streamfl_benchmarks.matrices.streams import Federation, concepts, swapped


def test_a_concept_of_digits_exchanges_two_of_them() -> None:
    digits = np.arange(10)
    assert [swapped(digits, k).tolist() for k in range(4)] == [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        [0, 2, 1, 3, 4, 5, 6, 7, 8, 9],
        [0, 1, 2, 4, 3, 5, 6, 7, 8, 9],
        [0, 1, 2, 3, 4, 6, 5, 7, 8, 9],
    ]


def test_the_labels_of_sines_are_reversed_while_a_client_has_the_other_concept() -> None:
    federation = Federation.of("sine", "A", 1)
    below = federation.X[..., 1] <= np.sin(federation.X[..., 0])
    reversed_labels = (below != federation.y).all(axis=2)
    assert (reversed_labels == federation.concepts.astype(bool)).all()
    assert reversed_labels[::5].sum() == concepts("A").sum() == 41


def test_each_image_is_used_once_and_its_digit_swapped_by_the_matrix(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(1), 55_000
    X = np.zeros((n, 784), np.uint8)
    # The digit in the first mean of 2x2 pixels, the number of the image in the next three.
    y, numbers = rng.permutation(np.arange(n) % 10), np.arange(n)
    for pixel, values in ((0, y), (2, numbers % 40), (4, numbers // 40 % 40), (6, numbers // 1600)):
        X[:, [pixel, pixel + 1, pixel + 28, pixel + 29]] = values[:, None]
    np.savez(tmp_path / "mnist.npz", X=X, y=y)
    federation = Federation.of("mnist", "C", 1, tmp_path)
    pixels = np.round(federation.X * 255.0).astype(int)
    assert len(np.unique(pixels[..., 1:4].reshape(-1, 3), axis=0)) == n
    for k in range(4):
        at = federation.concepts == k
        assert (federation.y[at] == swapped(pixels[at][..., 0], k)).all()
    least = min(own.Z.min() for own in federation.round(0))
    assert least == pytest.approx(0.0)
