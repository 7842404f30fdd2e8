"""Free ports on loopback."""

import secrets
import socket

LOOPBACK = "127.0.0.1"

# Below the range of outgoing connections: while the broker is down, a client that connects to a port of that range
# may get the same port as its own, reach itself, and keep the broker from restarting.
LOWEST, HIGHEST = 15_000, 32_000


def is_taken(port: int) -> bool:
    """Tell whether a process listens on a port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that have ended take no port
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False


def is_open(port: int) -> bool:
    """Tell whether a port accepts connections."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((LOOPBACK, port)) == 0


def free_port(*, besides: int = 0) -> int:
    """Draw a port that is free now, other than `besides`."""
    while True:
        port = LOWEST + secrets.randbelow(HIGHEST - LOWEST)
        if port != besides and not is_taken(port):
            return port
