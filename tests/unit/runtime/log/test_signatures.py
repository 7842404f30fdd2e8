"""What a log takes from whom, once messages are signed."""

from dataclasses import replace

import pytest

from streamfl.errors import PeerError
from streamfl.protocol.events import Ordered, Signed, Unusable
from streamfl.protocol.messages import Command, Leave, Left
from streamfl.runtime.log import commands, control
from streamfl.runtime.log.control import ControlReader
from streamfl.runtime.log.parts import PartAssembly, cut
from streamfl.runtime.log.signatures import SIGNATURE, seal, signer_of, stamp_of, unseal
from streamfl.runtime.log.updates import PLACE, assembled, completed
from streamfl.wire import messages
from streamfl.wire.signing import KEY_BYTES, Anybody, Listed, PrivateKey, Signer, Verifier

HOST, STRANGER = PrivateKey(bytes(KEY_BYTES)), PrivateKey(b"s" * KEY_BYTES)
SIGNER = Signer(HOST, "client", "f")
VERIFIER = Verifier(Listed.of([HOST.public]), "client", "f")
LEAVE = messages.encode(Leave(client="c0", nonce="7f" * 200))


def parts(data, signer, size=100):
    stamp = stamp_of(signer, PLACE, data)
    return [replace(part, headers=(*part.headers, *stamp)) for part in cut(data, size)]


def read(assembly, sent, verifier=VERIFIER, key=b"c0"):
    return [completed(assembly, key, part.headers, part.value, verifier) for part in sent]


@pytest.mark.parametrize("size", [100, 10_000])
def test_a_signed_message_comes_with_its_signer_whole_or_in_parts(size):
    *none, last = read(PartAssembly(10_000), parts(LEAVE, SIGNER, size))
    assert not any(none)
    assert last == Signed(messages.decode(LEAVE), str(HOST.public))


def test_nothing_of_a_stranger_is_kept_not_even_parts():
    assembly = PartAssembly(10_000)
    sent = parts(LEAVE, SIGNER)
    for signer in (None, Signer(STRANGER, "client", "f"), Signer(HOST, "client", "g"), Signer(HOST, "operator", "f")):
        read(assembly, sent[:2])
        held = assembly.held
        told = read(assembly, parts(LEAVE, signer))
        assert all(isinstance(one, Unusable) and not one.signer for one in told)
        assert assembly.held == held
        assert isinstance(read(assembly, sent[2:])[-1], Signed)


def test_parts_of_two_keys_are_kept_apart():
    verifier = Verifier(Anybody(), "client", "f")
    mine, others = (parts(LEAVE, Signer(key, "client", "f", whole=True)) for key in (HOST, STRANGER))
    assembly = PartAssembly(10_000, allows={assembled("c0", str(HOST.public))}.__contains__)
    mixed = [one for pair in zip(mine, others, strict=True) for one in pair]
    told = [one for one in read(assembly, mixed, verifier) if one is not None]
    assert [one.signer for one in told if isinstance(one, Signed)] == [str(HOST.public), str(STRANGER.public)]


@pytest.mark.parametrize("size", [100, 10_000])
def test_other_bytes_beside_a_signature_count_against_nobody(size):
    spoilt = [replace(part, value=bytes(len(part.value))) for part in parts(LEAVE, SIGNER, size)]
    told = [one for one in read(PartAssembly(10_000), spoilt) if one is not None]
    assert told == [Unusable("c0", told[0].reason)]
    assert "does not match its digest" in told[0].reason


def test_what_is_signed_and_no_message_counts_against_its_signer():
    (told,) = read(PartAssembly(10_000), parts(b"junk", SIGNER))
    assert (told.client, told.signer) == ("c0", str(HOST.public))
    (told,) = read(PartAssembly(10_000), parts(LEAVE, SIGNER, 10_000), key=b"c1")
    assert (told.client, told.signer, told.reason) == ("c1", str(HOST.public), "not a message of client 'c1'")


COORDINATOR = Signer(PrivateKey(b"c" * KEY_BYTES), "coordinator", "f", whole=True)
HEARS = Verifier(Listed.of([COORDINATOR.key.public]), "coordinator", "f")


@pytest.mark.parametrize("most", [20, 1000])
def test_control_messages_are_read_if_they_are_signed(most):
    left = Left(client="c0", nonce="7f")
    signed = list(control.written(left, most, COORDINATOR))
    assert [ControlReader(verifier=HEARS).read(*one) for one in signed[:1]] == [left if len(signed) == 1 else None]
    reader = ControlReader(verifier=HEARS)
    assert [reader.read(*one) for one in signed][-1] == left
    for signer in (None, Signer(HOST, "coordinator", "f"), SIGNER):
        for value, headers in control.written(left, most, signer):
            with pytest.raises(PeerError):
                reader.read(value, headers)
    value, headers = signed[0]
    with pytest.raises(PeerError):
        reader.read(value.replace(b"l", b"L"), [one for one in headers if one[0] == SIGNATURE])


def test_a_removal_is_signed_as_such():
    place = "models step 4/0"
    signer_of(HEARS, place, stamp_of(COORDINATOR, place, b""), None)
    (part,) = cut(b"model", 100)
    of_model = (*part.headers, *stamp_of(COORDINATOR, place, b"model"))
    signer_of(HEARS, place, of_model, b"model")
    with pytest.raises(PeerError):  # the headers of a model are no removal of it
        signer_of(HEARS, place, of_model, None)
    with pytest.raises(PeerError):
        signer_of(HEARS, "models step 4/1", stamp_of(COORDINATOR, place, b""), None)


@pytest.mark.parametrize("stamp", [b"", b"\x01", b"\x01" * 10_000, None])
@pytest.mark.parametrize("part", [None, b"", b"0/1"])
@pytest.mark.parametrize("digest", [None, b"", b"zz", b"\xff" * 64])
def test_messages_with_headers_that_are_no_signature_are_refused(stamp, part, digest):
    named = ((SIGNATURE, stamp), ("part", part), ("digest", digest))
    headers = [(name, value) for name, value in named if value is not None]
    with pytest.raises(PeerError):
        signer_of(HEARS, "control", headers, b"data")


def test_commands_are_an_operators():
    command = Command(action="evict", client="c0", number=1)
    operator = Signer(HOST, "operator", "f")
    verifier = Verifier(Listed.of([HOST.public]), "operator", "f")
    value, headers = commands.written(command, operator)
    assert commands.understood(value, headers, verifier) == Ordered(command, str(HOST.public))
    for signer in (None, SIGNER, Signer(STRANGER, "operator", "f"), Signer(HOST, "operator", "g")):
        told = commands.understood(*commands.written(command, signer), verifier)
        assert isinstance(told, Unusable)
    for junk in (None, b"", b"\xff", b"[]", b'{"type":"leave"}', value.replace(b"evict", b"other")):
        assert isinstance(commands.understood(junk, (), None), Unusable)


def test_a_log_without_headers_has_the_stamp_before_the_value():
    assert unseal(VERIFIER, PLACE, seal(SIGNER, PLACE, LEAVE)) == (LEAVE, str(HOST.public))
    assert seal(None, PLACE, LEAVE) == LEAVE
    for junk in (b"", LEAVE, b"\x01", seal(SIGNER, "control", LEAVE), seal(SIGNER, PLACE, LEAVE)[:-1]):
        with pytest.raises(PeerError):
            unseal(VERIFIER, PLACE, junk)
