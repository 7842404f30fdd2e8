"""What a client sends of the numbers of a round: as they are, as sums, or as masked sums. A client has one way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from streamfl.arrays import IntArray
from streamfl.errors import BrokenInvariantError
from streamfl.learning.pooling.layout import Layout
from streamfl.learning.pooling.masks import Masks, Secrets, seed
from streamfl.learning.pooling.noise import normals_of
from streamfl.learning.pooling.sums import as_text, sums_of, sums_of_scores, with_sums
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.client.work.disclosure import may_tell
from streamfl.machines.client.work.few_bits import differences_in_few_bits, in_few_bits, losses_in_few_bits
from streamfl.machines.client.work.in_flight import SentUpdate
from streamfl.protocol.messages import Disclosed, Roster, RoundOpened, Score, Scores, Slot, Unmask, Unmasked, Update
from streamfl.protocol.registry import Registry


@dataclass
class PlainNumbers:
    """Numbers as they are."""

    settings: ClientSettings  # how the client works
    client: str
    secrets: Secrets | None = None  # the secrets of this start of it; None if nothing is hidden

    are_sums: ClassVar[bool] = False
    """Whether sums are sent, of which only the total over clients is used."""

    @property
    def key(self) -> str:
        """Return the public key for masks; empty without any."""
        return "" if self.secrets is None else self.secrets.public

    def keep(self, roster: Roster) -> None:
        """Keep the clients that mask their sums."""

    def may_work(self, opened: RoundOpened) -> bool:
        """Tell whether an update can be made for a round."""
        return True

    def has_too_few_peers(self, opened: RoundOpened) -> bool:
        """Tell whether too few clients take part for anything to be sent."""
        return False

    def begin(self, opened: RoundOpened) -> None:
        """Begin with an update for a round."""

    def update(self, update: Update, opened: RoundOpened, registry: Registry) -> Update:
        """Return an update as it is sent."""
        return update

    def scores(self, scores: Scores, score: Score, update: Update, registry: Registry) -> Scores:
        """Return scores as they are sent; `update` is the one whose records they are about."""
        return scores

    def seeds(self, asked: Unmask, sent: SentUpdate | None, opened: RoundOpened | None) -> Unmasked | None:
        """Return the seeds of masks that are asked for; None if they must not be told."""
        return None

    @property
    def disclosed(self) -> Disclosed | None:
        """Return the pending records over which a total was told, or may have been."""
        return None

    def follow(self, told: Disclosed | None, positions: Mapping[str, int]) -> None:
        """Follow the ledger to some positions; `told` is what the coordinator says of totals of earlier starts."""


@dataclass
class ShortNumbers(PlainNumbers):
    """Numbers in few bits, for a coordinator that has other clients."""

    def update(self, update: Update, opened: RoundOpened, registry: Registry) -> Update:
        """Return an update with its numbers in few bits."""
        return replace(update, numbers=in_few_bits(update.numbers, update.records, self._residuals(opened.slots)))

    def scores(self, scores: Scores, score: Score, update: Update, registry: Registry) -> Scores:
        """Return scores with their numbers in few bits."""
        losses = losses_in_few_bits(scores.losses, update.records)
        differences = differences_in_few_bits(scores.differences, self._residuals(score.slots))
        return replace(scores, losses=losses, differences=differences)

    def _residuals(self, slots: Sequence[Slot]) -> set[str]:
        """Return the models whose differences are sums of gradients of targets."""
        are_targets = self.settings.learner.model.link == "identity"
        return {slot.name for slot in slots if slot.whitened and are_targets}


@dataclass
class PlainSums(PlainNumbers):
    """Sums in the clear, with noise if there is to be any."""

    are_sums: ClassVar[bool] = True

    def update(self, update: Update, opened: RoundOpened, registry: Registry) -> Update:
        """Return an update with its numbers as sums."""
        columns, by_label = self.settings.learner.model.columns, self.settings.noise is None
        layout = Layout.of_round(opened, registry, columns, by_label=by_label)
        sums = self._hidden(sums_of(update, opened, layout, registry), layout, update, 0)
        if sums is None:
            raise BrokenInvariantError("two updates of one attempt whose sums are masked")
        return with_sums(update, sums)

    def scores(self, scores: Scores, score: Score, update: Update, registry: Registry) -> Scores:
        """Return scores with their numbers as sums; without any if these may not be masked: see `Masks.masked`."""
        layout = Layout.of_scores(score, registry, self.settings.learner.model.columns)
        told = sums_of_scores(scores, score, layout, registry, update.trained)
        sums = self._hidden(told, layout, update, score.stage, score.resumed)
        text = "" if sums is None else as_text(sums)
        return replace(scores, losses={}, differences={}, relabelling={}, sums=text, untrained_loss=None)

    def _hidden(
        self, sums: IntArray, layout: Layout, update: Update, stage: int, resumed: int = 0
    ) -> IntArray | None:
        """Return sums over the records of an update with noise, if there is to be any.

        Each start of the coordinator may ask about other candidates: with the same noise, the difference of two
        answers would show sums without any.
        """
        noise, secrets = self.settings.noise, self.secrets
        if noise is None or secrets is None:
            return sums
        noise_seed = seed(secrets.own, update.entry, stage, f"noise {update.attempt} {resumed}")
        return noise.added(sums, layout, normals_of(secrets.expand(noise_seed, 2 * layout.size)))


@dataclass
class MaskedSums(PlainSums):
    """Sums under masks, which cancel in the total of all clients of a roster."""

    _roster: Roster | None = None
    _masks: Masks | None = None  # of the last entry for which sums were masked
    _told_about: Disclosed | None = None  # the last records over which this start has told a total
    _disclosed: Disclosed | None = None

    def keep(self, roster: Roster) -> None:
        """Keep the clients that mask their sums."""
        self._roster = roster

    def may_work(self, opened: RoundOpened) -> bool:
        """Tell whether sums may be masked for a round: its roster is here, and has this start."""
        roster, masks = self._roster, self._masks
        if roster is None or roster.version != opened.totals.roster:
            return False
        if masks is not None and (masks.entry, masks.roster.version) > (opened.entry, opened.totals.roster):
            return False  # seeds may have been told: the coordinator has gone back
        return roster.keys.get(self.client) == self.key and len(roster.keys) >= self.settings.min_clients_per_sum

    def has_too_few_peers(self, opened: RoundOpened) -> bool:
        """Tell whether too few clients are left to mask sums."""
        roster = self._roster
        return (
            roster is not None
            and roster.version == opened.totals.roster
            and len(roster.keys) < self.settings.min_clients_per_sum
        )

    def begin(self, opened: RoundOpened) -> None:
        """Make the masks of an entry, which all attempts for it share."""
        if self.secrets is None or self._roster is None:
            raise BrokenInvariantError("sums are to be masked without secrets, or without a roster")
        if self._masks is None or self._masks.entry != opened.entry:
            self._masks = Masks(
                self.client, self.secrets, self._roster, opened.entry, self.settings.min_clients_per_sum
            )

    def _hidden(
        self, sums: IntArray, layout: Layout, update: Update, stage: int, resumed: int = 0
    ) -> IntArray | None:
        noisy = super()._hidden(sums, layout, update, stage, resumed)
        if noisy is None or self._masks is None:
            raise BrokenInvariantError("sums are to be sent without masks")
        return self._masks.masked(noisy, stage, update.attempt, update.spans)

    def seeds(self, asked: Unmask, sent: SentUpdate | None, opened: RoundOpened | None) -> Unmasked | None:
        """Return the seeds that are asked for; None if they must not be told, or newer messages have come since."""
        masks = self._masks
        if masks is None or sent is None or opened is None or not asked.entry == opened.entry == sent.update.entry:
            return None
        if not (masks.has_told or may_tell(asked, sent, opened, self.settings.min_records)):
            return None
        first, answer = not masks.has_told, masks.unmasked(asked)
        if first and answer is not None and self.settings.min_clients_per_sum > 1:
            about = replace(sent.update, spans=masks.told_about)  # which may be an earlier attempt
            told = Disclosed.of(about, opened.totals.repeats or opened.entry, asked.attempts)
            self._told_about = self._disclosed = told
        return answer

    @property
    def disclosed(self) -> Disclosed | None:
        """Return the pending records over which a total was told, or may have been."""
        return self._disclosed

    def follow(self, told: Disclosed | None, positions: Mapping[str, int]) -> None:
        """Keep the last records over which this start or an earlier one told a total, while they are pending.

        What an answer says of earlier ones replaces what answers before it said, which may have been forged.
        """
        known = [one for one in (told, self._told_about) if one is not None and one.are_pending(positions)]
        last = max(known, key=lambda one: one.entry, default=None)
        self._disclosed = last if self.settings.min_clients_per_sum > 1 else None


SENDING: dict[str, type[PlainNumbers]] = {"off": ShortNumbers, "pooled": PlainSums, "masked": MaskedSums}


def sending(settings: ClientSettings, client: str, secrets: Secrets | None) -> PlainNumbers:
    """Return what a client sends, by its settings: one that is alone sends nothing to anybody else."""
    if settings.learner.is_alone:
        return PlainNumbers(settings, client, secrets)
    return SENDING[settings.secure_aggregation](settings, client, secrets)
