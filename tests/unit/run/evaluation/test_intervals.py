"""The intervals of a run: of each client, by its errors before a record."""

import numpy as np
import pytest

from streamfl.protocol.decisions import Predicted
from streamfl.run.evaluation.prequential import Prequential
from streamfl.sampling import generator


def predicted(client, errors):
    n = len(errors)
    return Predicted(client, 1, "a-1", (), np.array(errors), np.zeros(n), np.zeros(n), np.zeros(n), ())


def test_the_intervals_of_a_client_are_made_of_its_own_errors_before_a_record():
    figures, errors = Prequential(), generator(0, "intervals").normal(size=(40, 20))
    for at, part in enumerate(errors):
        figures.add(predicted("ab"[at % 2], (part * (1.0, 100.0)[at % 2]).tolist()))
    found = figures.interval()
    assert found.records == 800 - 2 * 10
    assert found.coverage == pytest.approx(0.8, abs=0.02)
    assert found.width == pytest.approx(2.56 * 50.5, rel=0.1)


def test_without_ten_errors_a_run_has_none():
    figures = Prequential()
    figures.add(predicted("a", [1.0] * 10))
    assert figures.interval() is None
