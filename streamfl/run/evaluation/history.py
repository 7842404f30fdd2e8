"""The history of a run, from which its result is made."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TypeVar

from streamfl.protocol.decisions import PostUpdate, Predicted
from streamfl.protocol.messages import (
    Finding,
    FromCoordinator,
    InputsMoved,
    InputsStuck,
    LocalDrift,
    Noticed,
    Restarted,
)
from streamfl.run.evaluation.changes import Change
from streamfl.run.evaluation.prequential import Prequential
from streamfl.run.evaluation.result import (
    Dated,
    DatedInputsMoved,
    DatedInputsStuck,
    DatedLocalDrift,
    DatedNotice,
    DatedRestart,
)
from streamfl.run.summary import RoundLine, RoundSummary

Line = TypeVar("Line", DatedRestart, DatedLocalDrift, DatedInputsMoved, DatedInputsStuck, DatedNotice)


@dataclass
class RunHistory:
    """The history of a run, collected from the control messages and the clients' measurements."""

    figures: Prequential = field(default_factory=Prequential)
    rounds: list[RoundLine] = field(default_factory=list)
    restarts: list[DatedRestart] = field(default_factory=list)
    local_drifts: list[DatedLocalDrift] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    inputs_moved: list[DatedInputsMoved] = field(default_factory=list)
    inputs_stuck: list[DatedInputsStuck] = field(default_factory=list)
    notices: list[DatedNotice] = field(default_factory=list)
    findings: list[Dated] = field(default_factory=list)  # all of these, in order
    accepted: int = 0
    trained: int = 0
    rejected: int = 0
    promotions: int = 0
    unanswered: int = 0
    shares: Counter[str] = field(default_factory=Counter)
    unlearnt: int | None = None
    model: str = ""
    time: str | None = None
    by_row: bool = False

    def add(self, event: FromCoordinator | Predicted | PostUpdate) -> None:
        """Add one event next to the entries of the ledger."""
        match event:
            case Predicted() | PostUpdate():
                self.figures.add(event)
            case Restarted():
                self.restarts.append(self._dated(DatedRestart, event))
            case InputsMoved():
                self.inputs_moved.append(self._dated(DatedInputsMoved, event))
            case InputsStuck():
                self.inputs_stuck.append(self._dated(DatedInputsStuck, event))
            case Noticed():
                self.notices.append(self._dated(DatedNotice, event))
            case LocalDrift():
                self.local_drifts.append(self._dated(DatedLocalDrift, event))
            case _:
                pass

    def close(self, closed: RoundSummary, time: str | None) -> None:
        """Add an entry of the ledger, whose last record was measured at a time."""
        self.accepted += closed.records
        self.trained += closed.trained
        self.rejected += closed.rejected
        self.promotions = closed.promotions
        self.shares.update(closed.served.shares)
        if self.unlearnt is not None:
            self.unlearnt += closed.unlearnt
        self.model, self.time = closed.model, time
        if closed.records:
            self.rounds.append(replace(closed.line, time=time))

    def _dated(self, line: type[Line], found: Finding) -> Line:
        """Return a finding as a line of the result: its time is that of the last record of all clients."""
        dated = line.of(found, by_row=self.by_row).model_copy(update={"time": self.time})
        self.findings.append(dated)
        return dated

    def serving(self) -> dict[str, float]:
        """Return the share of each online model in the predictions; they sum to 1."""
        total = sum(self.shares.values())
        return {name: round(share / total, 4) for name, share in self.shares.items()}

    def mean_loss(self) -> float | None:
        """Return the mean loss of the serving model over all records."""
        records = sum(line.records for line in self.rounds)
        return sum(line.loss * line.records for line in self.rounds) / records if records else None
