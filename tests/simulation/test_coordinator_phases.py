"""Simulations hold every step of the coordinator against its table of phases: one that is wrong is noticed."""

import pytest
from worlds import phases
from worlds.phases import STAGES

from simulation.federation import federation
from simulation.test_simulation import faults_of
from streamfl.machines.coordinator.close import rounds
from streamfl.machines.coordinator.phase import Phase
from streamfl.machines.coordinator.recovery import Recovery
from streamfl.machines.coordinator.standing import Standing
from streamfl.testing import Violation

SEED = 5  # messages are lost and late, everything is killed now and then, and an alarm asks for scores


@pytest.mark.full
@pytest.mark.parametrize("pair", STAGES, ids=lambda pair: f"{pair[0].name} to {pair[1].name}")
def test_a_transition_that_is_missing_from_the_table_is_noticed(pair, monkeypatch):
    before, after = pair
    monkeypatch.setattr(phases, "STAGES", {row: by for row, by in STAGES.items() if row != pair})
    sums = "masked" if Phase.ENQUIRING in pair else "off"
    with pytest.raises(Violation, match=f"coordinator is led from {before.name} to {after.name} by"):
        federation(faults=faults_of(SEED), seed=SEED, secure_aggregation=sums).run()


def test_a_coordinator_that_lets_go_of_the_open_round_is_noticed(monkeypatch):
    close = rounds.close

    def forgetting(standing: Standing, now: float):
        decisions = close(standing, now)
        if standing.state.round == 4:
            standing.unsaved.open = None
        return decisions

    monkeypatch.setattr(rounds, "close", forgetting)
    monkeypatch.setattr(Recovery, "_finite", lambda recovery, step, now: step(recovery.standing, now))
    with pytest.raises(Violation, match="coordinator is led from COLLECTING to STOPPED"):
        federation(faults=faults_of(SEED), seed=SEED).run()
