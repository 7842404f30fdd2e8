"""What is wrong with certificates: with the files of this process, and by what either side says of the other's."""

import re
import socket
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from kafka.cluster import collect_hosts

from streamfl.errors import UsageError

PROTOCOLS = ("SSL", "SASL_SSL")

# A name and an address for which a certificate is not.
MISMATCH = re.compile("(?:Hostname|IP address) mismatch, certificate is not valid for '([^']*)'")

# What a broker answers to a certificate that it does not accept, or to none.
REFUSED = re.compile(r"alert (?:\w+ )*(?:certificate|unknown ca)\b")

# Where the length of an answer should be, a TLS record begins: an alert, of any version.
TLS_RECORD = re.compile(r"Invalid frame length: (\d+)")

SPOKEN = "the brokers speak TLS, and this process does not; set security_protocol to SSL or SASL_SSL"

# Seconds for a broker to answer a greeting.
GREETING = 2.0

CLOCK = "or correct this machine's clock"


def fault(error: BaseException) -> str | None:
    """Return what is wrong with a certificate, and the remedy; None if the error is about something else.

    >>> fault(ssl.SSLError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired"))
    "the brokers' certificate has expired; renew it on the brokers, or correct this machine's clock"
    """
    said = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in said:
        return _of_brokers(said)
    if REFUSED.search(said):
        return (
            "the brokers refuse the certificate of this process, or that there is none; name one in ssl_certfile "
            "that is signed by an authority that they trust, and has not expired"
        )
    if (length := TLS_RECORD.search(said)) and int(length[1]) >> 16 == 0x1503:
        return SPOKEN
    return None


def _of_brokers(said: str) -> str:
    if "has expired" in said:
        return f"the brokers' certificate has expired; renew it on the brokers, {CLOCK}"
    if "not yet valid" in said:
        return f"the brokers' certificate is not valid yet; {CLOCK.removeprefix('or ')}, or wait"
    if "revoked" in said:
        return "the brokers' certificate was revoked; renew it on the brokers"
    if name := MISMATCH.search(said):
        return (
            f"the brokers' certificate is not for {name[1]}; name the brokers in bootstrap_servers, and in their "
            "advertised.listeners, as their certificate does"
        )
    why = said.rpartition("certificate verify failed: ")[2].partition(" (_ssl")[0]
    return f"the brokers' certificate is not trusted ({why}); name in ssl_cafile the authority that signed it"


def is_spoken_by(servers: str | list[str]) -> bool:
    """Tell whether a broker answers a greeting of TLS, whatever its certificate says.

    A broker that is greeted otherwise answers with an alert and hangs up, and the alert may be lost on the way.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return any(_shakes_hands(context, host, port) for host, port, _ in collect_hosts(servers, randomize=False))


def _shakes_hands(context: ssl.SSLContext, host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), GREETING) as plain, context.wrap_socket(plain):
            return True
    except ssl.SSLError as error:
        return REFUSED.search(str(error)) is not None
    except OSError:
        return False


def require_usable(told: Mapping[str, Any], section: str = "kafka") -> None:
    """Check the files with certificates and keys before they are used.

    Raises
    ------
    UsageError
        Names the setting and what is wrong with its file, never what the file holds.
    """
    if told.get("security_protocol") not in PROTOCOLS or told.get("ssl_context") is not None:
        return
    try:
        _require_files(told)
    except UsageError as error:
        raise UsageError(f"[{section}] {error}") from error


def _require_files(told: Mapping[str, Any]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if told.get("ssl_cafile"):
        _require_authority(context, Path(told["ssl_cafile"]))
    if told.get("ssl_certfile"):
        certificate = Path(told["ssl_certfile"])
        key = Path(told["ssl_keyfile"]) if told.get("ssl_keyfile") else certificate
        _require_key(context, certificate, key, told.get("ssl_password"))
        _require_in_time(certificate)


def _require_authority(context: ssl.SSLContext, path: Path) -> None:
    _read("ssl_cafile", path)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise UsageError("ssl_cafile: its file has no certificate in PEM form; name one that has") from None


def _require_key(context: ssl.SSLContext, certificate: Path, key: Path, password: str | None) -> None:
    _read("ssl_certfile", certificate)
    locked = b"ENCRYPTED" in _read("ssl_keyfile", key)
    if locked and not password:
        raise UsageError("ssl_password: the key is encrypted, and there is no password for it; set ssl_password_file")
    try:
        context.load_cert_chain(certificate, key, password=password or "")  # without one, OpenSSL asks the terminal
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            why = (
                "ssl_keyfile: the key is not that of the certificate in ssl_certfile; name the one that belongs to it"
            )
        elif locked:
            why = "ssl_password: it does not open the key; correct it, or what ssl_password_file names"
        else:
            why = "ssl_certfile: no certificate with its key, in PEM form; name a file with both, or give ssl_keyfile"
        raise UsageError(why) from None


def _require_in_time(path: Path) -> None:
    """Check that a certificate has not expired: brokers only say that they do not accept it."""
    own, now = x509.load_pem_x509_certificates(path.read_bytes())[0], datetime.now(UTC)
    if own.not_valid_after_utc < now:
        ended = f"{own.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        raise UsageError(f"ssl_certfile: the certificate expired on {ended}; have it renewed, {CLOCK}")
    if own.not_valid_before_utc > now:
        begins = f"{own.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        raise UsageError(f"ssl_certfile: the certificate is valid from {begins} on; wait, {CLOCK}")


def _read(setting: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{setting}: its file cannot be read: {error.strerror}; correct it") from None
