"""A client's part of a round: its work on the round's records, and the messages that report it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from streamfl.arrays import BoolArray, FloatArray
from streamfl.learning.grid import on_grid, second_steps, short
from streamfl.learning.history import History, chosen
from streamfl.learning.local_round import Learner, LocalResult, LocalRound, RoundRecords
from streamfl.machines.client.work.comparison import Comparison
from streamfl.protocol.messages import (
    HoldoutRule,
    KeptRecords,
    Learnt,
    Numbers,
    RoundOpened,
    SampledRound,
    Score,
    Scores,
    Served,
    Tried,
    Update,
    Watermark,
    asked_of,
)
from streamfl.protocol.moments import Moments, moments_of
from streamfl.protocol.records import Batch, first_and_last_time, spans
from streamfl.protocol.registry import Registry, TargetUnit


@dataclass(frozen=True, eq=False)
class ClientRound:
    """The records of one client's round, and the work that the round asks for."""

    client: str
    learner: Learner  # how the federation learns
    opened: RoundOpened  # the open round
    registry: Registry  # the round's names and scales
    batches: tuple[Batch, ...]  # the records, as read
    first: int  # how many records the ledger has accounted for before them
    before: Comparison  # the holdout of earlier rounds
    radius: float | None = None  # the largest norm of a record; None: any

    @cached_property
    def records(self) -> RoundRecords:
        """Return the records in the coordinates of the registry."""
        records = RoundRecords.of(self.batches, self.registry)
        return records if self.radius is None else records.within(self.radius)

    def work(self, weights: Mapping[str, FloatArray], history: History) -> LocalResult:
        """Score every live model, also on old records, and take the local steps."""
        opened, held = self.opened, self._holdout_rule
        old = None if held is None else self._compared.settle(opened.round, held.since)
        serves = opened.served_by(self.client)
        return self._local_round(opened, weights, old=old, serves=serves, tested=opened.tested).run(history)

    def scores(self, asked: Score, weights: Mapping[str, FloatArray], history: History, attempt: str) -> Scores:
        """Score candidates for the next epoch, and take their steps."""
        result = self._local_round(asked, weights).run(history, relabel=asked.relabel)
        return self._scores(
            asked,
            attempt,
            losses=result.losses,
            differences=result.differences,
            relabelling=result.relabelling,
        )

    def update(
        self,
        result: LocalResult,
        *,
        attempt: str,
        served: Served,
        tried: tuple[Tried, ...],
        learnt: Learnt | None,
        sample: SampledRound | None,
        arrived: Moments | None = None,
        watermark: Watermark | None = None,
        period: int | None = None,
    ) -> Update:
        """Return the update for the round.

        Parameters
        ----------
        attempt
            The name of this attempt: it differs from any other for the same round.
        sample
            The places of the records that go to the history sample.
        arrived
            The moments of records that have come since the last update, if labels come later.
        watermark
            How far the client has come in records whose labels come later.
        period
            With rounds by event time, the period of the next record, if it is known.
        """
        opened, registry, records = self.opened, self.registry, self.records
        unknown, measured = registry.unknown_features(self.batches), opened.asks.of(self.client)
        came, left = self.after.changes(self.before)
        return self._update(
            attempt,
            records=len(records.y),
            trained=result.trained if result.differences else 0,
            numbers=Numbers(
                losses=result.losses,
                differences=result.differences,
                new=result.new,
                old=result.old,
                moments=self._moments(unknown) if (opened.asks.moments and measured) or unknown else None,
                arrived=arrived,
                second_moments=self._second_moments(),
                squared_norm=short(records.norms.sum()),
                largest_norm=short(np.sqrt(records.norms.max(initial=0.0))),
                target=TargetUnit() if records.labels else TargetUnit.of(targets_in(self.batches)),
                served=served,
                tried=tried,
                learnt=learnt,
                times=first_and_last_time(self.batches),
            ),
            new_labels=records.labels[len(registry.labels) :],
            new_features=unknown,
            kept=KeptRecords(sample=sample, held=came, let_go=left),
            watermark=watermark,
            period=period,
        )

    def empty_update(self, attempt: str, watermark: Watermark | None, period: int | None) -> Update:
        """Return the update for a round without good records: only the positions of bad ones."""
        return self._update(attempt, records=0, trained=0, watermark=watermark, period=period)

    def _update(self, attempt: str, **fields: Any) -> Update:
        opened = self.opened
        return Update(
            client=self.client,
            attempt=attempt,
            entry=opened.entry,
            round=opened.round,
            epoch=opened.epoch,
            registry=opened.registry,
            rejected=sum([batch.bad for batch in self.batches]),
            spans=spans(self.batches),
            **fields,
        )

    def empty_scores(self, asked: Score, attempt: str) -> Scores:
        """Return the answer of a client without good records in the round."""
        return self._scores(asked, attempt, losses={}, differences={})

    def _scores(self, asked: Score, attempt: str, **fields: Any) -> Scores:
        return Scores(
            client=self.client,
            attempt=attempt,
            entry=asked.entry,
            epoch=asked.epoch,
            stage=asked.stage,
            resumed=asked.resumed,
            **fields,
        )

    def sample(self) -> tuple[tuple[Batch, ...], SampledRound | None]:
        """Return the records that go to the history sample, and their places."""
        if not self.opened.earlier.keep or not self.batches:
            return (), None
        return chosen(
            self.batches,
            t=self.opened.round,
            first=self.first,
            keep=self.opened.earlier.keep,
            seed=self.learner.seed,
            client=self.client,
        )

    @property
    def after(self) -> Comparison:
        """Return the holdout after the round."""
        return self._held_back[0]

    @cached_property
    def _holdout_rule(self) -> HoldoutRule | None:
        """Return the holdout rule of this client, which may start later than others."""
        held = self.opened.earlier.held
        return None if held is None else HoldoutRule(per_label=held.per_label, since=held.since_at(self.client))

    @cached_property
    def _compared(self) -> Comparison:
        """Return the holdout of earlier rounds, in the coordinates of the registry."""
        held = self._holdout_rule
        return Comparison() if held is None else self.before.under(self.registry, held.since)

    @cached_property
    def _held_back(self) -> tuple[Comparison, BoolArray | None]:
        """Return the holdout after the round, and a mask of the round's records in it."""
        held = self._holdout_rule
        if held is None:
            return Comparison(), None
        return self._compared.after(
            self.batches,
            self.records,
            held,
            t=self.opened.round,
            first=self.first,
            seed=self.learner.seed,
            client=self.client,
        )

    def _local_round(
        self,
        asked: RoundOpened | Score,
        weights: Mapping[str, FloatArray],
        *,
        old: RoundRecords | None = None,
        serves: str | None = None,
        tested: str = "",
    ) -> LocalRound:
        slots = asked_of(self.client, asked.slots)
        return LocalRound(
            learner=self.learner,
            records=self.records,
            slots=slots,
            weights=weights,
            trains=self.opened.trained_by(self.client, slots),
            serves=serves,
            tested=tested or serves,
            known_labels=self.opened.known_labels,
            key=(self.client, self.opened.round),
            held=self._held_back[1],
            old=old,
            exponents=self.opened.asks.exponents,
        )

    def _moments(self, unknown: tuple[str, ...]) -> Moments:
        """Return the moments of the registered features and of those that are new, which they do not name again."""
        aligned = moments_of(self.batches).aligned((*self.registry.features, *unknown))
        return replace(aligned, features=())

    def _second_moments(self) -> FloatArray | None:
        """Return the sum of z z^T over the records, on the grid of the round, if it is asked for."""
        opened, Z = self.opened, self.records.Z
        if not (opened.asks.second_moments and opened.asks.of(self.client)):
            return None
        return on_grid(Z.T @ Z, second_steps(opened.asks.exponents, Z.shape[1]))


def targets_in(batches: tuple[Batch, ...]) -> FloatArray:
    """Return the targets of all records, in the order read."""
    return np.concatenate([np.zeros(0), *(batch.y for batch in batches)])
