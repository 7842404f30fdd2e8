import re
from collections.abc import Callable

from streamfl.run.evaluation.by_class import ByClass, ClassLine, Confusion, OtherClasses
from streamfl.run.evaluation.by_client import ByClient, ClientLine, OtherClients
from streamfl.run.evaluation.result import Result
from streamfl.run.report.breakdown import extremes
from streamfl.run.report.html import render

Build = Callable[..., Result]
EVIL = '"><script>alert(1)</script>'

CLIENTS = ByClient(
    measure="accuracy",
    clients=(
        ClientLine(client="north", records=1200, prequential=0.5, no_change=0.625),
        ClientLine(client=EVIL, records=900, prequential=0.75, no_change=0.625),
        ClientLine(client="tiny", records=29, prequential=0.0, no_change=1.0),
    ),
    others=OtherClients(clients=9950, records=5000, prequential=0.7, no_change=0.6),
)
CLASSES = ByClass(
    classes=(
        ClassLine(label="cat", records=600, predicted=500, recall=0.75, precision=0.9),
        ClassLine(label=EVIL, records=30, predicted=0, recall=0.0, precision=None),
    ),
    others=OtherClasses(classes=2, records=20, predicted=150, recall=0.5, precision=0.0667),
    confusion=Confusion(labels=("cat", EVIL), matrix=((450, 0, 145, 5), (29, 0, 1, 0), (21, 0, 4, 0))),
)


def rows(page: str) -> list[str]:
    """Return the text of each row of the tables, its cells apart."""
    found = re.findall(r"<tr>(.*?)</tr>", page)
    return [re.sub(r"(<[^>]*>)+", "|", row).strip("|") for row in found]


def test_the_page_has_a_row_for_each_client_and_one_for_the_others(made_up: Build) -> None:
    page = render(made_up(by_client=CLIENTS, by_class=CLASSES), title="Replay")
    assert "north|1,200|0.500|0.625" in rows(page)
    assert "9,950 other clients|5,000|0.700|0.600" in rows(page)
    assert '<td class="number worse">0.500</td>' in page
    assert '<td class="number better">0.750</td>' in page
    assert EVIL not in page


def test_the_page_has_recall_precision_and_the_matrix(made_up: Build) -> None:
    page = render(made_up(by_client=CLIENTS, by_class=CLASSES), title="Replay")
    assert "cat|600|0.750|500|0.900" in rows(page)
    assert "2 other labels|20|0.500|150|0.067" in rows(page)
    evil = "&#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"
    assert f"label|cat|{evil}|other labels|no label yet" in rows(page)
    assert "cat|450|0|145|5" in rows(page)
    assert "other labels|21|0|4|0" in rows(page)
    assert '<td class="right" style="--part: 0.750">450</td>' in page
    assert '<td class="wrong" style="--part: 0.160">4</td>' in page  # may be right or wrong


def test_errors_of_targets_are_better_if_they_are_smaller(made_up: Build) -> None:
    line = ClientLine(client="a", records=50, prequential=1.5, no_change=4.0)
    page = render(made_up(accuracy=None, kappa=None, by_client=ByClient(measure="mae", clients=(line,))), title="R")
    assert '<td class="number better">1.5</td>' in page
    assert "Prequential mean absolute error of each client" in page
    assert "<h2>Labels</h2>" not in page


def test_a_report_without_measurements_has_no_tables(made_up: Build) -> None:
    page = render(made_up(), title="Replay")
    assert "<h2>Clients</h2>" not in page
    assert "<h2>Labels</h2>" not in page


def test_the_extremes_are_of_lines_with_enough_records() -> None:
    assert list(extremes(CLIENTS, CLASSES)) == [
        f"Among the 3 clients with the most records, accuracy is between 0.500 (north) and 0.750 ({EVIL}).",
        f"The label with the lowest recall among the 2 with the most records is {EVIL}: 0.000 of its 30 records were "
        "predicted right.",
    ]
    only = CLIENTS.model_copy(update={"clients": CLIENTS.clients[:1]})
    assert list(extremes(only, CLASSES.model_copy(update={"classes": CLASSES.classes[:1]}))) == []
