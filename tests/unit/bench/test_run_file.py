"""Files of runs: the same runs give the same bytes, and each run keeps its origin."""

import gzip
import time
from pathlib import Path

import pytest

from streamfl.errors import UsageError
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Kept, Row, continued, read, write

EARLIER = Origin(
    command="streamfl bench drift",
    machine="one",
    date="2026-01-02",
    version="0.1.0",
    code=("a.py",),
    digest="unknown",
)
LATER = EARLIER.model_copy(update={"date": "2026-02-03", "digest": "0" * 64})
KEPT = [Kept(EARLIER, {"seed": 2, "hit": 0.5}), Kept(LATER, {"seed": 1, "hit": 0.25}), Kept(EARLIER, {"seed": 7})]


@pytest.mark.parametrize("name", ["runs.json", "runs.json.gz"])
def test_runs_are_found_again_those_of_one_origin_together(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, KEPT)
    assert read(tmp_path / name) == [KEPT[0], KEPT[2], KEPT[1]]


def test_the_same_runs_give_the_same_bytes_at_another_time_under_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a.json.gz", KEPT)
    monkeypatch.setattr(time, "time", lambda: 2e9)
    write(tmp_path / "b.json.gz", read(tmp_path / "a.json.gz"))
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_a_file_has_a_line_for_each_run_and_says_its_seeds(tmp_path: Path) -> None:
    write(tmp_path / "runs.json.gz", KEPT)
    lines = gzip.decompress((tmp_path / "runs.json.gz").read_bytes()).decode().splitlines()
    assert '{"seed": 2, "hit": 0.5},' in lines
    assert '"seeds": [2, 7],' in lines


def test_a_file_with_other_seeds_than_it_says_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "runs.json", KEPT)
    text = (tmp_path / "runs.json").read_text()
    (tmp_path / "runs.json").write_text(text.replace('{"seed": 7}', '{"seed": 8}'))
    with pytest.raises(UsageError, match="other seeds than it says"):
        read(tmp_path / "runs.json")


@pytest.mark.parametrize(
    "content",
    [b"", b"[]x", b'[{"seeds": []}]', gzip.compress(b"{}"), gzip.compress(b"[]")[:-9]],
    ids=["empty", "more than JSON", "not our fields", "another value", "cut short"],
)
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "runs.json.gz").write_bytes(content)
    with pytest.raises(UsageError, match=r"runs\.json\.gz: (it holds no runs|cannot be read)"):
        read(tmp_path / "runs.json.gz")


def test_runs_of_code_that_has_changed_since_are_of_older_code() -> None:
    now = Origin.now("regret")
    assert [origin.age for origin in (now, EARLIER, now.model_copy(update={"digest": "0" * 64}))] == [
        "of this code", "of unknown code", "of older code",
    ]  # fmt: skip


def test_a_file_is_continued_with_the_runs_that_it_lacks(tmp_path: Path) -> None:
    path, made = tmp_path / "runs.json.gz", list[Row]()
    write(path, KEPT)

    def make(wanted: Row) -> Row:
        made.append(wanted)
        return {"hit": 0.75}

    wanted: list[Row] = [{"seed": 1}, {"seed": 3}]
    assert list(continued(path, LATER, wanted, make)) == [{"seed": 1, "hit": 0.25}, {"seed": 3, "hit": 0.75}]
    assert made == [{"seed": 3}]
    assert [one for one in read(path) if one not in KEPT] == [Kept(LATER, {"seed": 3, "hit": 0.75})]
    assert [one for one in read(path) if one in KEPT] == [KEPT[0], KEPT[2], KEPT[1]]
    assert list(continued(path, LATER, wanted, make))[1] == {"seed": 3, "hit": 0.75}
    assert len(made) == 1
