"""What candidates at a restart must be, whoever has registered them."""

import numpy as np
import pytest

from streamfl.errors import UsageError
from streamfl.learning.profiles.adaptive import candidates as of
from streamfl.learning.profiles.adaptive.recall import RecallPool, Trail
from streamfl.protocol.alarm import Alarm


def known(columns: int) -> of.Remembered:
    scratch = np.zeros((3, 2))
    alarm = Alarm("excess", 10.0, 9.2, 5)
    return of.Remembered(alarm, scratch, np.ones((3, columns)), Trail(), RecallPool(), ())


def test_a_candidate_has_no_columns_of_labels_that_came_in_the_round(monkeypatch):
    """The serving model has them already; clients score candidates by the registry of the round."""
    half = {**of.CANDIDATES.own, "half": lambda it: {"half": 0.5 * it.incumbent}}
    monkeypatch.setattr(of, "CANDIDATES", half)
    found = of.candidates(known(columns=4))
    assert found.keys() == {"scratch", "half"}
    assert found["half"].tolist() == [[0.5, 0.5]] * 3


def test_a_candidate_of_another_shape_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(of, "CANDIDATES", {"odd": lambda _: {"odd": np.zeros((2, 2))}})
    with pytest.raises(UsageError, match="candidate 'odd' must have 3 rows and 2 columns; correct its package"):
        of.candidates(known(columns=2))
