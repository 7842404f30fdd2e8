import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from streamfl.run.evaluation.result import DatedLocalDrift, DatedRestart, Figures, Loss, Result
from streamfl.run.report.charts import drawing
from streamfl.run.report.html import render
from streamfl.run.summary import RoundLine

Build = Callable[..., Result]
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Checks that every element is closed in order, and keeps the text and the names of the tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.rows: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.text += data
            if "tr" in self.open:
                self.rows[-1] += data + "|"


def wide(page: str, key: str) -> str:
    found = re.findall(r'<svg class="plot wide[^>]*aria-label="' + key + r".*?</svg>", page, re.DOTALL)
    assert len(found) == 1
    return str(found[0])


def test_every_figure_is_on_the_page_with_no_change_beside_every_accuracy(made_up: Build) -> None:
    page = Page(render(made_up(at=[32]), title="Replay"))
    assert "accuracy, prequential|0.702|0.381|+0.321|each record predicted just before" in "\n".join(page.rows)
    assert "accuracy, round_start|0.693|0.381|+0.312|" in "\n".join(page.rows)
    assert "accuracy, post_update|0.714|0.381|+0.333|" in "\n".join(page.rows)
    for value in ("0.512", "0.519", "0.213", "covtype", "adaptive", "3.1 s", "29,988 records/s", "9f2c" * 16):
        assert value in page.text
    assert "read 92,962 = accepted 92,960 + rejected 2 + pending 0" in page.text
    assert "held_out|1,850|" in "\n".join(page.rows)


def test_figures_say_which_predictions_they_are_of_where_labels_come_late(made_up: Build) -> None:
    rows = "\n".join(Page(render(made_up(label_delay=10, unanswered=4, waiting=2, expired=1), title="Replay")).rows)
    assert "accuracy, prequential|0.702|0.381|+0.321|the prediction that was given before the label came|" in rows
    assert "at the start of the round in which the label came|" in rows
    assert "label delay|10 records|" in rows
    assert "predicted before any model|4|" in rows
    assert "waiting|2|" in rows
    assert "expired|1|" in rows


@pytest.mark.parametrize("n", [0, 1, 2, 103])
def test_the_page_is_well_formed_for_short_and_long_runs(made_up: Build, n: int) -> None:
    page = Page(render(made_up(n, at=[2] if n > 1 else []), drifts=[1, 500], title="Replay"))
    assert page.open == []
    assert page.tags.count("html") == page.tags.count("h1") == 1


def test_a_hostile_name_stays_text(made_up: Build, restart: Callable[..., DatedRestart]) -> None:
    evil = '"><script>alert(1)</script>'
    hit = restart(5, 2, cause=evil, chosen=evil, clients=(evil,), labels=(evil,))
    drifted = DatedLocalDrift(
        round=3, epoch=1, clients=(evil,), labels=(evil,), since=2, state=evil, statistic=11, threshold=9
    )
    result = made_up(9, source=evil, profile=evil, restarts=(hit,), local_drifts=(drifted,), model_sha256=evil)
    clean = Page(render(made_up(9, at=[5]), title="Replay"))
    page = Page(render(result, title=evil))
    assert "<script>alert" not in render(result, title=evil)
    assert page.tags.count("script") == clean.tags.count("script") == 2
    assert page.text.count(evil) >= 8


def test_the_page_needs_nothing_from_outside(made_up: Build) -> None:
    page = render(made_up(at=[32]), title="Replay")
    assert not re.search(r"//\w|\burl\(|@import|\bsrc=|<link(?! rel=\"icon\" href=\"data:,\")", page)


def test_each_restart_and_each_drift_has_one_line_in_each_chart(made_up: Build) -> None:
    page = render(made_up(at=[32, 66, 98]), drifts=[31, 65, 97, 300], title="Replay")
    for key in ("Loss", "Accuracy"):
        assert wide(page, key).count('class="restart-line"') == 3
        assert wide(page, key).count('class="drift-line"') == 3
    assert re.findall(r'class="label[^>]*>([^<]*)', wide(page, "Loss")) == [
        "32: glr → scratch",
        "66: glr → scratch",
        "98: glr → scratch",
    ]
    assert wide(page, "Loss").count('class="band"') == 2
    assert re.findall(r'class="epoch"[^>]*>([^<]*)', wide(page, "Loss")) == ["epoch 1", "epoch 2", "epoch 3", "4"]


def test_the_accuracy_chart_draws_no_change_and_the_loss_chart_does_not(made_up: Build) -> None:
    page = render(made_up(), title="Replay")
    assert wide(page, "Accuracy").count('<path class="naive"') == 1
    assert wide(page, "Accuracy").count('<path class="model"') == 1
    assert wide(page, "Loss").count('<path class="naive"') == 0


def test_a_round_of_few_records_is_no_point_of_a_line(made_up: Build) -> None:
    whole = made_up(20)
    rest = replace(whole.per_round[-1], records=9, accuracy=1.0, loss=0.0)
    result = whole.model_copy(update={"per_round": (*whole.per_round[:-1], rest)})
    for drawn, n in ((drawing(whole, ()), 20), (drawing(result, ()), 19)):
        assert [(drawn.sparse, drawn.of)] == [(20 - n, 20)]
        assert [sum(value is not None for value in drawn.hover[key]) for key in ("loss", "accuracy")] == [n, n]
        assert [figure.charts[0].paths[-1].d.count("L") for figure in drawn.figures] == [n - 1, n - 1]
    note = "1 round with fewer than half of the usual records is not drawn."
    assert [note in Page(render(told, title="R")).text for told in (whole, result)] == [False, True]


def test_the_table_of_restarts_gives_delays_only_when_drifts_are_known(made_up: Build) -> None:
    result = made_up(at=[32, 66])
    unknown, known = (Page(render(result, drifts=drifts, title="R")) for drifts in ([], [31, 97]))
    assert "32|2|glr drift score 114 (alarm at 11.7)|an untrained model (scratch)|31|c3, c7|0, 1|" in unknown.rows
    assert (
        "32|2|glr drift score 114 (alarm at 11.7)|an untrained model (scratch)|31|c3, c7|0, 1|1 (drift at 31)|"
        in known.rows
    )
    assert (
        "66|3|glr drift score 114 (alarm at 11.7)|an untrained model (scratch)|65|c3, c7|0, 1|no imposed drift|"
        in known.rows
    )
    assert "No restart followed the drift imposed at round 97" in known.text


def test_a_run_without_restarts_says_so(made_up: Build) -> None:
    page = Page(render(made_up(), title="Replay"))
    assert "No drift was found in 103 rounds." in page.text
    assert "There were no restarts." in page.text


def test_local_drifts_have_a_table_only_if_there_are_any(made_up: Build) -> None:
    drifted = DatedLocalDrift(
        round=80, epoch=1, clients=("c9",), labels=("4",), since=78, state="latched", statistic=11.0, threshold=9.2
    )
    assert (
        "80|78|latched|drift score 11.0 (alarm at 9.2)|c9|4|"
        in Page(render(made_up(local_drifts=(drifted,)), title="R")).rows
    )
    assert "Local drifts" not in render(made_up(), title="R")


def test_a_drift_of_some_clients_is_marked_in_each_chart(made_up: Build) -> None:
    drifted = DatedLocalDrift(
        round=80, epoch=1, clients=("c9",), labels=("4",), since=78, state="latched", statistic=11.0, threshold=9.2
    )
    later = drifted.model_copy(update={"state": "merged", "round": 90})
    page = render(made_up(at=[32], local_drifts=(drifted, later)), title="R")
    for key in ("Loss", "Accuracy"):
        assert wide(page, key).count('class="local-line"') == wide(page, key).count('class="restart-line"') == 1
    assert re.findall(r'class="label[^>]*>([^<]*)', wide(page, "Loss")) == ["32: glr → scratch", "80: c9"]
    assert "round 80: drift at c9 only, drift score 11.0 (alarm at 9.2)" in wide(page, "Loss")


def test_missing_figures_are_en_dashes(made_up: Build) -> None:
    nothing = Figures(prequential=None, round_start=None, post_update=None, no_change=None)
    page = Page(render(made_up(accuracy=nothing, kappa=None, loss=Loss(prequential=None)), title="Replay"))
    assert "accuracy, prequential|–|–|–|" in "\n".join(page.rows)
    assert "None" not in page.text


def test_regression_shows_errors_where_lower_is_better(made_up: Build) -> None:
    error = Figures(prequential=8.125, round_start=8.25, post_update=20.2, no_change=19.2)
    each = tuple(
        RoundLine(round=t, epoch=1, block=t, records=9, loss=0.2, mae=8.0, no_change=19.0) for t in range(1, 9)
    )
    result = made_up(8, accuracy=None, kappa=None, mae=error, rmse=error, per_round=each)
    page = render(result, title="Replay")
    assert re.search(r'class="number better">-11.07<', page)
    assert re.search(r'class="number worse">\+1<', page)
    assert wide(page, "Error").count('<path class="naive"') == 1
    assert "accuracy" not in Page(page).text


def test_a_model_worse_than_no_change_is_called_so(made_up: Build) -> None:
    poor = Figures(prequential=0.3, round_start=0.3, post_update=0.3, no_change=0.4)
    assert "That baseline did better than the model." in render(made_up(accuracy=poor), title="R")
    assert "That baseline" not in render(made_up(), title="R")


def test_a_ledger_that_does_not_add_up_is_called_so(made_up: Build) -> None:
    assert "do not add up" in render(made_up(accepted=92950), title="R")
    assert "do not add up" not in render(made_up(), title="R")


def test_a_run_that_kept_no_rounds_still_has_its_tables(made_up: Build) -> None:
    page = render(made_up(at=[32], per_round=()), drifts=[31], title="R")
    assert "there is nothing to draw" in page
    assert 'class="plot' not in page
    assert "1 (drift at 31)" in page


def test_ten_thousand_rounds_stay_under_a_megabyte_and_keep_their_spikes(made_up: Build) -> None:
    result = made_up(10_000, at=list(range(40, 10_000, 100)))
    page = render(result, drifts=list(range(39, 10_000, 100)), title="R")
    assert len(page.encode()) < 1_000_000
    assert page.count("0.51,") == 100
    assert wide(page, "Loss").count('class="restart-line"') == 100


def test_the_same_result_gives_the_same_page(made_up: Build) -> None:
    assert render(made_up(at=[32]), title="R") == render(made_up(at=[32]), title="R")
