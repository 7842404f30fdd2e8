"""One safe file: any damage is told by name, and who is killed while writing leaves what was there."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamfl.arrays import HOLDS_ARRAYS, FloatArray
from streamfl.errors import UsageError
from streamfl.wire import codec, safe_file


@dataclass(frozen=True, eq=False)
class Kept:
    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    names: tuple[str, ...] = ("a", "b")
    share: float = 0.1 + 0.2
    values: FloatArray = field(default_factory=lambda: np.array([[1.0, np.nan], [-0.0, 1e-300]]))
    format: int = 2


def read(path: Path) -> Kept:
    return codec.join(Kept, *safe_file.read(path, "a file of ours", oldest=1, newest=2))


def test_what_is_written_is_read_and_the_same_value_is_the_same_bytes(tmp_path: Path):
    one, two = tmp_path / "one", tmp_path / "two"
    safe_file.write(one, Kept())
    safe_file.write(two, Kept())
    assert one.read_bytes() == two.read_bytes()
    assert (read(one).names, read(one).share) == (("a", "b"), 0.1 + 0.2)
    np.testing.assert_array_equal(read(one).values, Kept().values)
    assert sorted(tmp_path.iterdir()) == [one, two]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kept") / "sound"
    safe_file.write(path, Kept())
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_bit_of_the_contents_can_flip_unnoticed(sound: Path, tmp_path: Path, data: st.DataObject):
    before = sound.read_bytes()
    at, bit = data.draw(st.integers(0, len(before) - 1)), data.draw(st.integers(0, 7))
    spoilt = bytearray(before)
    spoilt[at] ^= 1 << bit
    path = tmp_path / "spoilt"
    path.write_bytes(spoilt)
    try:
        found = read(path)
    except UsageError as error:
        assert str(error).startswith(f"{path}: ")
    else:  # what is left is how JSON may be written: white space, or the name of the digest
        assert (found.names, found.share) == (Kept().names, Kept().share)
        np.testing.assert_array_equal(found.values, Kept().values)


def test_a_file_that_was_cut_off_is_refused(sound: Path, tmp_path: Path):
    path = tmp_path / "cut"
    for length in range(0, sound.stat().st_size, 7):
        path.write_bytes(sound.read_bytes()[:length])
        with pytest.raises(UsageError, match="not a file of ours"):
            read(path)


def test_a_file_without_its_digest_is_damaged(tmp_path: Path):
    path = tmp_path / "cut"
    path.write_bytes(codec.encode(Kept()))
    with pytest.raises(UsageError, match="the file is damaged: its digest is missing"):
        read(path)


def test_a_format_that_is_no_longer_read_is_refused_with_the_version_that_wrote_it_and_the_remedy(tmp_path: Path):
    path = tmp_path / "old"
    safe_file.write(path, Kept(format=1))
    with pytest.raises(UsageError, match=r"format 1, which streamfl 0\.1\.0 wrote; .* load it with streamfl 0\.2\.0"):
        safe_file.read(path, "a file of ours", oldest=2, newest=2)


@pytest.mark.parametrize("version", [True, False, 0, -5, 1.0, "1", None])
def test_a_format_that_no_file_has_is_refused(tmp_path: Path, version: object):
    path = tmp_path / "other"
    plain, arrays = codec.split(Kept())
    path.write_bytes(codec.pack({**plain, "format": version}, arrays))
    with pytest.raises(UsageError, match="not a file of ours"):
        safe_file.read(path, "a file of ours", oldest=1, newest=2)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o666])
def test_a_file_that_is_written_anew_keeps_who_may_read_it(tmp_path: Path, mode: int):
    path = tmp_path / "private"
    path.write_bytes(b"before")
    path.chmod(mode)
    safe_file.write(path, Kept())
    assert path.stat().st_mode & 0o777 == mode
    assert read(path).names == ("a", "b")


def test_a_digest_that_was_taken_out_is_damage_since_format_2(tmp_path: Path):
    path = tmp_path / "without"
    path.write_bytes(codec.encode(Kept()))
    with pytest.raises(UsageError, match="the file is damaged: its digest is missing"):
        read(path)


def test_another_number_than_was_written_is_damage(sound: Path, tmp_path: Path):
    path = tmp_path / "other"
    plain, arrays = codec.unpack(sound.read_bytes())
    path.write_bytes(codec.pack(plain, {"0": np.zeros((2, 2))}))
    with pytest.raises(UsageError, match="the file is damaged: it is not what was written"):
        read(path)
    path.write_bytes(codec.pack({**plain, "share": 0.4}, arrays))
    with pytest.raises(UsageError, match="the file is damaged: it is not what was written"):
        read(path)


def test_who_is_interrupted_leaves_what_was_there(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "kept"
    safe_file.write(path, Kept(names=("first",)))

    def interrupted(file: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        safe_file.write(path, Kept(names=("second",)))
    assert read(path).names == ("first",)
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_one_and_a_pipe_is_written_to(tmp_path: Path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch()
    link.symlink_to(file)
    safe_file.write(link, Kept())
    assert link.is_symlink()
    assert read(file).names == ("a", "b")
    safe_file.write(Path(os.devnull), Kept())
    assert not Path(os.devnull).is_file()


def test_where_nothing_can_be_written_it_says_so(tmp_path: Path):
    for place in (tmp_path / "nowhere" / "kept", tmp_path):
        with pytest.raises(UsageError, match="cannot be written"):
            safe_file.write(place, Kept())
