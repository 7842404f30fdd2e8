"""What an entry of the ledger says is made of it once, whoever wrote it."""

import math
from dataclasses import fields, replace

import pytest
from pydantic import TypeAdapter, ValidationError
from unit.live.page.told import accepted, closed, heard

from streamfl.live.operator.watch import lines
from streamfl.protocol.messages import Served, Watermark
from streamfl.run.page.sections import COLUMNS, sections
from streamfl.run.summary import WORDS, RoundLine, RoundSummary

REMARKS = {one.name: one.metadata[WORDS] for one in fields(RoundSummary) if WORDS in one.metadata}
TARGETS = Served(records=10, absolute_error=25.0, no_change=40.0)


def test_a_summary_copies_what_the_entry_says_under_the_same_names() -> None:
    entry = closed(7, [("c0", 30), ("c1", 10)], correct=30, no_change=16.0, refused=2, unlearnt=1, promotions=3)
    summary = RoundSummary.of(entry)
    same = {one.name for one in fields(RoundSummary)} & {one.name for one in fields(entry)}
    assert {name: getattr(summary, name) for name in same} == {name: getattr(entry, name) for name in same}
    assert (summary.loss, summary.accuracy, summary.mae, summary.no_change) == (0.25, 0.75, None, 0.4)
    assert (summary.clients, summary.accepted) == (2, entry.accepted)


def test_predictions_of_targets_are_told_by_their_error_or_by_who_knows() -> None:
    entry = closed(1, [("c0", 10)], served=TARGETS)
    assert (RoundSummary.of(entry).accuracy, RoundSummary.of(entry).mae) == (None, 2.5)
    exact = replace(entry, served=replace(TARGETS, absolute_error=0.0))
    assert (RoundSummary.of(exact).mae, RoundSummary.of(exact, targets=True).mae) == (None, 0.0)


def test_late_labels_are_added_up_over_the_updates() -> None:
    marked = [
        replace(accepted(name, 5), watermark=Watermark("f", 9, expired=2, unmatched=1, repeated=n, unusable=0))
        for n, name in enumerate("ab")
    ]
    summary = RoundSummary.of(closed(1, marked))
    assert (summary.expired, summary.unmatched, summary.repeated, summary.unusable) == (4, 2, 1, 0)
    assert list(summary.remarks().values()) == ["4 expired", "2 unmatched", "1 repeated"]


@pytest.mark.parametrize(
    "served", [Served(), Served(records=3, correct=10**400), Served(records=-3, no_change=math.nan)]
)
def test_an_entry_that_lies_raises_nothing(served: Served) -> None:
    summary = RoundSummary.of(closed(1, [("c0", 3)], served=served, losses={}, rejected=10**400))
    assert math.isnan(summary.loss)
    assert len(summary.remarks()["rejected"]) > 400


def test_a_line_of_the_result_is_read_as_it_was_written_and_has_no_other_key() -> None:
    line, lines = RoundSummary.of(closed(1, [("c0", 4)], correct=3)).line, TypeAdapter(RoundLine)
    assert lines.validate_json(lines.dump_json(line)) == line
    with pytest.raises(ValidationError):
        lines.validate_python(lines.dump_python(line) | {"other": 1})


@pytest.mark.parametrize("name", REMARKS)
def test_a_count_with_words_is_shown_by_watch_and_the_page_without_a_line_of_theirs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, words = closed(1, [("c0", 9)]), f"3 {REMARKS[name]}"
    made = replace(RoundSummary.of(entry), **{name: 3})
    monkeypatch.setattr(RoundSummary, "of", lambda *_, **__: made)
    (text,), _ = lines(entry)
    (row,) = sections(heard(entry).now)["ledger"]
    assert text.endswith(words)
    assert row[-1] == ("" if name in COLUMNS else words)
    assert 3 in row or name not in COLUMNS
