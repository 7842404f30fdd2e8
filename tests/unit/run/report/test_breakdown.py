from collections.abc import Callable
from typing import Any

from streamfl.run.evaluation.by_class import ByClass, ClassLine, Confusion, OtherClasses
from streamfl.run.evaluation.by_client import ByClient, ClientLine, OtherClients
from streamfl.run.evaluation.result import Result
from streamfl.run.report.breakdown import extremes
from streamfl.run.report.tables import tables

Build = Callable[..., Result]

CLIENTS = ByClient(
    measure="accuracy",
    clients=(
        ClientLine(client="north", records=1200, prequential=0.5, no_change=0.625),
        ClientLine(client="south", records=900, prequential=0.75, no_change=0.625),
        ClientLine(client="tiny", records=29, prequential=0.0, no_change=1.0),
    ),
    others=OtherClients(clients=9950, records=5000, prequential=0.7, no_change=0.6),
)
CLASSES = ByClass(
    classes=(
        ClassLine(label="cat", records=600, predicted=500, recall=0.75, precision=0.9),
        ClassLine(label="dog", records=30, predicted=0, recall=0.0, precision=None),
    ),
    others=OtherClasses(classes=2, records=20, predicted=150, recall=0.5, precision=0.0667),
    confusion=Confusion(labels=("cat", "dog"), matrix=((450, 0, 145, 5), (29, 0, 1, 0), (21, 0, 4, 0))),
)


def rows(result: Result, title: str) -> list[list[Any]]:
    """Return the rows of a table; nothing if there is none."""
    return next((table["rows"] for table in tables(result) if table["title"] == title), [])


def test_each_client_has_a_row_and_the_others_have_one(made_up: Build) -> None:
    found = rows(made_up(by_client=CLIENTS), "Clients")
    assert found[0] == ["north", "1,200", {"text": "0.500", "kind": "worse"}, "0.625"]
    assert found[1][2] == {"text": "0.750", "kind": "better"}
    assert found[-1][:2] == ["9,950 other clients", "5,000"]


def test_each_label_has_recall_precision_and_kappa_and_the_matrix_shows_what_was_mistaken(made_up: Build) -> None:
    result = made_up(by_class=CLASSES)
    # Kappa: 450 of 650 records are told from all others rightly; chance is right in 307,500 of 422,500.
    assert rows(result, "Labels")[0] == ["cat", "600", "0.750", "500", "0.900", "-0.130"]
    assert rows(result, "Labels")[-1][0] == "2 other labels"
    matrix = rows(result, "What each label was predicted as")
    assert [cell["text"] for cell in matrix[0][1:]] == ["450", "0", "145", "5"]
    assert matrix[0][1] == {"text": "450", "kind": "right", "part": 0.75}
    assert matrix[2][3]["kind"] == "wrong"  # may be right or wrong


def test_errors_of_targets_are_better_if_they_are_smaller(made_up: Build) -> None:
    line = ClientLine(client="a", records=50, prequential=1.5, no_change=4.0)
    result = made_up(accuracy=None, kappa=None, by_client=ByClient(measure="mae", clients=(line,)))
    assert rows(result, "Clients") == [["a", "50", {"text": "1.5", "kind": "better"}, "4"]]
    assert rows(result, "Labels") == []


def test_missing_values_are_told_by_column_where_there_are_any(made_up: Build) -> None:
    assert rows(made_up(records=200, missing={"height": 3}), "Missing values") == [["height", "3", "1.5%"]]
    assert rows(made_up(), "Missing values") == []


def test_the_extremes_are_of_lines_with_enough_records() -> None:
    assert list(extremes(CLIENTS, CLASSES)) == [
        "Among the 3 clients with the most records, accuracy is between 0.500 (north) and 0.750 (south).",
        "The label with the lowest recall among the 2 with the most records is dog: 0.000 of its 30 records were "
        "predicted right.",
    ]
    only = CLIENTS.model_copy(update={"clients": CLIENTS.clients[:1]})
    assert list(extremes(only, CLASSES.model_copy(update={"classes": CLASSES.classes[:1]}))) == []
