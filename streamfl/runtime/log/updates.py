"""Reads clients' messages from a log: keyed by the client's name, and in parts if they are large."""

from streamfl.bounds import NAME_BYTES, bounded, is_name
from streamfl.errors import PeerError
from streamfl.protocol.events import Signed, Unusable
from streamfl.protocol.messages import FromClient
from streamfl.runtime.log.parts import Headers, PartAssembly
from streamfl.runtime.log.signatures import signer_of
from streamfl.wire import messages
from streamfl.wire.signing import Verifier

# What signatures of clients' messages are for.
PLACE = "updates"


def completed(
    assembly: PartAssembly,
    key: bytes | None,
    headers: Headers,
    value: bytes | None,
    verifier: Verifier | None = None,
) -> FromClient | Signed | Unusable | None:
    """Return the client's message that one message of a log completes, None if parts of it are still to come.

    Parameters
    ----------
    key, headers, value
        The message of the log, by any writer.
    verifier
        Checks signatures: without a right one no part of a value is kept, and parts of two signers are kept apart.
        Without a verifier nothing is signed.

    Examples
    --------
    >>> completed(PartAssembly(100), b"", (), b"junk")
    Unusable(client='', reason="its key is not a client's name of 1 to 256 bytes", signer='')
    """
    client = _client(key)
    if client is None:
        return Unusable("", f"its key is not a client's name of 1 to {NAME_BYTES} bytes")
    try:
        signer = "" if verifier is None else signer_of(verifier, PLACE, headers, value)
        whole = assembly.add(assembled(client, signer), headers, value or b"")
    except PeerError as error:
        return Unusable(client, bounded(str(error)))  # of no signer: anybody may send a stamp again with other bytes
    return None if whole is None else understood(whole, client, signer)


def assembled(client: str, signer: str) -> str:
    """Return the name under which parts of a client's values are kept.

    >>> assembled("c0", ""), assembled("c0", "ed25519:AAA=")
    ('c0', 'c0, signed by ed25519:AAA=')
    """
    return f"{client}, signed by {signer}" if signer else client


def understood(data: bytes, client: str | None = None, signer: str = "") -> FromClient | Signed | Unusable:
    """Return the client's message that some bytes encode, by any writer.

    Parameters
    ----------
    client
        The client under whose name the log has it; None: the message's own name counts.
    signer
        Who has signed them, if anybody.

    Examples
    --------
    >>> understood(b'{"type":"leave","client":"c1","nonce":"a"}', "c0")
    Unusable(client='c0', reason="not a message of client 'c0'", signer='')
    """
    try:
        message = messages.decode(data)
    except PeerError as error:
        return Unusable(client or "", bounded(str(error)), signer)
    if not isinstance(message, FromClient) or message.client != (client or message.client):
        what = f"client {client!r}" if client else "a client"
        return Unusable(client or "", bounded(f"not a message of {what}"), signer)
    return Signed(message, signer) if signer else message


def _client(key: bytes | None) -> str | None:
    """Return the client's name in a message's key, None if it is not a name."""
    try:
        name = (key or b"").decode()
    except UnicodeDecodeError:
        return None
    return name if name and is_name(name) else None
