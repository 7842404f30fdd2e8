"""Stamps in a log: in a header of a message, so that values stay what they are; before it if the log has no headers.

Every part of a large value carries the stamp of the whole, whose digest each part names: a part that a stranger has
made is refused before it is kept.
"""

import hashlib

from streamfl.errors import PeerError
from streamfl.runtime.log.parts import DIGEST, PART, Headers
from streamfl.wire.signing import NAMED_BY, SIGNATURE_BYTES, Signer, Verifier

SIGNATURE = "signature"

# The most bytes of a stamp that are read.
LONGEST = 1 + max(NAMED_BY.values()) + SIGNATURE_BYTES


def stamp_of(signer: Signer | None, place: str, data: bytes) -> Headers:
    """Return the header with the stamp of a value; none without a signer.

    >>> stamp_of(None, "updates", b"data")
    ()
    """
    return () if signer is None else ((SIGNATURE, signer.stamp(place, hashlib.sha256(data).digest())),)


def signer_of(verifier: Verifier, place: str, headers: Headers, value: bytes | None) -> str:
    """Return the key that has signed a message of a log, or the value of which the message is a part.

    Parameters
    ----------
    headers, value
        The message; without a value it removes what is there. That a part belongs to the value that was signed is
        seen when all parts are there.

    Raises
    ------
    PeerError
        It is not signed as it must be.
    """
    by_name = dict(headers)
    stamp = by_name.get(SIGNATURE)
    if isinstance(stamp, bytes) and len(stamp) > LONGEST:
        raise PeerError("the signature has an unknown form")
    return verifier.signer(place, _digest(by_name, value), stamp)


def _digest(by_name: dict[str, bytes], value: bytes | None) -> bytes:
    """Return the digest of the whole value."""
    if value is None or PART not in by_name:
        return hashlib.sha256(value or b"").digest()
    try:
        return bytes.fromhex(by_name[DIGEST][:64].decode("ascii"))
    except (KeyError, ValueError, TypeError) as error:
        raise PeerError("a part without the digest of the whole") from error


def seal(signer: Signer | None, place: str, data: bytes) -> bytes:
    """Return a value with its stamp before it, for a log without headers."""
    return b"".join(value for _, value in stamp_of(signer, place, data)) + data


def unseal(verifier: Verifier | None, place: str, data: bytes) -> tuple[bytes, str]:
    """Return the value of `seal`, and the key that has signed it; none without a verifier.

    Raises
    ------
    PeerError
        It is not signed as it must be.

    Examples
    --------
    >>> unseal(None, "updates", b"data")
    (b'data', '')
    """
    if verifier is None:
        return data, ""
    length = 1 + NAMED_BY.get(data[:1], 0) + SIGNATURE_BYTES
    value = data[length:]
    return value, verifier.signer(place, hashlib.sha256(value).digest(), data[:length])
