"""Which model a federation can return to: what the operator is told when there is none."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from unit.live.page.told import closed

from streamfl.errors import UsageError
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.learning.profiles.experts import Experts
from streamfl.live.operator.rollback import past_model
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.runtime.ports import LoggedMessage

# The round of each entry. Entries 2 and 5 closed without records, so that their rounds were opened again.
LEDGER = {1: 1, 2: 2, 3: 2, 4: 3, 5: 4, 6: 4, 7: 5, 8: 6, 9: 7, 10: 8}


@dataclass
class ShortLog:
    """The log of a federation whose next entry is 11."""

    profile: object
    oldest: int = 1
    read: list[int] = field(default_factory=list)

    def state(self):
        return CoordinatorState(self.profile, entry=11, round=9)

    def watcher(self, *, last, letters):
        assert (last, letters) == (None, False)
        return ShortWatcher(iter(range(self.oldest, 11)), self.read)


@dataclass
class ShortWatcher:
    """Tells an entry at a time, and each time nothing in between."""

    left: Iterator[int]
    reads: list[int]
    silent: bool = False
    closes: int = 0

    def read(self):
        self.silent = not self.silent
        if self.silent:
            return ()
        entry = next(self.left)
        self.reads.append(entry)
        return [LoggedMessage(closed(entry, (), round=LEDGER[entry]))]

    def close(self):
        self.closes += 1


def adaptive(rounds=8):
    profile = Promotion()
    for t in range(1, rounds + 1):
        profile.trail.keep(t, np.full((1, 1), float(t)))
    return profile


def test_a_rollback_takes_the_youngest_model_of_that_time_or_before():
    assert adaptive().past_rounds == (8, 7, 5, 1)
    log = ShortLog(adaptive())
    assert past_model(log, 7) == "round-5"
    assert log.read == [1, 2, 3, 4, 5, 6, 7], "nothing after the entry is read"
    assert past_model(ShortLog(adaptive()), 6) == "round-1", "round 4, and those of 5, 7 and 8 came later"
    assert past_model(ShortLog(adaptive()), 10) == "round-8"


@pytest.mark.parametrize(
    ("log", "entry", "reason"),
    [
        (ShortLog(adaptive()), 11, "there is no entry 11: entries 1 to 10 are closed"),
        (ShortLog(adaptive(), oldest=4), 3, "the log no longer holds entry 3"),
        (ShortLog(Experts()), 4, "entry 4 closed round 3, but no model of that time is kept: experts keeps none"),
    ],
)
def test_a_rollback_to_a_model_that_is_not_kept_is_refused_with_the_reason(log, entry, reason):
    with pytest.raises(UsageError, match=f"^{reason}$"):
        past_model(log, entry)


def test_a_refused_rollback_names_the_models_that_are_kept():
    profile = adaptive()
    profile.trail.kept = profile.trail.kept[:2]
    with pytest.raises(
        UsageError, match="closed round 1, but no model of that time is kept: those of rounds 8, 7 are"
    ):
        past_model(ShortLog(profile), 1)
