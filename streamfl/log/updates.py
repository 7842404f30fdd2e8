"""What clients send, as it lies in a log: under the client's name as key, in parts where it is large."""

from streamfl import messages
from streamfl.core.bounds import NAME_BYTES, bounded, is_name
from streamfl.core.errors import PeerError
from streamfl.core.protocol.events import Unusable
from streamfl.core.protocol.messages import FromClient
from streamfl.log.parts import Assembly, Headers


def heard(
    assembly: Assembly, key: bytes | None, headers: Headers, value: bytes | None
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
    >>> heard(Assembly(100), b"", (), b"junk")
    Unusable(client='', reason="its key is no client's name of 1 to 256 bytes")
    """
    client = _client(key)
    if client is None:
        return Unusable("", f"its key is no client's name of 1 to {NAME_BYTES} bytes")
    try:
        whole = assembly.add(client, headers, value or b"")
        told = None if whole is None else messages.decode(whole)
    except PeerError as error:
        return Unusable(client, bounded(str(error)))
    if told is None:
        return None
    if not isinstance(told, FromClient) or told.client != client:
        return Unusable(client, bounded(f"no message of client {client!r}"))
    return told


def _client(key: bytes | None) -> str | None:
    """Return the client that a message's key names, None if it can be none."""
    try:
        name = (key or b"").decode()
    except UnicodeDecodeError:
        return None
    return name if name and is_name(name) else None
