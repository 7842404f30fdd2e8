"""Operators' commands in a log: JSON that people can read, signed in a header."""

from streamfl.bounds import bounded
from streamfl.errors import PeerError
from streamfl.protocol.events import Ordered, Unusable
from streamfl.protocol.messages import Command
from streamfl.runtime.log.parts import Headers
from streamfl.runtime.log.signatures import signer_of, stamp_of
from streamfl.wire import codec
from streamfl.wire.signing import Signer, Verifier

# What signatures of commands are for.
PLACE = "commands"

# The most bytes of a command.
MOST = 4096

TYPE = "command"


def written(command: Command, signer: Signer | None) -> tuple[bytes, Headers]:
    """Return the value and the headers of a command.

    >>> written(Command(action="evict", client="c0", number=1), None)
    (b'{"type":"command","action":"evict","client":"c0","number":1,"model":""}', ())
    """
    data = codec.encode(command, header={"type": TYPE})
    return data, stamp_of(signer, PLACE, data)


def understood(value: bytes | None, headers: Headers, verifier: Verifier | None) -> Ordered | Unusable:
    """Return the command in a message of any writer.

    Parameters
    ----------
    verifier
        Checks that an operator has signed it; without it anybody may command.

    Examples
    --------
    >>> understood(b'{"type":"command","action":"evict","client":"c0","number":1}', (), None)
    Ordered(command=Command(action='evict', client='c0', number=1, model=''), by='')
    >>> understood(b"junk" * 2000, (), None)
    Unusable(client='', reason='a command of more than 4096 bytes', signer='')
    """
    data = value or b""
    if len(data) > MOST:
        return Unusable("", f"a command of more than {MOST} bytes")
    try:
        by = "" if verifier is None else signer_of(verifier, PLACE, headers, data)
        plain, arrays = codec.unpack(data)
        if plain.get("type") != TYPE:
            raise PeerError("not a command")  # noqa: TRY301  it is refused like all else here
        return Ordered(codec.join(Command, plain, arrays), by)
    except PeerError as error:
        return Unusable("", bounded(f"a command that cannot be used: {error}"))
