import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from streamfl.run.evaluation.changes import Change, Moved
from streamfl.run.evaluation.result import DatedLocalDrift, DatedRestart, Figures, Loss, Result
from streamfl.run.page.report import render, report
from streamfl.run.summary import RoundLine

Build = Callable[..., Result]
EVIL = '"></script><script>alert(1)</script><!--'
LOCAL = DatedLocalDrift(
    round=80, epoch=1, clients=("c9",), labels=("4",), since=78, state="latched", statistic=11.0, threshold=9.2
)


def data(page: str) -> dict[str, Any]:
    """Return the sections that a page holds, as its script reads them."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    sections: dict[str, Any] = json.loads(found)
    return sections


def sections(result: Result, drifts: tuple[int, ...] = ()) -> dict[str, Any]:
    return data(render(result, drifts=drifts, title="Replay"))


def table(made: dict[str, Any], title: str) -> list[list[str]]:
    """Return the rows of a table as texts."""
    rows = next(one["rows"] for one in made["tables"] if one["title"] == title)
    return [[cell if isinstance(cell, str) else cell["text"] for cell in row] for row in rows]


class Page(HTMLParser):
    """Counts the elements of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)


def test_the_report_has_the_sections_that_the_live_page_draws(made_up: Build) -> None:
    made = report(made_up(at=[32], local_drifts=(LOCAL,)), [31], "Replay")
    assert {"headline", "story", "cards", "rounds", "drifts", "epochs", "branches", "about", "tables"} <= set(made)
    assert made["rounds"][0] == [1, 1, 1, 1, 20, 0.7, 0.381, 0]
    assert len(made["rounds"]) == 103
    assert [(one["kind"], one["round"]) for one in made["drifts"]] == [("restart", 32), ("local drift", 80)]
    assert [(one["epoch"], one["first"]) for one in made["epochs"]] == [(1, 1), (2, 33)]
    assert [(one["clients"], one["first"], one["last"]) for one in made["branches"]] == [(["c9"], 80, None)]
    assert made["imposed"] == [31]


def test_every_figure_is_on_the_page_with_no_change_beside_every_accuracy(made_up: Build) -> None:
    made = sections(made_up(at=[32]))
    assert table(made, "Measures") == [
        ["accuracy, prequential", "0.702", "0.381", "+0.321", made["tables"][0]["rows"][0][4]],
        ["accuracy, round_start", "0.693", "0.381", "+0.312", made["tables"][0]["rows"][1][4]],
        ["accuracy, post_update", "0.714", "0.381", "+0.333", made["tables"][0]["rows"][2][4]],
    ]
    assert [card["text"] for card in made["cards"][:4]] == ["0.702", "0.512", "0.519", "0.213"]
    text = json.dumps(made, ensure_ascii=False)
    for value in ("covtype", "adaptive", "3.1 s", "29,988 records/s", "9f2c" * 16):
        assert value in text
    assert "read 92,962 = accepted 92,960 + rejected 2 + pending 0" in text


def test_figures_say_which_predictions_they_are_of_where_labels_come_late(made_up: Build) -> None:
    made = sections(made_up(label_delay=10, unanswered=4, waiting=2, expired=1))
    assert table(made, "Measures")[0][4] == "the prediction that was given before the label came"
    counts = {row[0]: row[1] for row in table(made, "Records")}
    assert (counts["predicted before any model"], counts["waiting"], counts["expired"]) == ("4", "2", "1")


def test_errors_stand_beside_their_scale(made_up: Build) -> None:
    error = Figures(prequential=8.0, round_start=8.25, post_update=20.2, no_change=20.0)
    each = tuple(
        RoundLine(round=t, epoch=1, block=t, records=9, loss=0.2, mae=8.0, no_change=19.0) for t in range(1, 9)
    )
    made = sections(made_up(8, accuracy=None, kappa=None, mae=error, rmse=error, r2=0.75, per_round=each))
    cards = {card["title"]: card["text"] for card in made["cards"]}
    assert (cards["Mean absolute error"], cards["Error over NoChange's"], cards["R²"]) == ("8", "0.400", "0.750")
    assert made["headline"]["measure"] == "error"
    assert made["rounds"][0][5:7] == [8.0, 19.0]
    assert [row[3]["kind"] for row in made["tables"][0]["rows"][:3]] == ["better", "better", "worse"]


def test_a_card_has_what_moved_and_which_imposed_drift_it_answered(made_up: Build) -> None:
    moved = Moved(
        feature="height", before=2740.0, since=3011.0, deviations=1.2, span=(2000.0, 4000.0), counts=((3, 0), (1, 2))
    )
    change = Change(kind="restart", round=32, since=31, moved=(moved,), sentence="Since round 31, all changed.")
    first, second = sections(made_up(at=[32, 66], changes=(change,)), (31, 97))["drifts"]
    assert first["moved"] == [["height", "2740", "3011", "2000", "4000", [3, 0], [1, 2]]]
    assert first["sentence"] == "Since round 31, all changed."
    assert first["imposed"] == "round 31; found 1 round later"
    assert (second["moved"], "imposed" in second) == ([], False)


def test_later_states_of_a_local_drift_stand_on_its_card(made_up: Build) -> None:
    later = LOCAL.model_copy(update={"state": "merged", "round": 90})
    (card,) = sections(made_up(local_drifts=(LOCAL, later)))["drifts"]
    assert [(one["state"], one["round"]) for one in card["states"]] == [("latched", 80), ("merged", 90)]


def test_rounds_have_the_times_of_their_records_if_there_are_any(made_up: Build) -> None:
    whole = made_up(4)
    timed = tuple(replace(line, time=f"2026-11-01T00:0{line.round}:00Z") for line in whole.per_round)
    made = sections(whole.model_copy(update={"per_round": timed}))
    assert [row[7] - made["rounds"][0][7] for row in made["rounds"]] == [0, 60_000, 120_000, 180_000]


def test_a_round_of_few_records_has_no_figure_in_the_chart(made_up: Build) -> None:
    whole = made_up(20)
    rest = replace(whole.per_round[-1], records=9, accuracy=1.0)
    made = sections(whole.model_copy(update={"per_round": (*whole.per_round[:-1], rest)}))
    assert [row[5] for row in made["rounds"][-2:]] == [0.7, None]


@pytest.mark.parametrize("n", [0, 1, 2, 103])
def test_the_page_is_one_document_for_short_and_long_runs(made_up: Build, n: int) -> None:
    page = Page(render(made_up(n, at=[2] if n > 1 else []), drifts=[1, 500], title="Replay"))
    assert page.tags.count("html") == page.tags.count("h1") == 1


def test_a_hostile_name_stays_text(made_up: Build, restart: Callable[..., DatedRestart]) -> None:
    hit = restart(5, 2, cause=EVIL, chosen=EVIL, clients=(EVIL,), labels=(EVIL,))
    drifted = LOCAL.model_copy(update={"round": 3, "clients": (EVIL,), "labels": (EVIL,), "since": 2, "state": EVIL})
    result = made_up(
        9, source=EVIL, profile=EVIL, restarts=(hit,), local_drifts=(drifted,), model_sha256=EVIL, missing={EVIL: 1}
    )
    page = render(result, title=EVIL)
    assert "<script>alert" not in page
    assert Page(page).tags.count("script") == Page(render(made_up(9), title="R")).tags.count("script") == 3
    assert data(page)["about"]["name"] == EVIL
    assert table(data(page), "Missing values")[0][0] == EVIL


def test_the_policy_lets_no_script_run_but_the_two_of_the_page(made_up: Build) -> None:
    page = render(made_up(), title="R")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert re.search(r"script-src ('sha256-[\w+/=]{44}' ?){2};", policy)
    assert "script-src 'unsafe" not in policy


def test_the_page_needs_nothing_from_outside(made_up: Build) -> None:
    page = render(made_up(at=[32]), title="Replay")
    assert not re.search(r"\burl\(|@import|<script[^>]*\bsrc=|<link(?! rel=\"icon\" href=\"data:,\")", page)


def test_without_scripts_the_page_still_tells_what_happened(made_up: Build) -> None:
    (plain,) = re.findall(r"<noscript>(.*?)</noscript>", render(made_up(at=[32]), title="R"), re.DOTALL)
    assert "Drifts found in 103 rounds: 1 at all clients (round 32)." in plain
    assert "That baseline did better" not in plain
    poor = Figures(prequential=0.3, round_start=0.3, post_update=0.3, no_change=0.4)
    assert "That baseline did better than the model." in render(made_up(accuracy=poor), title="R")


def test_missing_figures_are_en_dashes(made_up: Build) -> None:
    nothing = Figures(prequential=None, round_start=None, post_update=None, no_change=None)
    made = sections(made_up(accuracy=nothing, kappa=None, loss=Loss(prequential=None)))
    assert table(made, "Measures")[0][1:4] == ["–", "–", "–"]
    assert "None" not in json.dumps(made)


def test_a_ledger_that_does_not_add_up_is_called_so(made_up: Build) -> None:
    assert "do not add up" in render(made_up(accepted=92950), title="R")
    assert "do not add up" not in render(made_up(), title="R")


def test_a_run_that_kept_no_rounds_still_has_its_tables(made_up: Build) -> None:
    made = sections(made_up(at=[32], per_round=()), (31,))
    assert made["rounds"] == []
    assert made["drifts"][0]["imposed"] == "round 31; found 1 round later"


def test_ten_thousand_rounds_stay_under_a_megabyte_and_lose_no_record(made_up: Build) -> None:
    result = made_up(10_000, at=list(range(40, 10_000, 100)))
    page = render(result, drifts=list(range(39, 10_000, 100)), title="R")
    assert len(page.encode()) < 1_000_000
    assert sum(row[4] for row in data(page)["rounds"]) == 20 * 10_000
    assert [one["round"] for one in data(page)["drifts"]] == list(range(40, 10_000, 100))


def test_the_same_result_gives_the_same_page(made_up: Build) -> None:
    assert render(made_up(at=[32]), title="R") == render(made_up(at=[32]), title="R")
