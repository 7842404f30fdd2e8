"""What a check says of records and labels that are repartitioned, before anything runs."""

import numpy as np
import pytest

from streamfl.runtime.log.repartitioning.sampled import (
    busiest,
    clients_seen,
    labels_fit,
    match,
    needed_window,
    unseen_span,
)
from streamfl.runtime.log.repartitioning.whose import Whose


def machine(parts, later=40, of="P", machines=3):
    """Return records of machines, one a second, and their labels seconds later."""
    records = [(Whose(f"m{i % machines}", f"P{i}"), 1000 * i) for i in range(parts)]
    return records, [(Whose("", f"{of}{i}"), 1000 * (i + later)) for i in range(parts)]


def fit(records, labels, *, rate=0.0, window=10_000, partitions=12, without=(0, 0)):
    found = match(records, labels, rate, without)
    return labels_fit(found, needed_window(found, busiest(records, partitions)), window)


def test_labels_that_find_their_records_report_how_late_they_come_and_the_window_that_is_enough():
    told = fit(*machine(200), rate=12.0, partitions=1)
    assert told.state == "ok"
    # 17 positions a second, for 40 seconds and a minute more.
    assert told.found == (
        "200 of 200 labels find their record among 200 records, 40 to 40 s after it (half of them within 40 s); "
        "`window` is 10,000; 1,700 records are enough"
    )


def test_labels_of_which_none_finds_a_record_are_an_error_that_shows_both_ids():
    told = fit(*machine(200, of="part-"))
    assert told.state == "error"
    assert told.found == "0 of 200 labels find their record among 200 records"
    assert 'a label has "part-0", a record "P0"' in told.remedy


@pytest.mark.parametrize("deleted", [0, 300])
@pytest.mark.parametrize("each", [20, 100, 400])
@pytest.mark.parametrize("lost", [0, 7])
def test_whatever_is_looked_at_labels_whose_records_were_not_are_not_missing(each, lost, deleted):
    """Records come to three partitions, one of which gets most; each has a label, 5 to 90 seconds later.

    The log has deleted the first records, and not their labels.
    """
    rng = np.random.default_rng(each)
    every = [(Whose(f"m{i % 7}", f"P{i}"), 1000 * i) for i in range(1200)]
    parts = [every[0::7], every[1::7], [one for i, one in enumerate(every) if i % 7 > 1]]
    came = sorted((at + int(rng.uniform(5000, 90_000)), one.id) for one, at in every)
    came = [(Whose("", f"Q{i}" if i in range(600, 600 + lost) else key), at) for i, (at, key) in enumerate(came)]
    parts = [[one for one in part if one[1] >= 1000 * deleted] for part in parts]
    newest, oldest = [part[-each:] for part in parts], [part[:-each][:each] for part in parts]
    records = [one for part in [*oldest, *newest] for one in part]
    times = [[[at for _, at in part] for part in end] for end in (oldest, newest)]
    for labels in (came[deleted : deleted + each], came[-each:], came[500:800], came):
        found = match(records, labels, 1.0, unseen_span(*times))
        ids = {one.id for one, _ in records}
        assert len(found.delays) == sum(one.id in ids for one, _ in labels)
        unknown = sum(one.id.startswith("Q") for one, _ in labels)
        assert found.missing <= unknown
        if each == 400 and labels is came[500:800]:
            assert found.missing == unknown == lost, "all records were looked at"


def test_labels_that_find_none_of_the_records_that_were_looked_at_are_a_warning_once_they_are_most():
    records, labels = machine(400)
    assert fit(records, labels[200:] + [(Whose("", f"Q{i}"), 1000 * (i + 100)) for i in range(190)]).state == "ok"
    told = fit(records, labels[200:] + [(Whose("", f"Q{i}"), 1000 * (i + 100)) for i in range(210)])
    assert (told.state, told.found.partition(" find")[0]) == ("warning", "200 of 410 labels")


def test_a_window_that_labels_outlast_is_a_warning_with_one_that_is_enough_for_the_busiest_partition():
    late = machine(200, later=600, machines=1)
    told = fit(*late, rate=1.0, window=3959, partitions=2)
    assert told.state == "warning"
    # 6 positions a second: a single client is in one of the partitions.
    assert "raise window in [labels] to 3960 or more" in told.remedy
    assert fit(*late, rate=1.0, window=3960, partitions=2).state == "ok"


def test_without_labels_nothing_is_claimed():
    told = fit(machine(9)[0], [])
    assert (told.state, told.found) == ("warning", "no label with an id yet")


@pytest.mark.parametrize(("nobodys", "state"), [(0, "ok"), (1, "ok"), (50, "warning")])
def test_every_client_is_named_and_a_few_records_of_none_are_no_alarm(nobodys, state):
    told = clients_seen([*machine(200)[0], *[(Whose(reason="the client is missing"), 0)] * nobodys])
    assert (told.state, "m0, m1, m2" in told.found) == (state, True)


def test_records_that_all_name_no_client_are_an_error():
    assert clients_seen([(Whose(reason="the client is missing"), 0)]).state == "error"
