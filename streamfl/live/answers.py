"""Answers to records without labels: what is written for each record."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import structlog

from streamfl.arrays import BoolArray, FloatArray, IntArray
from streamfl.bounds import NAME_BYTES
from streamfl.machines.client.follower import Follower
from streamfl.protocol.messages import RoundOpened
from streamfl.protocol.messages.decision_rule import named
from streamfl.protocol.records import Batch, Span
from streamfl.records.values.cells import listed
from streamfl.runtime.log.predictions import DIGITS, MOST_KEY, Prediction, encoded
from streamfl.runtime.log.tally import Tally
from streamfl.runtime.ports import RecordAnswer, UnlabelledRecords

LOG = structlog.get_logger("streamfl.answers")


@dataclass
class Predictor:
    """Answers records with the models that a follower has."""

    follower: Follower  # the models
    stride: int  # positions per message of the records' format
    probabilities: bool = True  # whether answers tell the probability of each label

    # How many records were answered by the model of a client that has drifted alone. None while one has means that no
    # record names it: the name is missing or spelt otherwise, and the models do not say who else takes part.
    own: int = 0
    _blind: Tally = field(default_factory=lambda: Tally(LOG, "record without any feature of the models"))

    @property
    def blind(self) -> int:
        """Count the records that were answered though they have none of the models' features."""
        return self._blind.total

    def to(self, asked: UnlabelledRecords) -> list[RecordAnswer]:
        """Return the answers to records, in their order, all by the models of one round.

        Raises
        ------
        PeerError
            There are no models yet.
        """
        serving = self.follower.serving()
        opened, records = serving.opened, asked.records
        if not len(records.positions):
            return []
        self._note_blind(asked, serving.registry.features)
        P, labels = self._predictions(asked, opened)
        told = named(opened.decision.label_indices(P, labels), labels) if labels else P[:, 0].tolist()
        shares = self._shares(P, labels)
        answers = []
        for position, prediction, share in zip(records.positions.tolist(), told, shares, strict=True):
            offset, row = divmod(position, self.stride)
            key = asked.keys.get(offset)
            value = Prediction(
                None if key is None else key[:NAME_BYTES].decode(errors="backslashreplace"),
                prediction,
                opened.round,
                opened.epoch,
                opened.entry - 1,
                asked.topic,
                asked.partition,
                offset,
                row,
                share,
            )
            answers.append(RecordAnswer(None if key is None else key[:MOST_KEY], encoded(value)))
        return answers

    def _note_blind(self, asked: UnlabelledRecords, features: tuple[str, ...]) -> None:
        """Tell of records of which no model knows a feature: all get one answer, that of the mean record."""
        records, known = asked.records, set(features)
        columns = [i for i, name in enumerate(records.features) if name in known]
        X = records.X if len(columns) == len(records.features) else records.X[:, columns]
        reason = f"records next to it have {listed(records.features[:5])}; they know {listed(features[:5])}"
        for i in np.flatnonzero(np.isnan(X).all(axis=1)).tolist():
            self._blind.note(asked.topic, reason, position=int(records.positions[i]))

    def _shares(self, P: FloatArray, labels: tuple[str, ...]) -> Iterator[dict[str, float] | None]:
        if not labels or not self.probabilities:
            return iter([None] * len(P))
        return (dict(zip(labels, row, strict=True)) for row in P.round(DIGITS).tolist())

    def _predictions(self, asked: UnlabelledRecords, opened: RoundOpened) -> tuple[FloatArray, tuple[str, ...]]:
        """Return predictions; records of clients that have drifted alone have those of their own model."""
        clients = np.array(asked.records.clients)
        apart = {client for group in opened.apart for client in group.clients} & set(asked.records.clients)
        rest = np.ones(len(asked.records.positions), np.bool_)
        parts: list[tuple[IntArray, FloatArray]] = []
        labels: tuple[str, ...] = ()
        for client in sorted(apart):
            of_client = clients == client
            P, labels = self.follower.predictions(_batch(asked, of_client), client)
            parts.append((np.flatnonzero(of_client), P))
            rest &= ~of_client
        self.own += int(np.count_nonzero(~rest))
        if rest.any():
            P, labels = self.follower.predictions(_batch(asked, rest))
            parts.append((np.flatnonzero(rest), P))
        found = np.zeros((len(rest), parts[0][1].shape[1]))
        for places, P in parts:
            found[places] = P
        return found, labels


def _batch(asked: UnlabelledRecords, chosen: BoolArray) -> Batch:
    records, n = asked.records, int(np.count_nonzero(chosen))
    X = records.X if n == len(chosen) else records.X[chosen]
    return Batch(Span("", 0, n), np.arange(n), records.features, X, np.zeros(n))
