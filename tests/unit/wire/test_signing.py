"""Signatures hold for the bytes, role, federation and place that they were made for, and for nothing else."""

import copy
import hashlib
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.errors import PeerError, UsageError
from streamfl.wire.signing import (
    KEY_BYTES,
    Anybody,
    Keys,
    Listed,
    Pinned,
    PrivateKey,
    PublicKey,
    Signer,
    Verifier,
    make_key,
    read_key,
)

KEY, OTHER = PrivateKey(bytes(KEY_BYTES)), PrivateKey(b"\x01" * KEY_BYTES)
LISTED = Listed.of([KEY.public])
DIGEST = hashlib.sha256(b"data").digest()
texts = st.text(max_size=8)


def refused(verifier: Verifier, place: str, digest: bytes, stamp: bytes | None) -> str:
    with pytest.raises(PeerError) as error:
        verifier.signer(place, digest, stamp)
    return str(error.value)


@pytest.mark.parametrize(("whole", "keys"), [(False, LISTED), (True, LISTED), (True, Anybody())])
@given(data=st.binary(max_size=64), place=texts, federation=texts)
def test_a_signature_is_verified(data: bytes, place: str, federation: str, whole: bool, keys: Keys) -> None:
    digest = hashlib.sha256(data).digest()
    stamp = Signer(KEY, "client", federation, whole).stamp(place, digest)
    assert len(stamp) == (97 if whole else 73)
    assert Verifier(keys, "client", federation).signer(place, digest, stamp) == str(KEY.public)


@pytest.mark.parametrize("whole", [False, True])
def test_a_change_of_any_bit_of_stamp_or_digest_is_refused(whole: bool) -> None:
    stamp = Signer(KEY, "client", "forest", whole).stamp("updates", DIGEST)
    verifier = Verifier(LISTED, "client", "forest")
    for bit in range(8 * len(stamp)):
        changed = bytearray(stamp)
        changed[bit // 8] ^= 1 << bit % 8
        refused(verifier, "updates", DIGEST, bytes(changed))
    for bit in range(8 * len(DIGEST)):
        changed = bytearray(DIGEST)
        changed[bit // 8] ^= 1 << bit % 8
        assert refused(verifier, "updates", bytes(changed), stamp) == "the signature is not valid"


@given(length=st.integers(0, 200), fill=st.integers(0, 255))
def test_junk_is_no_signature(length: int, fill: int) -> None:
    refused(Verifier(Anybody(), "client", "f"), "updates", DIGEST, bytes([fill]) * length)


@given(told=st.tuples(texts, texts), asked=st.tuples(texts, texts))
def test_a_signature_counts_in_no_other_federation_or_place(told: tuple[str, str], asked: tuple[str, str]) -> None:
    stamp = Signer(KEY, "client", told[0]).stamp(told[1], DIGEST)
    if told != asked:
        assert refused(Verifier(LISTED, "client", asked[0]), asked[1], DIGEST, stamp) == "the signature is not valid"


@pytest.mark.parametrize("role", ["coordinator", "operator"])
def test_a_signature_counts_for_no_other_role(role: str) -> None:
    stamp = Signer(KEY, "client", "forest").stamp("control", DIGEST)
    assert "not valid" in refused(Verifier(LISTED, role, "forest"), "control", DIGEST, stamp)  # type: ignore[arg-type]


def test_other_keys_and_no_signature_are_told_apart() -> None:
    verifier = Verifier(LISTED, "client", "forest")
    stamp = Signer(OTHER, "client", "forest").stamp("updates", DIGEST)
    assert (
        refused(verifier, "updates", DIGEST, stamp)
        == f"signed with a key that is not listed: {OTHER.public.id.hex()}"
    )
    assert refused(verifier, "updates", DIGEST, None) == "it is not signed"
    named_by_id = Signer(KEY, "client", "forest").stamp("updates", DIGEST)
    assert "not listed" in refused(Verifier(Anybody(), "client", "forest"), "updates", DIGEST, named_by_id)


def test_the_first_key_is_pinned_also_for_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "plant-7.key.coordinator"
    stamps = {key: Signer(key, "coordinator", "f", whole=True).stamp("control", DIGEST) for key in (KEY, OTHER)}
    forged = stamps[OTHER][:-1] + bytes([stamps[OTHER][-1] ^ 1])
    verifier = Verifier(Pinned(path), "coordinator", "f")
    assert refused(verifier, "control", DIGEST, forged) == "the signature is not valid"
    assert not path.exists()
    assert verifier.signer("control", DIGEST, stamps[KEY]) == str(KEY.public)
    for later in (verifier, Verifier(Pinned(path), "coordinator", "f")):
        assert "not listed" in refused(later, "control", DIGEST, stamps[OTHER])
        assert later.signer("control", DIGEST, stamps[KEY]) == str(KEY.public)


def test_a_pinned_key_that_cannot_be_read_or_kept_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "half").write_text("ed25519:AAAA")
    with pytest.raises(UsageError, match=r"half: the coordinator's key cannot be read: .*; remove the file"):
        Pinned(tmp_path / "half")
    stamp = Signer(KEY, "coordinator", "f", whole=True).stamp("control", DIGEST)
    with pytest.raises(UsageError, match=r"cannot be kept: No such file .*members_file"):
        Verifier(Pinned(tmp_path / "nowhere" / "pin"), "coordinator", "f").signer("control", DIGEST, stamp)


def test_a_key_file_is_made_once_and_read_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "plant-7.key"
    public = make_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_key(path).public == public
    with pytest.raises(UsageError, match="never overwritten"):
        make_key(path)
    path.chmod(0o640)
    with pytest.raises(UsageError, match="chmod 600"):
        read_key(path)


@pytest.mark.parametrize(("mode", "is_given"), [(0o440, True), (0o640, True), (0o660, False), (0o444, False)])
def test_the_group_may_read_a_key_that_another_user_gave_to_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_given: bool
) -> None:
    path = tmp_path / "plant-7.key"
    public = make_key(path)
    path.chmod(mode)
    own = path.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: own)
    with pytest.raises(UsageError, match="others than its owner"):
        read_key(path)
    monkeypatch.setattr("os.geteuid", lambda: own + 1)
    if is_given:
        assert read_key(path).public == public
    else:
        with pytest.raises(UsageError, match="others than its owner"):
            read_key(path)


@pytest.mark.parametrize("text", ["", "ed25519-private:AAAA", "ed25519:" + "A" * 43 + "=", "junk\xff" * 400])
def test_what_is_no_key_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(UsageError, match="not a private key") as error:
        read_key(path)
    assert not text or text not in str(error.value)


def test_a_private_key_is_in_no_text_and_no_copy() -> None:
    shown = f"{KEY!r} {KEY} {[KEY]} {Signer(KEY, 'client', 'f')!r}"
    assert "AAAAAAAA" not in shown
    assert str(KEY.public) in shown
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="private key"):
            copied(KEY)


@pytest.mark.parametrize("text", ["", "AAAA", "ed25519:", "ed25519:AAAA", f"{PublicKey(bytes(32))}A"])
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a public key"):
        PublicKey.of(text)
