"""What clients send, as it lies in a log: under the client's name as key, in parts where it is large."""

from streamfl import messages
from streamfl.core.bounds import NAME_BYTES, bounded, is_name
from streamfl.core.errors import PeerError
from streamfl.core.protocol.events import Unusable
from streamfl.core.protocol.messages import FromClient
from streamfl.log.parts import Headers, PartAssembly


def heard(
    assembly: PartAssembly, key: bytes | None, headers: Headers, value: bytes | None
) -> FromClient | Unusable | None:
    """Return what one message of a log says, None for a part of what is to come.

    Parameters
    ----------
    assembly
        Of parts, by client.
    key, headers, value
        Of the message, whoever wrote it.

    Examples
    --------
    >>> heard(PartAssembly(100), b"", (), b"junk")
    Unusable(client='', reason="its key is no client's name of 1 to 256 bytes")
    """
    client = _client(key)
    if client is None:
        return Unusable("", f"its key is no client's name of 1 to {NAME_BYTES} bytes")
    try:
        whole = assembly.add(client, headers, value or b"")
    except PeerError as error:
        return Unusable(client, bounded(str(error)))
    return None if whole is None else understood(whole, client)


def understood(data: bytes, client: str | None = None) -> FromClient | Unusable:
    """Return what the bytes of a whole message say, whoever wrote them.

    Parameters
    ----------
    data
        Of one message.
    client
        In whose name the log has it; None takes the name that the message says.

    Examples
    --------
    >>> understood(b'{"type":"leave","client":"c1","incarnation":"a"}', "c0")
    Unusable(client='c0', reason="no message of client 'c0'")
    """
    try:
        said = messages.decode(data)
    except PeerError as error:
        return Unusable(client or "", bounded(str(error)))
    if not isinstance(said, FromClient) or said.client != (client or said.client):
        return Unusable(
            client or "", bounded(f"no message of client {client!r}" if client else "no message of a client")
        )
    return said


def _client(key: bytes | None) -> str | None:
    """Return the client that a message's key names, None if it can be none."""
    try:
        name = (key or b"").decode()
    except UnicodeDecodeError:
        return None
    return name if name and is_name(name) else None
