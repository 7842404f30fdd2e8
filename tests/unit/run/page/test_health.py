"""Whether all is well, and why not."""

from unit.live.page.told import accepted, closed, drifted, heard, joined, left, opened, refused

from streamfl.protocol.messages import Ended, Served
from streamfl.run.page.health import health
from streamfl.run.report.lateness import REMEDY

LONG = "plant=north/hall=2/machine=017"


def told(*messages):
    """What is told of a federation after some messages."""
    return health(heard(*messages).now)


def rounds(n, *names):
    return [closed(i, [(name, 10) for name in names], correct=8 * len(names)) for i in range(1, n + 1)]


def test_a_federation_in_which_nothing_is_wrong_is_well():
    assert told(joined("a"), joined("b"), *rounds(4, "a", "b")) == (
        "All is well: 2 clients took part; predictions are no worse than NoChange.",
        "well",
    )


def test_before_and_after_its_rounds_a_federation_is_neither_well_nor_ill():
    assert told(joined("a")) == told(*rounds(2, "a"), Ended(entry=3)) == ("", "")


def test_clients_that_are_missing_or_refused_are_named_by_the_ends_of_their_names():
    text, kind = told(joined("a"), joined(LONG), *rounds(3, "a"), opened(4), refused("a"))
    assert (text, kind) == (
        "Not all is well: the coordinator refuses 1 client (a); 1 client (…/hall=2/machine=017) missed the last 3 "
        "rounds or more.",
        "warns",
    )


def test_clients_that_drifted_alone_are_named_until_they_learn_with_the_others_again():
    messages = [joined("a"), joined("b"), *rounds(4, "a", "b"), drifted(4, "latched", ("b",))]
    assert told(*messages) == ("Not all is well: 1 client (b) drifted alone.", "warns")
    assert told(*messages, drifted(5, "released", ("b",)))[1] == "well"


def test_predictions_that_are_worse_than_no_change_are_not_well():
    text, kind = told(joined("a"), closed(1, [("a", 10)], correct=4, no_change=5.0))
    assert (text, kind) == (
        "Not all is well: predictions of the last 1 round are worse than NoChange (0.400, NoChange 0.500).",
        "warns",
    )
    served = Served(records=10, absolute_error=20.0, no_change=40.0)
    assert told(joined("a"), closed(1, [("a", 10)], served=served))[1] == "well"


def test_rounds_that_most_clients_miss_again_and_again_are_not_well():
    few = [closed(i, [("a", 10)], correct=8, refused=19, late=19) for i in range(1, 6)]
    text, kind = told(joined("a"), *few)
    assert (text, kind) == (
        f"Not all is well: in 5 of the last 5 rounds more updates came too late than in time; {REMEDY}.",
        "warns",
    )
    assert told(joined("a"), *few[:2])[1] == "well"


def test_entries_that_teach_nothing_are_stalled_by_the_rule_of_the_coordinator():
    empty = [closed(i, [("a", 0)]) for i in range(5, 16)]
    messages = [joined("a"), *rounds(4, "a"), *empty]
    reason = "nothing was learnt in the last 11 entries: no update had any record"
    assert told(*messages) == (f"Stalled: {reason}.", "stalled")
    assert told(*messages, closed(16, [("a", 10)], correct=8))[1] == "well"


def test_a_log_is_not_stalled_while_clients_gather_the_records_of_a_long_round():
    def after(minutes, closes):
        view = heard(joined("a"), *rounds(1, "a"), opened(2, closes=closes)).now
        return health(view, view.time + 60_000 * minutes)[1]

    assert [after(11, closes) for closes in (None, 60.0, 3600.0)] == ["stalled", "stalled", "well"]
    assert after(601, 3600.0) == after(601, float("nan")) == "stalled"


def test_rejected_records_and_a_federation_that_all_have_left_are_told():
    many = closed(1, [accepted("a", 8, rejected=2)], correct=8)
    assert told(joined("a"), many)[0] == "Not all is well: 20% of the newest records were rejected."
    assert told(joined("a"), *rounds(1, "a"), left("a"))[0] == "Not all is well: no client takes part."
