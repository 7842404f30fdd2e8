"""The tables by client and by class, by hand."""

import numpy as np

from streamfl.protocol.decisions import Predicted
from streamfl.run.evaluation.by_class import ClassCounts, ClassLine, OtherClasses
from streamfl.run.evaluation.by_client import ClientLine, OtherClients
from streamfl.run.evaluation.prequential import Prequential


def round_of(client: str, truth: list[float], served: list[float], repeated: list[float], *labels: str) -> Predicted:
    y, told, naive = (np.array(values, np.float64) for values in (truth, served, repeated))
    return Predicted(client, 1, "1", (), y, told, told, naive, labels)


def three_clients() -> Prequential:
    figures = Prequential(classes=ClassCounts(("cat", "dog")))
    figures.add(round_of("north", [0, 0, 1, 1], [-1, 0, 1, 0], [-1, 0, 0, 1], "cat", "dog"))
    figures.add(round_of("south", [0, 1], [1, 0], [0, 0], "dog", "cat"))  # the same labels in another order
    figures.add(round_of("east", [2, 0], [2, 2], [2, 2], "dog", "cat", "owl"))
    return figures


def test_clients_by_their_records_and_the_worst_first_among_equals() -> None:
    told = three_clients().by_client("accuracy")
    assert told is not None
    assert told.clients == (
        ClientLine(client="north", records=4, prequential=0.5, no_change=0.5),
        ClientLine(client="south", records=2, prequential=0.0, no_change=0.5),
        ClientLine(client="east", records=2, prequential=0.5, no_change=0.5),
    )
    assert told.others is None


def test_other_clients_are_summed_up_in_one_line() -> None:
    told = three_clients().clients.table("accuracy", most=1)
    assert [line.client for line in told.clients] == ["north"]
    assert told.others == OtherClients(clients=2, records=4, prequential=0.25, no_change=0.5)


def test_the_mean_absolute_error_of_targets_by_client() -> None:
    figures = Prequential()
    figures.add(round_of("a", [1.0, 2.0], [1.5, 4.0], [0.0, 1.0]))
    figures.add(round_of("b", [5.0, 5.0], [0.0, 0.0], [5.0, 5.0]))
    told = figures.by_client("mae")
    assert told is not None
    assert told.clients == (
        ClientLine(client="b", records=2, prequential=5.0, no_change=0.0),
        ClientLine(client="a", records=2, prequential=1.25, no_change=1.0),
    )


def test_classes_with_recall_and_precision() -> None:
    told = three_clients().by_class()
    assert told is not None
    # cat: 3 records (north 2, south 1), predicted for 3 (north 2, south 1), right once.
    # dog: 4 records, predicted for 2, right once. owl: 1 record, predicted for 2 of east.
    assert told.classes == (
        ClassLine(label="dog", records=4, predicted=2, recall=0.25, precision=0.5),
        ClassLine(label="cat", records=3, predicted=3, recall=1 / 3, precision=1 / 3),
        ClassLine(label="owl", records=1, predicted=2, recall=1.0, precision=0.5),
    )
    assert told.others is None


def test_the_matrix_names_some_labels_and_sums_up_the_others() -> None:
    told = three_clients().by_class()
    assert told is not None
    assert told.confusion.labels == ("cat", "dog")
    assert told.confusion.matrix == (
        (1, 1, 0, 1),  # a cat predicted as cat, one as dog, one before any label was known
        (2, 1, 1, 0),  # a dog of south and one of north as cat, one as dog, one of east as owl
        (0, 0, 1, 0),  # the owl
    )


def test_other_classes_are_summed_up_in_one_line() -> None:
    told = three_clients().classes.table(most=1)
    assert [line.label for line in told.classes] == ["dog"]
    assert told.others == OtherClasses(classes=2, records=4, predicted=5, recall=0.5, precision=0.4)


def test_without_measurements_there_is_no_table_of_clients_or_classes() -> None:
    assert Prequential().by_client("accuracy") is None
    assert Prequential().by_class() is None


def test_what_is_kept_does_not_grow_with_the_square_of_labels() -> None:
    labels = tuple(map(str, range(1024)))
    counts = ClassCounts(labels[:20])
    codes = np.arange(1024.0)
    for shift in range(30):
        counts.add(codes, np.roll(codes, shift), labels)
    told = counts.table()
    assert len(told.classes) == 50
    assert told.others is not None
    assert told.others.classes == 974
    assert np.array(told.confusion.matrix).shape == (21, 22)
    assert sum(map(len, (counts.truths, counts.predicted, counts.right))) <= 3 * 1024
