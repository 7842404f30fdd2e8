"""A digest by which two models are equal to the last bit."""

import hashlib

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.protocol.registry import Registry


def fingerprint(registry: Registry, W: FloatArray, *, chain: str = "") -> str:
    """Return the SHA-256 of everything that predictions depend on: names, scaler, unit of targets, weights.

    Parameters
    ----------
    W
        The weights, shape (d + 1, columns).
    chain
        The digest of the online models, if there are any.

    Examples
    --------
    >>> registry = Registry(1, ("x",), ("a", "b"), np.zeros(1), np.ones(1))
    >>> fingerprint(registry, np.zeros((2, 2)))[:8] == fingerprint(registry, np.ones((2, 2)))[:8]
    False
    """
    digest = hashlib.sha256(chain.encode())
    for names in (registry.features, registry.labels):
        digest.update("\x1f".join(names).encode() + b"\x1e")
    unit = np.array([registry.target.centre, registry.target.scale])
    for array in (registry.mean, registry.scale, unit, W):
        digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()
