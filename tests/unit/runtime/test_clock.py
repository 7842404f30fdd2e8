"""Services go by a clock that nobody sets."""

import time

import pytest

from streamfl.runtime.clock import LONGEST_WAIT, ListeningClock, SystemClock


@pytest.mark.parametrize("step", [3600.0, -3600.0, -1e9])
def test_a_time_of_day_that_is_set_moves_no_deadline(step: float, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    clock, listening = SystemClock(), ListeningClock(waited.append)
    before, today = clock.now(), time.time()
    monkeypatch.setattr(time, "time", lambda: today + step)
    assert 0.0 <= clock.now() - before < 60.0
    listening.sleep_until(before - 1.0)
    listening.sleep_until(clock.now() + 0.5 * LONGEST_WAIT)
    listening.sleep_until(clock.now() + 3600.0)
    assert waited == [0.0, pytest.approx(0.5 * LONGEST_WAIT, abs=0.1), LONGEST_WAIT]
