"""What the coordinator alone knows, from its private key: by it signs are drawn, and what it saves is sealed."""

import base64
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from streamfl.wire.signing import PrivateKey

SEED_BYTES, CIPHER_BYTES = 32, 64


@dataclass(frozen=True, slots=True)
class Sealing:
    """A secret that follows from a private key; whoever has the same key has the same one, such as a standby.

    Texts are sealed by AES-SIV (RFC 5297), which needs no number used once: the same bytes have the same text, and
    two texts show no more than whether their bytes are the same.

    Examples
    --------
    >>> sealing = Sealing.of(PrivateKey(bytes(32)), "forest")
    >>> sealing.unseal(sealing.seal(b"data")), sealing.unseal("data"), Sealing.of(PrivateKey(bytes(32)), "forest")
    (b'data', None, Sealing())
    """

    seed: int = field(repr=False)  # see `streamfl.learning.influence.Secret`
    _cipher: AESSIV = field(repr=False, compare=False)

    @classmethod
    def of(cls, key: PrivateKey, federation: str) -> "Sealing":
        """Return the secret of a key for a federation."""
        raw = key.secret(f"streamfl influence 1 {federation}", SEED_BYTES + CIPHER_BYTES)
        return cls(int.from_bytes(raw[:SEED_BYTES], "big"), AESSIV(raw[SEED_BYTES:]))

    def seal(self, data: bytes) -> str:
        """Return a text from which nobody without the key can tell the bytes."""
        return base64.b64encode(self._cipher.encrypt(data, None)).decode()

    def unseal(self, text: str) -> bytes | None:
        """Return the bytes of a text; None if another key has sealed it, or none."""
        try:
            return self._cipher.decrypt(base64.b64decode(text, validate=True), None)
        except (InvalidTag, ValueError):
            return None
