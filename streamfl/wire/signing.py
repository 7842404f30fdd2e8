"""Keys and signatures (Ed25519): who has written a message.

A signature is over the SHA-256 of the bytes, and over what they are: the role of the signer, the federation, and the
place in its log. So no signature holds for anything else than it was made for. A stamp is a signature with the key
that made it, or the first bytes of that key's digest where readers have a list of keys.
"""

import base64
import binascii
import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from streamfl.errors import PeerError, UsageError
from streamfl.wire.replaced_file import replace

Role = Literal["client", "coordinator", "operator"]

# How public and private keys begin in files and settings; the rest is base64.
PREFIX, PRIVATE_PREFIX = "ed25519:", "ed25519-private:"

KEY_BYTES, ID_BYTES, SIGNATURE_BYTES = 32, 8, 64

# The first byte of a stamp, by what names the key in it: its id, or all of it.
BY_ID, BY_KEY = b"\x01", b"\x02"
NAMED_BY = {BY_ID: ID_BYTES, BY_KEY: KEY_BYTES}

# A signature for another purpose, or of a later version, begins otherwise.
DOMAIN = b"streamfl signature 1"

# Rights of a private key's file that nobody but its owner may have. If another user owns the file, its group may read
# it: so an orchestrator gives a key to a process. The process could not change who reads it anyway.
OTHERS, GROUP_READS = stat.S_IRWXG | stat.S_IRWXO, stat.S_IRGRP


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key; as text it is what lists of members hold.

    >>> key = PublicKey(bytes(32))
    >>> str(key), PublicKey.of(str(key)) == key, key.id.hex()
    ('ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=', True, '66687aadf862bd77')
    """

    raw: bytes

    @classmethod
    def of(cls, text: str) -> "PublicKey":
        """Return the key of a text.

        Raises
        ------
        UsageError
            The text is not a public key.
        """
        raw = _decoded(text, PREFIX)
        if raw is None:
            raise UsageError(f"not a public key: write {PREFIX} and its 44 characters, from `streamfl members key`")
        return cls(raw)

    def __str__(self) -> str:
        return PREFIX + base64.b64encode(self.raw).decode()

    @property
    def id(self) -> bytes:
        """Return the first bytes of the key's digest."""
        return hashlib.sha256(self.raw).digest()[:ID_BYTES]

    def has_signed(self, data: bytes, signature: bytes) -> bool:
        """Tell whether a signature of some bytes is this key's."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, data)
        except (InvalidSignature, ValueError):
            return False
        return True


class PrivateKey:
    """A private key, which no text, log or error shows.

    >>> key = PrivateKey(bytes(32))
    >>> key, str(key.public)[:14]
    (PrivateKey(of ed25519:O2onvM62pC1io6jQKm8Nc2UyFXcd4kOmOsBIoYtZ2ik=), 'ed25519:O2onvM')
    """

    __slots__ = ("_key", "public")

    def __init__(self, raw: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(raw)
        self.public = PublicKey(self._key.public_key().public_bytes_raw())

    def sign(self, data: bytes) -> bytes:
        """Return the signature of some bytes."""
        return self._key.sign(data)

    def secret(self, purpose: str, size: int) -> bytes:
        """Return this many bytes for one purpose, which nobody can compute without the key, nor the key from them.

        >>> key = PrivateKey(bytes(32))
        >>> key.secret("a", 4).hex(), key.secret("b", 4).hex()
        ('8113fce7', 'b42ba8b7')
        """
        return HKDF(SHA256(), size, salt=None, info=purpose.encode()).derive(self._key.private_bytes_raw())

    def __repr__(self) -> str:
        return f"PrivateKey(of {self.public})"

    def __reduce__(self) -> str:
        raise TypeError("a private key is not to be copied")


def make_key(path: Path) -> PublicKey:
    """Make a private key in a new file that only its owner may read; return its public key.

    Raises
    ------
    UsageError
        There is a file already, or it cannot be written.
    """
    key = Ed25519PrivateKey.generate()
    text = PRIVATE_PREFIX + base64.b64encode(key.private_bytes_raw()).decode() + "\n"
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path}: there is such a file already; a key is never overwritten") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    return PublicKey(key.public_key().public_bytes_raw())


def read_key(path: Path) -> PrivateKey:
    """Return the private key in a file.

    Raises
    ------
    UsageError
        It cannot be read, others may use it (of a file of another user, more than that its group may read it), or it
        holds no key.
    """
    try:
        with path.open("rb") as file:
            status, text = os.fstat(file.fileno()), file.read(256)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read: {error.strerror}; make it: streamfl members key --out F"
        ) from error
    granted = GROUP_READS if status.st_uid != os.geteuid() else 0
    if status.st_mode & OTHERS & ~granted:
        raise UsageError(f"{path}: others than its owner may use this private key; chmod 600 {path}, or make another")
    raw = _decoded(text.decode("ascii", "replace").strip(), PRIVATE_PREFIX)
    if raw is None:
        raise UsageError(f"{path}: not a private key; make one: streamfl members key --out F")
    return PrivateKey(raw)


def _decoded(text: str, prefix: str) -> bytes | None:
    """Return the bytes of a key, None if the text is none."""
    try:
        raw = base64.b64decode(text.removeprefix(prefix), validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if text.startswith(prefix) and len(raw) == KEY_BYTES else None


def _statement(role: Role, federation: str, place: str, digest: bytes) -> bytes:
    """Return what is signed; each text has its length before it, so that no two statements have the same bytes.

    >>> _statement("client", "f", "ab", b"") != _statement("client", "fa", "b", b"")
    True
    """
    texts = [text.encode("utf-8", "surrogatepass") for text in (role, federation, place)]
    return DOMAIN + b"".join(len(text).to_bytes(4, "big") + text for text in texts) + digest


@dataclass(frozen=True, slots=True)
class Signer:
    """Stamps what a process writes."""

    # Who signs, as what, and where.
    key: PrivateKey
    role: Role
    federation: str
    # Whether stamps hold the public key, 97 bytes in all, for readers without a list of keys; else 73.
    whole: bool = False

    def stamp(self, place: str, digest: bytes) -> bytes:
        """Return the stamp of bytes of a digest (SHA-256), in a place of the federation's log."""
        named = BY_KEY + self.key.public.raw if self.whole else BY_ID + self.key.public.id
        return named + self.key.sign(_statement(self.role, self.federation, place, digest))


class Keys(Protocol):
    """Whose signatures count."""

    def named(self, name: bytes) -> PublicKey | None:
        """Return the key of an id, or of its own bytes; None if its signatures do not count."""
        ...

    def took(self, key: PublicKey) -> None:
        """Note that a signature of a key was right."""
        ...


@dataclass(frozen=True, slots=True)
class Verifier:
    """Checks stamps.

    Examples
    --------
    >>> key, digest = PrivateKey(bytes(32)), hashlib.sha256(b"data").digest()
    >>> stamp = Signer(key, "client", "forest").stamp("updates", digest)
    >>> listed = Listed.of([key.public])
    >>> len(stamp), Verifier(listed, "client", "forest").signer("updates", digest, stamp) == str(key.public)
    (73, True)
    >>> Verifier(listed, "client", "meadow").signer("updates", digest, stamp)
    Traceback (most recent call last):
    streamfl.errors.PeerError: the signature is not valid
    """

    # Whose signatures count, as what, and where.
    keys: Keys
    role: Role
    federation: str

    def signer(self, place: str, digest: bytes, stamp: bytes | None) -> str:
        """Return the key that has signed bytes of a digest, as text.

        Raises
        ------
        PeerError
            They are not signed, or not by a key whose signatures count, or not these bytes for this place.
        """
        if stamp is None:
            raise PeerError("it is not signed")
        named = NAMED_BY.get(stamp[:1])
        if named is None or len(stamp) != 1 + named + SIGNATURE_BYTES:
            raise PeerError("the signature has an unknown form")
        key = self.keys.named(stamp[1 : 1 + named])
        if key is None:
            raise PeerError(f"signed with a key that is not listed: {stamp[1 : 1 + named].hex()}")
        if not key.has_signed(_statement(self.role, self.federation, place, digest), stamp[1 + named :]):
            raise PeerError("the signature is not valid")
        self.keys.took(key)
        return str(key)


@dataclass(frozen=True, slots=True)
class Listed:
    """The signatures of some keys count."""

    by_name: dict[bytes, PublicKey]

    @classmethod
    def of(cls, keys: Iterable[PublicKey]) -> "Listed":
        """Return a list of keys.

        Raises
        ------
        UsageError
            Two of them have the same id: no id would tell them apart.
        """
        by_id: dict[bytes, PublicKey] = {}
        for key in keys:
            if by_id.setdefault(key.id, key) != key:
                raise UsageError(f"two keys have the id {key.id.hex()}; make one of them again")
        return cls(by_id | {key.raw: key for key in by_id.values()})

    def named(self, name: bytes) -> PublicKey | None:
        """Return a listed key."""
        return self.by_name.get(name)

    def took(self, key: PublicKey) -> None:
        """Do nothing."""


class Anybody:
    """The signatures of every key count: they tell who wrote a message, not whether they may."""

    def named(self, name: bytes) -> PublicKey | None:
        """Return the key of its bytes."""
        return PublicKey(name) if len(name) == KEY_BYTES else None

    def took(self, key: PublicKey) -> None:
        """Do nothing."""


@dataclass
class Pinned:
    """The signatures of the first key that has signed count, from then on."""

    path: Path | None = None  # where that key is kept; without it, it is forgotten with the process
    _key: PublicKey | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            self._key = self._read(self.path)

    @staticmethod
    def _read(path: Path) -> PublicKey:
        try:
            return PublicKey.of(path.read_text(encoding="ascii").strip())
        except (OSError, UnicodeDecodeError, UsageError) as error:
            raise UsageError(
                f"{path}: the coordinator's key cannot be read: {error}; remove the file, and the first that is "
                "heard is kept again"
            ) from error

    def named(self, name: bytes) -> PublicKey | None:
        """Return the pinned key, if it has this name; any key while none is pinned."""
        if self._key is None:
            return PublicKey(name) if len(name) == KEY_BYTES else None
        return self._key if name in (self._key.raw, self._key.id) else None

    def took(self, key: PublicKey) -> None:
        """Pin the first key.

        Raises
        ------
        UsageError
            It cannot be kept.
        """
        if self._key is not None:
            return
        if self.path is not None:
            try:
                replace(self.path, f"{key}\n".encode("ascii"))
            except OSError as error:
                raise UsageError(
                    f"{self.path}: the coordinator's key cannot be kept: {error.strerror}; let this process write "
                    "there, or name the key in [federation] members_file"
                ) from error
        self._key = key


@dataclass(frozen=True, slots=True)
class Signatures:
    """What a process signs with, and whose signatures it asks for; without any, nothing is signed or checked."""

    own: Signer | None = None  # signs what the process writes
    # Check what these have written.
    clients: Verifier | None = None
    coordinator: Verifier | None = None
    operators: Verifier | None = None


OPEN = Signatures()
