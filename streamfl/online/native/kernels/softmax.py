"""Softmax: probabilities from outputs, and the predictions of a softmax model of standardised features."""

import math

from streamfl.arrays import FloatArray
from streamfl.online.native.kernels.compiled import compiled, inner


@inner
def softmax(outputs: FloatArray, first: int, end: int) -> None:
    """Turn rows of outputs into probabilities."""
    columns = outputs.shape[1]
    for m in range(first, end):
        largest, total = -math.inf, 0.0
        for c in range(columns):
            largest = max(largest, outputs[m, c])
        for c in range(columns):
            outputs[m, c] = math.exp(outputs[m, c] - largest)
            total += outputs[m, c]
        for c in range(columns):
            outputs[m, c] /= total


@compiled
def rounds_say(
    X: FloatArray, mean: FloatArray, scale: FloatArray, farthest: float, W: FloatArray, outputs: FloatArray
) -> None:
    """Compute the probabilities of a softmax model of standardised features, shape (n, C): see `Registry.design`.

    The last row of W, shape (d + 1, C), belongs to the constant 1. `outputs` holds zeros before, the result after.
    """
    features, columns = X.shape[1], W.shape[1]
    for i in range(len(X)):
        for j in range(features):
            z = (X[i, j] - mean[j]) * (1.0 / scale[j])
            if not math.isnan(z):
                z = min(max(z, -farthest), farthest)
                for c in range(columns):
                    outputs[i, c] += z * W[j, c]
        for c in range(columns):
            outputs[i, c] += W[features, c]
    softmax(outputs, 0, len(X))
