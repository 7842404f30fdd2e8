"""Addresses and host names in settings."""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from streamfl.records.values.cells import quoted


def address(text: str) -> tuple[str, int]:
    """Return the host and the port of an address.

    Raises
    ------
    ValueError
        It is none.

    >>> address("8000"), address("0.0.0.0:80"), address("[::1]:8000")
    (('127.0.0.1', 8000), ('0.0.0.0', 80), ('::1', 8000))
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 2**16):
        raise ValueError(f"{text!r} is not an address; give PORT or HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


def _is_address(text: str) -> str:
    if text:
        address(text)
    return text


def _as_text(given: object) -> object:
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else given


# `[HOST:]PORT`, or "" for none; a port may be a number.
Address = Annotated[str, BeforeValidator(_as_text), AfterValidator(_is_address)]


def host_name(text: str) -> str:
    """Return a name under which a server may be asked, as it is: a name without a port, whatever the port is.

    Raises
    ------
    ValueError
        It is none, so that no request could come under it.

    >>> host_name("scorer.example.org")
    'scorer.example.org'
    >>> host_name("http://scorer.example.org:8000/v2")
    Traceback (most recent call last):
    ValueError: "http://scorer.example.org:8000/v2" is not a host name; write "scorer.example.org"
    """
    bare = re.sub(r"^[a-z]+://|(:[0-9]*)?(/.*)?$", "", text.strip())
    if not bare or not re.fullmatch(r"[^\s:/\[\]]+", bare):
        remedy = 'write a name such as "scorer.example.org"; addresses need none'
    elif bare != text:
        remedy = f"write {quoted(bare)}"
    else:
        return text
    raise ValueError(f"{quoted(text)} is not a host name; {remedy}")


HostNames = tuple[Annotated[str, AfterValidator(host_name)], ...]
