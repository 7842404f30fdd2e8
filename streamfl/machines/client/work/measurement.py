"""A client's predictions, for evaluation in the same process; no message carries them."""

from collections.abc import Sequence
from dataclasses import dataclass

from streamfl.arrays import FloatArray
from streamfl.learning.local_round import LocalResult, RoundRecords
from streamfl.machines.client.ledger.evaluated import in_original_units
from streamfl.machines.client.ledger.models import ClientModels
from streamfl.machines.client.work.in_flight import SentUpdate
from streamfl.protocol.decisions import PostUpdate, Predicted
from streamfl.protocol.messages import RoundOpened, Update
from streamfl.protocol.records import Batch, spans


@dataclass
class Measurement:
    """Predictions of a round's records, before and after training on them."""

    wanted: bool  # whether to report predictions
    # The last accepted update, until the model trained on its records has predicted them.
    last: SentUpdate | None = None

    def before(
        self,
        update: Update,
        batches: Sequence[Batch],
        records: RoundRecords,
        result: LocalResult,
        repeated: FloatArray,
    ) -> list[Predicted]:
        """Return the predictions of a round's records but those that were told before; nothing if there were none.

        Parameters
        ----------
        repeated
            The predictions of NoChange, shape (n,).
        """
        if not (self.wanted and len(result.served)):
            return []
        told = sum(len(batch) for batch in batches if batch.answered_early)
        predicted = Predicted(
            client=update.client,
            round=update.round,
            attempt=update.attempt,
            spans=spans(unanswered(batches)) if told else update.spans,
            truth=in_original_units(records.y, records)[told:],
            no_change=repeated[told:],
            served=in_original_units(result.served, records)[told:],
            at_start=in_original_units(result.at_start, records)[told:],
            labels=records.labels,
        )
        return [predicted]

    def accept(self, sent: SentUpdate) -> None:
        """Remember an accepted update until its records have been predicted again."""
        self.last = sent if self.wanted and (sent.update.numbers.served.records or sent.update.sums) else None

    def after(self, opened: RoundOpened | None, models: ClientModels) -> list[PostUpdate]:
        """Return what the model after the last round predicts for its records, once that model has arrived."""
        sent = self.last
        if sent is None or opened is None or opened.round <= sent.update.round:
            return []
        serves = opened.served_by(models.client)
        serving = tuple(slot for slot in opened.slots if slot.name == serves)
        if not models.published.has(opened.registry, serving, models.learner.model.columns):
            return []
        self.last = None
        records = RoundRecords.of(sent.batches, models.published.registry(opened.registry))
        W = models.published.weights(serving)[serves]
        predicted = in_original_units(models.learner.model.predict(records.Z @ W), records)
        return [PostUpdate(models.client, sent.update.round, in_original_units(records.y, records), predicted)]


def unanswered(batches: Sequence[Batch]) -> Sequence[Batch]:
    """Return the batches after those that were answered in an earlier round."""
    return batches[max((i for i, batch in enumerate(batches, 1) if batch.answered_early), default=0) :]
