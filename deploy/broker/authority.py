"""A certificate authority in a folder, for development and tests; real ones keep their key elsewhere."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from deploy.broker.ports import LOOPBACK
from streamfl.errors import UsageError

AUTHORITY = "streamfl development"

LASTS = timedelta(days=365)

# Clocks may differ, and a certificate is not valid before its time.
BEFORE = timedelta(days=1)


class Authority:
    """A certificate authority whose key and certificates are in a folder; made at the first use of the folder.

    Attributes
    ----------
    certificate
        The file with its certificate, for `ssl_cafile`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.certificate = folder / "ca.pem"
        kept = folder / "ca.key.pem"
        if not kept.exists():
            folder.mkdir(parents=True, exist_ok=True)
            _write(kept, _unlocked(generate_private_key(SECP256R1())))
        key = load_pem_private_key(kept.read_bytes(), None)
        if not isinstance(key, EllipticCurvePrivateKey):
            raise UsageError(f"{kept} is no key of this authority; remove {folder}, and it is made again")
        self._key = key
        if not self.certificate.exists():
            self.certificate.write_bytes(_pem(self._own()))

    def _own(self) -> x509.Certificate:
        extension = x509.BasicConstraints(ca=True, path_length=0)
        built = _built(AUTHORITY, self._key, LASTS).add_extension(extension, critical=True)
        return built.sign(self._key, hashes.SHA256())

    def issue(
        self, name: str, *, lasts: timedelta = LASTS, password: str | None = None, address: str = LOOPBACK
    ) -> Path:
        """Issue a certificate, and return the file that holds it with its key.

        Parameters
        ----------
        name
            Its common name, and the file's.
        lasts
            How long it is valid from now; it has expired if that is negative.
        password
            Encrypts the key.
        address
            The IP address that a server with it may have, next to the name localhost.
        """
        key = generate_private_key(SECP256R1())
        machine = x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(address))]
        )
        signed = _built(name, key, lasts).add_extension(machine, critical=False).sign(self._key, hashes.SHA256())
        path = self._folder / f"{name}.pem"
        _write(path, _unlocked(key) if password is None else _locked(key, password), _pem(signed))
        return path


def _write(path: Path, *parts: bytes) -> None:
    """Write a file that nobody else may read."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(b"".join(parts))


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _unlocked(key: EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _locked(key: EllipticCurvePrivateKey, password: str) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))


def _built(subject: str, key: EllipticCurvePrivateKey, lasts: timedelta) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, AUTHORITY)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BEFORE)
        .not_valid_after(now + lasts)
    )
