"""The tables by client and by class count what the headline counts: every record once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamfl.protocol.decisions import Predicted
from streamfl.run.evaluation.by_class import ClassCounts
from streamfl.run.evaluation.prequential import Prequential

NAMES = tuple("abcdefg")


@st.composite
def rounds(draw: st.DrawFn, *, labelled: bool = True) -> list[Predicted]:
    """Draw the predictions of some rounds; each knows some labels in some order, or has targets."""
    found = []
    for _ in range(draw(st.integers(0, 8))):
        n = draw(st.integers(1, 6))
        labels = tuple(draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))) if labelled else ()
        truths = st.integers(0, len(labels) - 1) if labels else st.integers(-9, 9)
        told = st.integers(-1, len(labels) - 1) if labels else st.integers(-9, 9)
        truth, served, repeated = (
            np.array(draw(st.lists(each, min_size=n, max_size=n)), np.float64) for each in (truths, told, told)
        )
        client = draw(st.sampled_from(["c0", "c1", "c2", "c3"]))
        found.append(Predicted(client, 1, "1", (), truth, served, served, repeated, labels))
    return found


def measured(events: list[Predicted], labels: tuple[str, ...] = NAMES) -> Prequential:
    figures = Prequential(classes=ClassCounts(labels))
    for event in events:
        figures.add(event)
    return figures


@given(rounds(), st.integers(0, 5))
def test_the_lines_of_clients_sum_up_to_the_headline(events: list[Predicted], most: int) -> None:
    figures = measured(events)
    told = figures.clients.table("accuracy", most)
    lines = [*told.clients, *([told.others] if told.others else [])]
    assert len(told.clients) == min(most, len({event.client for event in events}))
    assert len({event.client for event in events}) == len(told.clients) + (told.others.clients if told.others else 0)
    assert sum(line.records for line in lines) == figures.served.records
    assert sum(round((line.prequential or 0.0) * line.records) for line in lines) == figures.served.correct
    assert sum(round((line.no_change or 0.0) * line.records) for line in lines) == figures.no_change.correct


@given(rounds(labelled=False), st.integers(0, 5))
def test_the_absolute_errors_of_clients_sum_up_to_the_headline(events: list[Predicted], most: int) -> None:
    figures = measured(events)
    told = figures.clients.table("mae", most)
    lines = [*told.clients, *([told.others] if told.others else [])]
    assert sum(line.records for line in lines) == figures.served.records
    assert sum(round((line.prequential or 0.0) * line.records) for line in lines) == figures.served.absolute
    assert sum(round((line.no_change or 0.0) * line.records) for line in lines) == figures.no_change.absolute


@given(rounds(), st.integers(0, 8))
def test_the_lines_of_classes_sum_up_to_the_headline(events: list[Predicted], most: int) -> None:
    figures = measured(events)
    told = figures.classes.table(most)
    lines = [*told.classes, *([told.others] if told.others else [])]
    assert len(told.classes) <= most
    assert sum(line.records for line in lines) == figures.served.records
    assert sum(round((line.recall or 0.0) * line.records) for line in lines) == figures.served.correct
    assert sum(round((line.precision or 0.0) * line.predicted) for line in lines) == figures.served.correct


@given(rounds(), st.lists(st.sampled_from(NAMES), unique=True))
def test_the_confusion_matrix_has_every_record_once(events: list[Predicted], named: list[str]) -> None:
    figures = measured(events, tuple(named))
    told = figures.classes.table(len(NAMES))
    matrix, n = np.array(told.confusion.matrix), len(named)
    assert matrix.shape == (n + 1, n + 2)  # however many labels there are
    assert matrix.sum() == figures.served.records
    by_label = {line.label: line for line in told.classes}
    for at, label in enumerate(named):
        line = by_label.get(label)
        assert matrix[at].sum() == (line.records if line else 0)
        assert matrix[:, at].sum() == (line.predicted if line else 0)
        assert matrix[at, at] == (round((line.recall or 0.0) * line.records) if line else 0)


@given(rounds())
def test_with_a_row_for_every_label_the_diagonal_is_what_is_right(events: list[Predicted]) -> None:
    figures = measured(events)
    assert np.trace(np.array(figures.classes.table().confusion.matrix)) == figures.served.correct
