"""The small federation that simulations run: three clients, a swap of labels, a late label, bad records."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from worlds.faulty import Faults
from worlds.simulation import Simulation

from streamfl.learning.drift.detectors.conformal import Conformal
from streamfl.learning.drift.detectors.glr import GLRDetector
from streamfl.learning.pooling.masks import Sums
from streamfl.learning.profiles.adaptive.promotion import LEARNT, Promotion
from streamfl.learning.profiles.paper.profile import Paper, PaperSettings
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.records import Rejection
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.settings import LearningSettings
from streamfl.wire import messages
from streamfl.wire.masking import expand

CLIENTS = 3
ROUND = 20
ROUNDS = 16
BAD = 7

PAPER = PaperSettings(
    horizon=ROUNDS,
    rho_scale=0.0003,
    new_instance="warm",
    new_block="warm",
    after_alarm="warm",
    history_rounds=4,
    history_records=6,
)

PROFILES: dict[str, Callable[[], CoordinatorState]] = {
    "adaptive": lambda: CoordinatorState(Promotion()),
    "paper": lambda: CoordinatorState(Paper(PAPER)),
    # As if the models had learnt before: the scout is frozen after round 2.
    "scouting": lambda: CoordinatorState(Promotion(detector=Conformal(), learnt=LEARNT - 2 * CLIENTS * ROUND)),
}

# The same where sums are masked: no old record is scored again.
OF_SUMS: dict[str, Callable[[], CoordinatorState]] = {
    "adaptive": lambda: CoordinatorState(Promotion(detector=GLRDetector())),
    "paper": lambda: CoordinatorState(Paper(replace(PAPER, optimistic="regret"))),
}


def stream() -> Table:
    """Two Gaussian classes that are swapped at round 11, and a third label that appears at round 5."""
    rng = np.random.default_rng(7)
    n = CLIENTS * ROUND * ROUNDS - 11
    y = rng.integers(0, 2, n).astype(np.float64)
    X = rng.normal(size=(n, 2)) + 3.0 * y[:, None]
    late = rng.random(n) < 0.05
    late[: CLIENTS * ROUND * 4] = False
    X[late] = rng.normal(size=(int(late.sum()), 2)) + np.array([9.0, -9.0])
    y = np.where(np.arange(n) >= CLIENTS * ROUND * 10, 1.0 - y, y)
    y[late] = 2.0
    bad = tuple(Rejection(int(p), "not a number") for p in np.sort(rng.choice(n, BAD, replace=False)))
    places = np.setdiff1d(np.arange(n + BAD), [r.position for r in bad])
    return Table("two-gaussians", ("a", "b"), X, y, ("0", "1", "2"), places, bad)


def exchanged() -> Table:
    """Two classes that one feature tells apart; from round 11 on the other one does."""
    rng = np.random.default_rng(9)
    n, at = CLIENTS * ROUND * ROUNDS - 11, CLIENTS * ROUND * 10
    X = rng.normal(size=(n, 2))
    y = (X[:, 0] > 0.0).astype(np.float64)
    X[at:] = X[at:, ::-1]
    return Table("exchanged", ("a", "b"), X, y, ("0", "1"), np.arange(n))


def federation(
    profile: str = "adaptive",
    *,
    table: Table | None = None,
    seed: int = 0,
    faults: Faults | None = None,
    quorum: int | None = None,
    learning: LearningSettings | None = None,
    min_records: int = 1,
    secure_aggregation: Sums = "off",
    min_clients_per_sum: int = 2,
) -> Simulation:
    """Return the federation under some faults, on `stream` if no other table is given."""
    table = table or stream()
    learning = learning or LearningSettings(features="rounds")
    learner = learning.learner("classification", 0)
    return Simulation(
        table=table,
        logs=deal(table, CLIENTS, "round-robin", 0),
        client=ClientSettings(
            learner=learner,
            round_size=ROUND,
            min_records=min_records,
            retry=2.0,
            budget=learning.budget(messages.size),
            secure_aggregation=secure_aggregation,
            min_clients_per_sum=min_clients_per_sum,
        ),
        coordinator=CoordinatorSettings(
            learner=learner,
            min_clients=CLIENTS,
            quorum=quorum,
            deadline=None if quorum is None else 1.0,
            secure_aggregation=secure_aggregation,
            min_clients_per_sum=min_clients_per_sum,
            expand=expand,
        ),
        state=(PROFILES if secure_aggregation == "off" else OF_SUMS)[profile],
        faults=faults or Faults(),
        seed=seed,
        # If messages take as long as a client's patience, it waits for the answer to its newest question. With the
        # worst faults drawn here a run takes 57,000 steps.
        most_steps=100_000,
    )
