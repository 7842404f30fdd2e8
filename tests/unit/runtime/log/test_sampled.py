"""What a check says of records and labels that are repartitioned, before anything runs."""

import pytest

from streamfl.runtime.log.repartitioning.sampled import clients_seen, labels_fit, matched
from streamfl.runtime.log.repartitioning.whose import Whose

NOTHING = matched([], [])


def machine(parts, later=40, of="P", machines=3):
    """Return records of machines, one a second, and their labels seconds later."""
    records = [(Whose(f"m{i % machines}", f"P{i}"), 1000 * i) for i in range(parts)]
    return records, [(Whose("", f"{of}{i}"), 1000 * (i + later)) for i in range(parts)]


def test_labels_that_find_their_records_tell_how_late_they_come():
    (told,) = labels_fit(matched(*machine(200)), NOTHING, window=10_000, partitions=12)
    assert told.state == "ok"
    assert told.found.startswith("200 of the newest 200 labels find a record among the newest 200, 40 to 40 s later")


def test_labels_of_which_none_finds_a_record_are_an_error_that_shows_both_ids():
    records, labels = machine(200, of="part-")
    (told,) = labels_fit(matched(records, labels), matched(records, labels[:7]), window=10_000, partitions=12)
    assert told.state == "error"
    assert told.found.startswith(
        "0 of the newest 200 labels find a record among the newest 200 and 0 of the oldest 7"
    )
    assert told.remedy.endswith('a label has "part-0", a record "P0"')


def test_labels_may_be_too_late_for_the_newest_records_and_fit_at_the_other_end():
    records, labels = machine(200)
    late = matched(records, [(Whose("", f"P{i}"), 1000 * i) for i in range(1000, 1200)])
    (told,) = labels_fit(late, matched(records, labels), window=10_000, partitions=12)
    assert told.state == "ok"
    assert told.found.startswith("0 of the newest 200 labels find")


def test_a_window_that_labels_outlast_is_told_with_one_that_is_enough():
    (told,) = labels_fit(matched(*machine(200, later=600), rate=1.0), NOTHING, window=100, partitions=2)
    assert told.state == "warning"
    assert "raise window in [labels] to 3630 or more" in told.remedy
    (told,) = labels_fit(matched(*machine(200, later=600), rate=1.0), NOTHING, window=3630, partitions=2)
    assert told.state == "ok"


def test_without_labels_nothing_is_claimed():
    (told,) = labels_fit(matched(machine(9)[0], []), NOTHING, window=10, partitions=1)
    assert (told.state, told.found) == ("warning", "no label with an id yet")


@pytest.mark.parametrize(("nobodys", "state"), [(0, "ok"), (1, "ok"), (50, "warning")])
def test_every_client_is_named_and_a_few_records_of_none_are_no_alarm(nobodys, state):
    told = clients_seen([*machine(200)[0], *[(Whose(reason="the client is missing"), 0)] * nobodys])
    assert (told.state, "m0, m1, m2" in told.found) == (state, True)


def test_records_that_all_name_no_client_are_an_error():
    assert clients_seen([(Whose(reason="the client is missing"), 0)]).state == "error"
