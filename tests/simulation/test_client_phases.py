"""Simulations check every change of a client's phase against the table: wrong ones are found."""

import pytest
from worlds import phases
from worlds.phases import TRANSITIONS

from simulation.federation import federation
from simulation.test_simulation import faults_of
from streamfl.machines.client.ledger.known_ledger import KnownLedger, LedgerPlace
from streamfl.machines.client.phase import Phase
from streamfl.protocol.messages import RoundOpened
from streamfl.testing import Violation

SEED = 5  # messages are lost and late, and machines are killed


def test_a_client_that_takes_an_opening_for_its_place_in_the_ledger_is_noticed(monkeypatch):
    take = KnownLedger.open

    def believing(ledger: KnownLedger, opened: RoundOpened) -> bool:
        if ledger.place is None:
            ledger.place, ledger.entry = LedgerPlace({}, 0, 0), opened.entry - 1
        return take(ledger, opened)

    monkeypatch.setattr(KnownLedger, "open", believing)
    with pytest.raises(Violation, match="is led from JOINING to WAITING by RoundOpened"):
        federation(faults=faults_of(SEED), seed=SEED).run()


@pytest.mark.full
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Phase.FILLING, Phase.JOINING),
        (Phase.JOINING, Phase.RESTORING),
        (Phase.RESTORING, Phase.WAITING),
        (Phase.WAITING, Phase.SENT),
        (Phase.GATHERING, Phase.SENT),
        (Phase.SENT, Phase.SCORING),
        (Phase.SENT, Phase.JOINING),
    ],
    ids=lambda phase: phase.name,
)
def test_a_transition_that_is_missing_from_the_table_is_noticed(before, after, monkeypatch):
    rest = [row._replace(before=tuple(p for p in row.before if p is not before)) for row in TRANSITIONS]
    others = [
        row._replace(before=(before,), after=tuple(p for p in row.after if p is not after))
        for row in TRANSITIONS
        if before in row.before
    ]
    monkeypatch.setattr(phases, "TRANSITIONS", (*rest, *others))
    with pytest.raises(Violation, match=f"is led from {before.name} to {after.name} by"):
        federation(faults=faults_of(SEED), seed=SEED).run()
