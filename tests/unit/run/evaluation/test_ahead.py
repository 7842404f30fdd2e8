"""How far ahead any model was: compared with a count of every record that was learnt."""

import numpy as np
import pytest

from streamfl.protocol.records import Span
from streamfl.run.dealing.dealing import Log
from streamfl.run.evaluation.ahead import Ahead


def counted(rows: dict[str, np.ndarray], steps: list[tuple[str, str, int, int]]) -> int:
    """Return the most records learnt so far that came after the first of those predicted."""
    learnt, most = [], 0
    for what, client, start, end in steps:
        if what == "learnt":
            learnt += rows[client][start:end].tolist()
        else:
            most = max(most, sum(row > rows[client][start] for row in learnt))
    return most


@pytest.mark.parametrize("seed", range(20))
def test_the_most_later_records_are_those_that_a_plain_count_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    owner = rng.choice(4, 200, p=[0.6, 0.2, 0.15, 0.05])
    rows = {f"c{i}": np.flatnonzero(owner == i) for i in range(4)}
    at, steps = dict.fromkeys(rows, 0), []
    for _ in range(40):
        ends = {name: min(len(rows[name]), at[name] + int(rng.integers(0, 9))) for name in rows}
        here = [name for name in rng.permutation(list(rows)).tolist() if ends[name] > at[name]]
        steps += [("predicted", name, at[name], ends[name]) for name in here]
        steps += [("learnt", name, at[name], ends[name]) for name in here]
        at |= ends
    ahead = Ahead({name: Log(own, np.zeros(len(own))) for name, own in rows.items()}, np.arange(200.0))
    for what, name, start, end in steps:
        if what == "learnt":
            ahead.learnt([Span(name, start, end)])
        else:
            ahead.predicted(name, start, end)
    assert ahead.most == counted(rows, steps) > 0
