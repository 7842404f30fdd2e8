"""When a client asks again, by hand."""

import pytest

from streamfl.machines.client.patience import Patience

RETRY = 5.0


def test_a_client_asks_again_after_retry_seconds():
    asked = Patience(RETRY).asks("join", now=10.0)
    assert (asked.asked, asked.ends, asked.ends_at_last) == ("join", 15.0, 170.0)


def test_a_client_waits_twice_as_long_each_time_but_at_most_32_times():
    patience, ends = Patience(RETRY).asks("join", now=10.0), []
    for _ in range(8):
        patience = patience.loses().asks("join", now=patience.ends)
        ends.append(patience.ends)
    # 15 + 10, + 20, + 40, + 80, + 160, and 160 from then on.
    assert ends == [25.0, 45.0, 85.0, 165.0, 325.0, 485.0, 645.0, 805.0]


def test_an_answer_restarts_a_clients_wait_and_triggers_no_question():
    waited = Patience(RETRY).asks("join", now=0.0).loses().loses().asks("join", now=7.0)
    assert waited.ends == 27.0
    heard = waited.hears(now=9.0)
    assert (heard.ends, heard.asked) == (14.0, "join")


def test_setbacks_lengthen_the_wait_until_an_update_is_accepted():
    refused = Patience(RETRY).set_back().set_back().asks("join", now=100.0)
    assert refused.ends == 120.0
    assert refused.hears(now=110.0).ends == 130.0
    assert refused.hears(now=110.0).succeeds().ends == 115.0


@pytest.mark.parametrize(("unanswered", "setbacks", "ends"), [(0, 0, 5.0), (3, 1, 40.0), (1, 4, 80.0), (9, 6, 160.0)])
def test_the_longer_wait_of_silence_and_setbacks_counts(unanswered, setbacks, ends):
    assert Patience(RETRY, unanswered=unanswered, setbacks=setbacks).ends == ends


def test_a_client_asks_at_once_when_it_loses_patience_or_its_place_and_only_the_first_counts():
    asked = Patience(RETRY).asks("leave", now=2.0)
    assert (asked.loses().asked, asked.loses().unanswered) == (None, 1)
    assert (asked.may_ask().asked, asked.may_ask().unanswered) == (None, 0)
    assert asked.loses().ends == 12.0
    assert asked.may_ask().ends == 7.0


def test_a_client_waits_32_times_as_long_for_an_announced_time_however_often_it_has_asked():
    patience = Patience(2.0).loses().set_back().waits_again(now=6.0)
    assert (patience.ends_at_last, patience.ends) == (70.0, 10.0)
