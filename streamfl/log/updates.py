"""Reads clients' messages from a log: keyed by the client's name, and in parts if they are large."""

from streamfl import messages
from streamfl.core.bounds import NAME_BYTES, bounded, is_name
from streamfl.core.errors import PeerError
from streamfl.core.protocol.events import Unusable
from streamfl.core.protocol.messages import FromClient
from streamfl.log.parts import Headers, PartAssembly


def completed(
    assembly: PartAssembly, key: bytes | None, headers: Headers, value: bytes | None
) -> FromClient | Unusable | None:
    """Return the client's message that one message of a log completes, None if parts of it are still to come.

    Parameters
    ----------
    assembly
        The parts so far, by client.
    key, headers, value
        The message of the log, by any writer.

    Examples
    --------
    >>> completed(PartAssembly(100), b"", (), b"junk")
    Unusable(client='', reason="its key is not a client's name of 1 to 256 bytes")
    """
    client = _client(key)
    if client is None:
        return Unusable("", f"its key is not a client's name of 1 to {NAME_BYTES} bytes")
    try:
        whole = assembly.add(client, headers, value or b"")
    except PeerError as error:
        return Unusable(client, bounded(str(error)))
    return None if whole is None else understood(whole, client)


def understood(data: bytes, client: str | None = None) -> FromClient | Unusable:
    """Return the client's message that some bytes encode, by any writer.

    Parameters
    ----------
    data
        The bytes of one complete message.
    client
        The client under whose name the log has it; None: the message's own name counts.

    Examples
    --------
    >>> understood(b'{"type":"leave","client":"c1","nonce":"a"}', "c0")
    Unusable(client='c0', reason="not a message of client 'c0'")
    """
    try:
        message = messages.decode(data)
    except PeerError as error:
        return Unusable(client or "", bounded(str(error)))
    if not isinstance(message, FromClient) or message.client != (client or message.client):
        return Unusable(
            client or "", bounded(f"not a message of client {client!r}" if client else "not a message of a client")
        )
    return message


def _client(key: bytes | None) -> str | None:
    """Return the client's name in a message's key, None if it is not a name."""
    try:
        name = (key or b"").decode()
    except UnicodeDecodeError:
        return None
    return name if name and is_name(name) else None
