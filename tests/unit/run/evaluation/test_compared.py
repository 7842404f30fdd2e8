"""What a comparison counts, and what it says."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamfl.run.evaluation.compared import ENOUGH, WAYS, ClientWays, Compared, WaysFigures
from streamfl.run.report.compared import table, texts, verdict

REST = {"central": None, "static": None, "majority": None, "no_change": None}


def compared(total: tuple[float, float], *clients: tuple[int, float, float], measure: Any = "accuracy") -> Compared:
    """Return a comparison by figures of the federation and alone, of clients with their records."""
    lines = tuple(
        ClientWays(client=f"site {i}", records=n, federated=ours, alone=own, **REST)
        for i, (n, ours, own) in enumerate(clients, 1)
    )
    ours, own = total
    of_all = WaysFigures(records=sum(n for n, *_ in clients), federated=ours, alone=own, **REST)
    return Compared(measure=measure, total=of_all, clients=lines, chance=0.01)


def test_only_records_that_the_federation_predicted_are_compared() -> None:
    nan = np.nan
    told = Compared.of(
        "accuracy", {"federated": {"a": np.array([0.0, 1.0, nan])}, "alone": {"a": np.array([0.0, 0.0, 1.0])}}
    )
    assert (told.total.records, told.total.federated, told.total.alone) == (2, 0.5, 1.0)


def test_a_way_that_predicted_only_some_of_the_records_has_no_figure() -> None:
    told = Compared.of("mae", {"federated": {"a": np.ones(2)}, "alone": {"a": np.array([1.0, np.nan])}})
    assert (told.total.federated, told.total.alone, told.total.central) == (1.0, None, None)


def test_a_client_without_records_is_listed_and_has_no_figures() -> None:
    told = Compared.of(
        "mae", {"federated": {"a": np.zeros(0), "b": np.ones(3)}, "alone": {"a": np.zeros(0), "b": np.ones(3)}}
    )
    assert [(line.client, line.records, line.federated) for line in told.clients] == [("b", 3, 1.0), ("a", 0, None)]
    assert told.total.federated == 1.0


@pytest.mark.parametrize(
    ("ours", "own", "worth"),
    [(0.912, 0.884, "is worth it"), (0.884, 0.912, "is not worth it"), (0.884, 0.888, "makes little difference")],
)
def test_the_verdict_is_over_all_records(ours: float, own: float, worth: str) -> None:
    assert verdict(compared((ours, own), (900, ours, own))).startswith(
        f"Federating {worth} here: accuracy {ours:.3f}, next to {own:.3f} alone; "
    )


def test_of_errors_less_is_better() -> None:
    told = compared((1.5, 2.0), (900, 1.5, 2.0), (900, 1.5, 1.4), measure="mae")
    assert verdict(told) == (
        "Federating is worth it here: mean absolute error 1.5, next to 2 alone; 1 of 2 clients would be better off "
        "alone: site 2."
    )


def test_a_client_with_few_records_is_counted_and_not_judged() -> None:
    told = compared((0.9, 0.8), (ENOUGH, 0.9, 0.93), (ENOUGH - 1, 0.5, 0.9), (ENOUGH, 0.9, 0.91))
    assert told.better_alone == ("site 1",)
    assert verdict(told).endswith(
        "; 1 of 2 clients with 200 records or more would be better off alone: site 1 (1 has too few to tell)."
    )
    assert [row[0] for row in table(told)["rows"]] == ["all", "site 1", "site 2", "site 3"]


def test_what_is_better_than_federating_is_said() -> None:
    one = compared((0.8, 0.7), (900, 0.8, 0.7))
    better = one.model_copy(update={"total": one.total.model_copy(update={"no_change": 0.9, "central": 0.803})})
    assert verdict(better).endswith("To repeat each client's last label is better: 0.900.")


def test_the_table_marks_where_the_federation_is_better_and_worse_than_alone() -> None:
    told = compared((0.85, 0.8), (900, 0.9, 0.7), (900, 0.8, 0.9))
    assert [row[2]["kind"] for row in table(told)["rows"]] == ["better", "better", "worse"]
    assert next(texts(told)).split() == [
        "client",
        "records",
        "federated",
        "alone",
        "one",
        "place",
        "static",
        "majority",
        "NoChange",
    ]


def test_the_page_for_newcomers_shows_a_comparison_as_the_console_prints_it() -> None:
    page = (Path(__file__).parents[4] / "docs" / "csv.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```text\n(client  .*?)```", page, re.DOTALL)
    _, *rows, said = shown.splitlines()
    figures = [(name, int(n.replace(",", "")), *map(float, ways)) for name, n, *ways in map(str.split, rows)]
    (_, *of_all), *clients = [(name, dict(zip(("records", *WAYS), each, strict=True))) for name, *each in figures]
    lines = tuple(ClientWays(client=name, **ways) for name, ways in clients)
    told = Compared(measure="accuracy", total=WaysFigures(**of_all[0]), clients=lines)
    assert [*texts(told)] == shown.splitlines()
    assert said == verdict(told)


def test_a_difference_that_chance_may_make_is_not_called_one() -> None:
    turns = np.repeat(np.tile([1.0, 0.0], 15), 8)  # each is right for eight records, then the other one
    others = 1.0 - turns
    others[:3] = 1.0
    told = Compared.of("accuracy", {"federated": {"a": turns}, "alone": {"a": others}})
    assert verdict(told).startswith("Federating may or may not help here: accuracy 0.500, next to 0.488 alone; ")
    told = Compared.of("accuracy", {"federated": {"a": turns / 2.0}, "alone": {"a": turns}})
    assert verdict(told).startswith("Federating is worth it here: accuracy 0.750, next to 0.500 alone; ")


def test_where_no_client_has_enough_records_none_is_judged() -> None:
    told = compared((0.9, 0.8), (ENOUGH - 1, 0.7, 0.9))
    assert verdict(told).endswith(
        "no client has 200 records, so it is too early to tell which would be better off alone."
    )
