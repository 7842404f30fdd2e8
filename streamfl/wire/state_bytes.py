"""The coordinator state as bytes: few, since every Commit saves it.

`MAGIC`; the JSON that `codec.py` writes, deflated; all arrays in the form of `array_bytes.py`, in which a table that
is mostly zeros takes few bytes. Nothing is lost.
"""

import json
from typing import Any

from streamfl.arrays import FloatArray
from streamfl.bounds import bounded
from streamfl.errors import PeerError
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.wire import codec
from streamfl.wire.compact import arrays_read, arrays_written
from streamfl.wire.primitives import Bytes, deflated, inflated, sized

# The last byte is the version of this form.
MAGIC = b"sfs\x01"

# What to do with a state of 0.1.0.
BY_0_1_0 = "if streamfl 0.1.0 saved it, let the coordinator of streamfl 0.2.0 close a round first, and update then"

# The most bytes of the JSON, and the most numbers of all arrays.
MOST_TEXT, MOST_NUMBERS = 2**26, 2**28


def encode(state: CoordinatorState) -> bytes:
    """Return a state as bytes.

    >>> from streamfl.learning.profiles.adaptive.promotion import Promotion
    >>> state = CoordinatorState(Promotion(), refused=7)
    >>> decode(encode(state)).refused, len(encode(state)) < len(codec.encode(state))
    (7, True)
    """
    plain, arrays = codec.split(state)
    text = json.dumps(plain, separators=(",", ":")).encode()
    return b"".join((MAGIC, sized(deflated(text)), *arrays_written(list(arrays.values()))))


def decode(data: bytes) -> CoordinatorState:
    """Return the state that some bytes encode.

    Raises
    ------
    PeerError
        The bytes encode no state.
    """
    if not data.startswith(MAGIC[:3]):
        raise PeerError(f"not a coordinator state of a version that is read; {BY_0_1_0}")
    if not data.startswith(MAGIC):
        raise PeerError("a coordinator state of a later version")
    try:
        plain, arrays = _unpacked(Bytes(data[len(MAGIC) :]))
        return codec.join(CoordinatorState, names_now(plain), arrays)
    except (PeerError, ValueError, RecursionError) as error:
        raise PeerError(f"{bounded(f'not a coordinator state: {error}')}; {BY_0_1_0}") from error


def names_now(plain: Any) -> Any:
    """Return the plain data of a state of 0.2.0 or later with the names that its fields have now.

    >>> names_now({"between": None, "members": {"between": {"mark": None}}})
    {'members': {'between': {'watermark': None}}, 'online': None}
    >>> names_now({"profile": {"branches": [{"played": None}], "block": {"played": [0.5], "instances": {}}}})
    {'profile': {'branches': [{'served': None}], 'block': {'instances': {}, 'served': [0.5]}}}
    """
    if isinstance(plain, dict) and isinstance(plain.get("members"), dict):
        members = {name: _renamed(member, "mark", "watermark") for name, member in plain["members"].items()}
        plain = {**plain, "members": members}
    if isinstance(plain, dict) and isinstance(plain.get("profile"), dict):
        plain = {**plain, "profile": _profile_now(plain["profile"])}
    return _renamed(plain, "between", "online")


def _profile_now(profile: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a profile with the names that they have now."""
    if isinstance(branches := profile.get("branches"), list):
        profile = {**profile, "branches": [_renamed(branch, "played", "served") for branch in branches]}
    block = _renamed(profile.get("block"), "played", "served")
    if isinstance(block, dict) and isinstance(begun := block.get("instances"), dict):
        block = {**block, "instances": {at: _renamed(one, "played", "served") for at, one in begun.items()}}
    return profile if block is None else {**profile, "block": block}


def _renamed(fields: Any, old: str, new: str) -> Any:
    """Return fields with one renamed; anything else is refused when the state is joined."""
    if not isinstance(fields, dict) or old not in fields:
        return fields
    return {**{name: value for name, value in fields.items() if name != old}, new: fields[old]}


def _unpacked(data: Bytes) -> tuple[dict[str, object], dict[str, FloatArray]]:
    plain = json.loads(inflated(data.take(data.varint()), MOST_TEXT))
    if not isinstance(plain, dict):
        raise PeerError("its text is not an object")
    return plain, arrays_read(data, MOST_NUMBERS)
