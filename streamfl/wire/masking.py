"""The secrets behind masked sums, by `cryptography`: X25519 keys, and ChaCha20 to expand seeds."""

import os

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from streamfl.arrays import IntArray
from streamfl.errors import PeerError

# The most secrets that a client keeps: it has few peers, but these may come and go.
MOST_KEPT = 4096


class MaskKeys:
    """The keys of one start of a client, which no text, log or error shows.

    Parameters
    ----------
    raw
        64 random bytes: a private key (X25519), and the secret of the client's own masks. None: new ones.

    Examples
    --------
    >>> a, b = MaskKeys(bytes(63) + b"a"), MaskKeys(b"b" + bytes(63))
    >>> a.shared(b.public) == b.shared(a.public), a.public[:8]
    (True, '2fe57da3')
    >>> expand(bytes(32), 2)
    array([-8053014886254331786,  2935650227004792128])
    """

    __slots__ = ("_key", "_shared", "own", "public")

    def __init__(self, raw: bytes | None = None) -> None:
        raw = os.urandom(64) if raw is None else raw
        self._key = X25519PrivateKey.from_private_bytes(raw[:32])
        self.own = raw[32:]
        self.public = self._key.public_key().public_bytes_raw().hex()
        self._shared: dict[str, bytes] = {}

    def shared(self, public: str) -> bytes:
        """Return the secret that only this client and the owner of a public key know.

        Raises
        ------
        PeerError
            The text is not a public key, or one with which there are no secrets.
        """
        known = self._shared.get(public)
        if known is None:
            known = self._agreed(public)
            if len(self._shared) >= MOST_KEPT:
                self._shared.clear()
            self._shared[public] = known
        return known

    def _agreed(self, public: str) -> bytes:
        try:
            point = self._key.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(public)))
        except ValueError as error:
            raise PeerError(f"not a key for masks: {error}") from None
        both = "".join(sorted((self.public, public)))
        return HKDF(SHA256(), 32, salt=None, info=b"streamfl masks 1" + both.encode()).derive(point)

    def expand(self, seed: bytes, n: int) -> IntArray:
        """Return the n whole numbers that a seed stands for."""
        return expand(seed, n)

    def __repr__(self) -> str:
        return f"MaskKeys(of {self.public})"

    def __reduce__(self) -> str:
        raise TypeError("keys are not to be copied")


def expand(seed: bytes, n: int) -> IntArray:
    """Return the first n whole numbers of the key stream of ChaCha20; a seed is the key of one mask alone."""
    stream = Cipher(ChaCha20(seed, bytes(16)), mode=None).encryptor().update(bytes(8 * n))
    return np.frombuffer(stream, "<i8").astype(np.int64)
