"""Streams: as large as they say, drawn again alike, and with no labels in their order."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from river_peers import figures
from river_peers.streams import FROM_RIVER, STREAMS, built, parts, stream
from streamfl.errors import UsageError


def test_the_streams_of_the_comparison_are_fourteen() -> None:
    assert len(set(STREAMS)) == 14


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(FROM_RIVER))
def test_a_stream_is_drawn_again_alike_and_its_order_gives_no_label_away(name: str) -> None:
    one = stream(name, None)
    assert one.digest == stream(name, None).digest != one.first(100).digest
    assert len(one) == {"phishing": 1250, "image-segments": 2310}.get(name, 20_000)
    assert sorted(set(one.y.tolist())) == list(range(one.labels))
    assert np.isfinite(one.X).all()
    # The next label, foretold from the last by whatever most often followed it, is hardly better than the commonest.
    followed = np.bincount(one.y[:-1] * one.labels + one.y[1:], minlength=one.labels**2).reshape(one.labels, -1)
    foretold = followed.max(axis=1).sum() / (len(one) - 1)
    assert foretold < figures.accuracy(one.y, np.full(len(one), np.bincount(one.y).argmax())) + 0.06


def test_parts_follow_one_another() -> None:
    def endless(name: str) -> Iterator[tuple[dict[str, float], str]]:
        while True:
            yield {"f": 1.0}, name

    joined = built("joined", parts(endless("b"), endless("a"), size=6))
    assert joined.y.tolist() == [1, 1, 1, 0, 0, 0]


def test_elec2_wants_its_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--data"):
        stream("elec2", None)
    with pytest.raises(UsageError, match="--data"):
        stream("elec2", tmp_path)
