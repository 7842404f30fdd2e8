"""Ports on loopback that nobody listens on."""

import secrets
import socket

LOOPBACK = "127.0.0.1"

# Below the ports that systems give to outgoing connections: while the broker is down, a client that tries to reach
# a port of that range can be given the same port, reach itself, and keep the broker from coming back.
LOWEST, HIGHEST = 15_000, 32_000


def is_taken(port: int) -> bool:
    """Return whether somebody listens on a port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that have ended take no port
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False


def is_open(port: int) -> bool:
    """Return whether a port accepts connections."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((LOOPBACK, port)) == 0


def free_port(*, besides: int = 0) -> int:
    """Draw a port that is free now, and another than the one named."""
    while True:
        port = LOWEST + secrets.randbelow(HIGHEST - LOWEST)
        if port != besides and not is_taken(port):
            return port
