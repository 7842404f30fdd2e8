"""A budget of bytes: the least coarseness that keeps it, whatever a kill may change in an update."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.machines.client.budget import AGAIN, FIRST, RAW, Budget, SentSize, SentSizes, least
from streamfl.machines.coordinator.round.turns import ALL_MEASURED
from streamfl.protocol.messages import KeptRecords, Numbers, Served, Update


def update(
    *, records: int = 100, attempt: str = "1-1", served: Served | None = None, let_go: tuple[int, ...] = ()
) -> Update:
    return Update(
        client="c0",
        attempt=attempt,
        entry=7,
        round=7,
        epoch=1,
        registry=1,
        records=records,
        trained=records,
        rejected=0,
        spans=(),
        numbers=Numbers(served=served or Served()),
        kept=KeptRecords(let_go=let_go),
    )


def size_of(sizes: list[int]):
    """Return a size that falls with `trained`, in which the coarseness is written, and counts all that may differ."""
    return lambda sent: sizes[sent.trained] + len(sent.attempt) + sent.numbers.served.correct + len(sent.kept.let_go)


def kept(bytes_per_record: float, sizes: list[int], *, coarsest: int = 8, **more) -> int:
    """Return the coarseness of the update that is sent."""
    sent = Budget(size_of(sizes), of_record=bytes_per_record).fit(
        replace(update(**more), trained=0), 3, lambda one, times: replace(one, trained=times), coarsest
    )
    assert sent.attempt == more.get("attempt", "1-1")
    return sent.trained


@given(st.lists(st.booleans(), min_size=9, max_size=9))
def test_what_is_found_fits_and_is_the_least_one_where_fitting_goes_on(fits):
    tried: list[int] = []

    def does(number: int) -> bool:
        tried.append(number)
        return fits[number]

    found = least(does, 8)
    assert found == 8 or fits[found]
    assert found == 0 or not fits[found - 1]
    assert len(tried) == len(set(tried)) <= 4
    if sorted(fits) == fits:
        assert found == (fits.index(True) if any(fits[:8]) else 8)


FALLING = [900, 800, 700, 600, 500, 400, 300, 200, 100]


@pytest.mark.parametrize(("bytes_", "coarser"), [(900, 0), (899, 1), (600, 3), (599, 4), (101, 8), (10, 8)])
def test_an_update_is_as_exact_as_its_budget_allows_and_the_coarsest_if_none_keeps_it(bytes_, coarser):
    assert kept((bytes_ + AGAIN) / 100, FALLING) == coarser


def test_the_budget_grows_with_the_records():
    assert [kept(6.0, FALLING, records=n) for n in (100, 150)] == [6, 3]


def test_a_budget_of_values_grows_with_the_features():
    raw, of_records = (Budget(size_of(FALLING), **of) for of in ({"of_value": RAW}, {"of_record": 12.0}))
    assert [budget.of(100, features) for budget in (raw, of_records) for features in (3, 8)] == [
        1200,
        3200,
        1200,
        1200,
    ]


def test_models_that_cannot_be_made_coarser_send_what_they_send():
    assert kept(0.1, [900], coarsest=0) == 0


def test_another_attempt_that_served_otherwise_and_knows_no_more_what_it_let_go_is_rounded_alike():
    edge = (600 + AGAIN) / 100
    served = Served(records=100, correct=99)
    assert kept(edge, FALLING) == kept(edge, FALLING, attempt="2-1000000", served=served) == 3
    assert kept(edge, FALLING, let_go=(3, 4)) == 3


def test_budgets_begin_when_clients_no_longer_all_send_second_moments():
    assert FIRST == ALL_MEASURED + 1


def test_the_total_is_that_of_the_latest_sixteen_rounds_and_an_update_made_again_counts_once():
    taken = SentSizes()
    for round_ in range(5, 20):
        taken.add(round_, 1000, 900.0, 10)
    taken.add(19, 1000, 900.0, 10)  # made again
    assert not taken.exceeds
    taken.add(20, 2600, 4100.0, 50)
    assert taken.total == SentSize(15 * 1000 + 2600, 15 * 900 + 4100, 200)
    assert not taken.exceeds
    taken.add(21, 1001, 900.0, 10)
    assert taken.exceeds
    assert taken.over == 1
    assert list(taken.latest) == list(range(6, 22))
