"""Randomness that depends only on its purpose, never on the order of draws: keyed generators and hashes."""

import hashlib
from functools import lru_cache

import numpy as np

from streamfl.arrays import IntArray


def generator(seed: int, *key: str | int) -> np.random.Generator:
    """Return a generator for one purpose. The same seed and key give the same stream, whatever was drawn before.

    >>> int(generator(0, "schedule", 5).integers(1000)) == int(generator(0, "schedule", 5).integers(1000))
    True
    """
    return np.random.default_rng(np.random.SeedSequence([seed, digest(*key)]))


@lru_cache(maxsize=1024)
def digest(*key: str | int) -> int:
    """Return 64 bits of the BLAKE2 hash of a key.

    >>> digest("history", "c0") == digest("history", "c1")
    False
    """
    text = "\x1f".join(str(part) for part in key)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def ranks(seed: int, client: str, ordinals: IntArray) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return a hash of each record's ordinal, shape (n,): SplitMix64 of the ordinal under a key of seed and client.

    The records with the smallest ranks are a uniform sample, the same wherever they are read.

    >>> [int(r) >> 32 for r in ranks(0, "c0", np.array([0, 1]))]
    [2918314858, 4122075266]
    """
    counter = np.asarray(ordinals, dtype=np.uint64) + np.uint64(1)
    z = np.uint64(digest(seed, client)) + counter * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def sampled_rounds(seed: int, rounds: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Return at most `most` of the rounds, those with the smallest hash, in increasing order.

    The choice is stable: a round that left the sample never comes back as more rounds arrive.

    >>> sampled_rounds(0, (1, 2, 3, 4, 5), 3)
    (1, 4, 5)
    """
    chosen = sorted(rounds, key=lambda t: digest(seed, "round", t))[:most]
    return tuple(sorted(chosen))
