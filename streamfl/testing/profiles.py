"""Conformance checks for profiles.

The checks run a profile in a small federation, the same in every call: eight clients with 40 records a round. Their
two labels are swapped from round 25 on, and swapped back at one client from round 40 on. Another client has no
records in every fifth round.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.bounds import is_name
from streamfl.errors import PeerError
from streamfl.learning.drift.evidence import ClientEvidence, LiveModel, ModelEvidence, RoundEvidence
from streamfl.learning.model import gradient, score_bound
from streamfl.learning.profiles.base import Answer, Ask, Decision, Profile, Restart, RoundPlan
from streamfl.learning.second_moments import SecondMoments
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.models import Softmax
from streamfl.protocol.alarm import Alarm
from streamfl.protocol.messages import LabelSums
from streamfl.protocol.registry import widened
from streamfl.sampling import generator
from streamfl.testing.violation import Violation, expect
from streamfl.wire import codec

CLIENTS, LABELS, RECORDS, FEATURES = tuple(f"c{i}" for i in range(8)), ("a", "b"), 40, 3

# The length of a run, the rounds from which on labels are swapped at all clients and at one, and a long run's length.
ROUNDS, SWAPPED, APART, LONG = 60, 25, 40, 400

# The mean score of a profile that learns is lower, even if it plays an untrained model in most rounds.
LEARNT = 0.49

# The largest number of live models, and the largest number of times that an alarm may ask for scores.
MOST_LIVE, MOST_ASKED = 64, 10

# The largest size of a saved state after a long run, in bytes.
MOST_BYTES = 131_072

MODEL = Softmax()

# Features of shape (n, d), and label indices of shape (n,).
Records = tuple[FloatArray, FloatArray]


def check_profile(make: Callable[[], Profile]) -> None:
    """Check that a profile does all that a coordinator relies on.

    Parameters
    ----------
    make
        Makes a new profile, the same each time; called for every check.

    Raises
    ------
    Violation
        A check fails; the message says how.

    Examples
    --------
    >>> from streamfl.learning.profiles.experts import Experts
    >>> check_profile(Experts)
    """
    for check in CHECKS:
        check(make)


def opens_rounds_that_clients_can_play(make: Callable[[], Profile]) -> None:
    """Live models have valid names, shapes and steps, a live model serves, and only kept rounds are asked for."""
    Play(make()).through(ROUNDS)


def opens_a_round_again_as_it_was(make: Callable[[], Profile]) -> None:
    """Opening a round twice changes nothing: a coordinator that starts again opens the open round again."""
    play, other = Play(make()), Play(make(), opens=2)
    expect(play.through(ROUNDS) == other.through(ROUNDS), "another course of events if rounds are opened twice")


def is_deterministic(make: Callable[[], Profile]) -> None:
    """Two profiles do the same in the same rounds, to the last bit."""
    same = Play(make()).through(ROUNDS) == Play(make()).through(ROUNDS)
    expect(same, "another course of events in the same rounds")


def counts_epochs(make: Callable[[], Profile]) -> None:
    """Epochs count from 1, and grow by one with every restart, which names the next; nothing else changes them."""
    play = Play(make())
    expect(play.profile.epoch == 1, f"the first epoch is {play.profile.epoch}")
    for t in range(1, ROUNDS + 1):
        before = play.profile.epoch
        play.round(t)
        restarts = [decision for decision in play.decided[-1] if isinstance(decision, Restart)]
        expect(
            play.profile.epoch == before + len(restarts), f"epoch {play.profile.epoch} after {before} in round {t}"
        )
        for restart in restarts:
            expect(
                (restart.round, restart.epoch) == (t, before + 1), f"a restart with a wrong round or epoch: {restart}"
            )


def ends_an_unanswered_deliberation(make: Callable[[], Profile]) -> None:
    """If no client answers, a deliberation still ends, and the profile continues."""
    Play(make(), answers=False).through(ROUNDS)


def goes_on_from_what_is_saved(make: Callable[[], Profile]) -> None:
    """Saved with a coordinator state and read again before every round, it continues unchanged."""
    play, saved = Play(make()), Play(make())
    for t in range(1, ROUNDS + 1):
        saved.profile = _saved(saved.profile, t)
        expect(play.round(t) == saved.round(t), f"another course of events, saved and read again after round {t - 1}")


def re_expresses_every_model(make: Callable[[], Profile]) -> None:
    """After a new label every kept model has a column for it, and the profile continues."""
    play = Play(make())
    for t in range(1, ROUNDS + 1):
        if t in {10, SWAPPED + 5, APART + 5}:
            play.columns += 1
            play.profile.transform(lambda W: widened(W, play.columns))
        play.round(t)


def learns(make: Callable[[], Profile]) -> None:
    """Without drift, the mean score of the second half of the rounds is below that of an untrained model, 0.5."""
    play = Play(make())
    play.through(SWAPPED - 1)
    later = play.losses[len(play.losses) // 2 :]
    mean = sum(later) / len(later)
    expect(mean < LEARNT, f"a mean score of {mean:.3f} in rounds without drift: an untrained model has 0.5")


def has_bounded_state(make: Callable[[], Profile]) -> None:
    """Its state does not grow without bound."""
    play = Play(make())
    play.through(LONG)
    size = len(codec.encode(CoordinatorState(play.profile)))
    expect(size <= MOST_BYTES, f"{size} bytes after {LONG} rounds: at most {MOST_BYTES}")


CHECKS: tuple[Callable[[Callable[[], Profile]], None], ...] = (
    opens_rounds_that_clients_can_play,
    is_deterministic,
    opens_a_round_again_as_it_was,
    counts_epochs,
    ends_an_unanswered_deliberation,
    goes_on_from_what_is_saved,
    re_expresses_every_model,
    learns,
    has_bounded_state,
)


def _saved(profile: Profile, t: int) -> Profile:
    """Return a profile as read again from a saved coordinator state."""
    try:
        return codec.decode(CoordinatorState, codec.encode(CoordinatorState(profile))).profile
    except PeerError as error:
        raise Violation(f"the state saved before round {t} cannot be read again: {error}") from error


@dataclass
class Play:
    """A run of a profile in the federation; all arrays that are passed to it are read-only."""

    profile: Profile
    opens: int = 1  # the number of times that each round is opened
    answers: bool = True  # whether clients answer when candidates must be scored
    columns: int = len(LABELS)  # columns of the current models
    # By round, the profile's decisions, and the mean score of the serving model.
    decided: list[tuple[Decision, ...]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    _kept: set[int] = field(default_factory=set)
    _held: dict[str, dict[int, Records]] = field(default_factory=dict)

    def through(self, rounds: int) -> list[list[bytes]]:
        """Play rounds from the first on, and return the course of events of each."""
        return [self.round(t) for t in range(1, rounds + 1)]

    def round(self, t: int) -> list[bytes]:
        """Play a round, and return its course of events, with every number, as bytes."""
        try:
            return self._round(t)
        except Violation:
            raise
        except Exception as error:  # a profile may raise anything
            if "read-only" in str(error):
                raise Violation(f"it changes an array that was passed to it in round {t}") from error
            raise Violation(f"round {t} raises {error!r}") from error

    def _round(self, t: int) -> list[bytes]:
        scratch = _fixed(np.zeros((FEATURES, self.columns)))
        for _ in range(self.opens):
            plan = self.profile.open(t, scratch, float(FEATURES))
        self._check(plan, t)
        records = {client: _records(client, t) for client in CLIENTS if client != "c3" or t % 5}
        seen, parts = self._measured(plan.live, records, plan)
        size = sum(part.records for part in parts.values())
        observed = RoundEvidence(t, size, seen, 3.0, score_bound(len(LABELS)), LABELS, parts, plan.live, plan.serves)
        alarm = self.profile.close(observed)
        self.decided.append(self._decisions(alarm, observed, records, scratch))
        self._hold_out(plan, records, t)
        self.losses.append(observed.loss)
        return [*_bytes(plan), repr((alarm, self.decided[-1], self.profile.epoch, self.profile.noticed)).encode()]

    def _decisions(
        self, alarm: Alarm | None, observed: RoundEvidence, records: Mapping[str, Records], scratch: FloatArray
    ) -> tuple[Decision, ...]:
        """Advance after a round, or deliberate its alarm, and return the profile's decisions."""
        if alarm is None:
            return self.profile.advance(observed.round)
        valid = isfinite(alarm.statistic) and alarm.since <= observed.round
        expect(valid, f"an alarm without a finite statistic, or since a later round: {alarm}")
        deliberation = self.profile.deliberate(alarm, observed, scratch)
        for _ in range(MOST_ASKED):
            asked = deliberation.ask()
            if asked is None:
                decision = self.profile.conclude(deliberation)
                return self.profile.advance(observed.round) if decision is None else (decision,)
            deliberation.answer(self._answer(asked, records))
        raise Violation(f"an alarm asks for scores more than {MOST_ASKED} times")

    def _answer(self, asked: Ask, records: Mapping[str, Records]) -> Answer:
        if not self.answers:
            return Answer({}, {})
        seen, parts = self._measured(asked.models, records)
        models = {model.name: model.W for model in asked.models}
        fits = {
            client: {name: _fits(Z @ models[name], y) for name in asked.relabel} for client, (Z, y) in records.items()
        }
        return Answer(seen, parts, fits if asked.relabel else {})

    def _check(self, plan: RoundPlan, t: int) -> None:
        names = [live.name for live in plan.live]
        expect(0 < len(names) <= MOST_LIVE, f"{len(names)} live models in round {t}: at most {MOST_LIVE}")
        expect(len(set(names)) == len(names), f"two live models with one name in round {t}")
        expect(all(name and is_name(name) for name in names), f"a live model without a valid name in round {t}")
        for live in plan.live:
            where = f"model {live.name} in round {t}"
            shape = (FEATURES, self.columns)
            expect(live.W.shape == shape, f"{where} has shape {live.W.shape} instead of {shape}")
            expect(bool(np.isfinite(live.W).all()), f"{where} has weights that are not finite")
            expect(isfinite(live.eta) and live.eta >= 0.0, f"{where} has the step {live.eta}")
            expect(set(live.history) <= self._kept, f"{where} asks for rounds that no client has kept")
        serving = {plan.serves, *(group.serves for group in plan.apart)}
        expect(serving <= set(names), f"models that serve in round {t} are not live: {sorted(serving - set(names))}")
        apart = [client for group in plan.apart for client in group.clients]
        expect(len(set(apart)) == len(apart), f"a client in two groups apart in round {t}")
        expect(set(plan.sampled) <= self._kept, f"round {t} samples old rounds that no client has kept")
        self._kept = {*plan.sampled, *([t] if plan.keep else [])}

    def _measured(
        self,
        live: Sequence[LiveModel],
        records: Mapping[str, Records],
        plan: RoundPlan | None = None,
    ) -> tuple[dict[str, ModelEvidence], dict[str, ClientEvidence]]:
        """Return the clients' measurements by model and by client; models that no client scores are left out."""
        apart = {client for group in plan.apart for client in group.clients} if plan else set()
        seen, sums = {}, {client: dict[str, float]() for client in records}
        for model in live:
            scorers = [client for client in records if model.clients is None or client in model.clients]
            if not scorers:
                continue
            for client in scorers:
                sums[client][model.name] = float(_scores(model.W, records[client])[0].sum())
            trainers = [client for client in scorers if model.clients is not None or client not in apart]
            seen[model.name] = self._evidence(model, [records[c] for c in scorers], [records[c] for c in trainers])
        return seen, {client: self._part(client, Z_y, sums[client], live, plan) for client, Z_y in records.items()}

    def _evidence(self, model: LiveModel, scored: list[Records], trained: list[Records]) -> ModelEvidence:
        scores, proper = _scores(model.W, _pooled(scored))
        stepped = model.W
        if model.trained and trained:
            Z, y = _pooled(trained)
            slope = gradient(MODEL, model.W, Z, y)
            moments = SecondMoments(Z.T @ Z, float(len(Z)))
            stepped = model.W - model.eta * (moments.whitened(slope) if model.whitened else slope)
        past = [float(_scores(model.W, _records("c0", t))[0].mean()) for t in model.history]
        return ModelEvidence(
            float(scores.mean()),
            float(proper.mean()),
            _fixed(stepped),
            float(scores.var()),
            sum(past) / len(past) if past else None,
            RECORDS * len(past),
        )

    def _part(
        self,
        client: str,
        records: Records,
        sums: Mapping[str, float],
        live: Sequence[LiveModel],
        plan: RoundPlan | None,
    ) -> ClientEvidence:
        if plan is None:
            return ClientEvidence(RECORDS, sums)
        weights = {model.name: model.W for model in live}
        W = weights[plan.served_by(client)]
        held = list(self._held.get(client, {}).values())
        old = _by_label(W, _pooled(held)) if held else ()
        return ClientEvidence(RECORDS, sums, _by_label(weights.get(plan.tested, W), records), old)

    def _hold_out(self, plan: RoundPlan, records: Mapping[str, Records], t: int) -> None:
        """Hold out five records of each of the last twelve rounds, as far as the holdout rule allows."""
        if plan.held is None:
            return
        for client, (Z, y) in records.items():
            since = max(plan.held.since, plan.held.renewed.get(client, 0))
            kept = {r: rows for r, rows in self._held.get(client, {}).items() if r >= since}
            self._held[client] = dict(list((kept | ({t: (Z[:5], y[:5])} if t >= since else {})).items())[-12:])


def _records(client: str, t: int) -> Records:
    """Return the records of a client's round: two features and a constant, with one of two labels."""
    random = generator(0, "check_profile", client, t)
    Z = np.hstack([random.normal(size=(RECORDS, FEATURES - 1)), np.ones((RECORDS, 1))])
    y = (Z @ np.array([1.0, -2.0, 0.3]) + 0.3 * random.normal(size=RECORDS) > 0.0).astype(np.float64)
    swapped = (t >= SWAPPED) != (client == "c1" and t >= APART)
    return _fixed(Z), _fixed(1.0 - y if swapped else y)


def _pooled(parts: list[Records]) -> Records:
    return np.concatenate([Z for Z, _ in parts]), np.concatenate([y for _, y in parts])


def _scores(W: FloatArray, records: Records) -> Records:
    """Return the score and the proper score of each record."""
    Z, y = records
    outputs = Z @ W
    losses = MODEL.losses(outputs, y)
    return MODEL.scores(losses, len(LABELS)), MODEL.proper_scores(outputs, y, losses, len(LABELS))


def _by_label(W: FloatArray, records: Records) -> tuple[LabelSums, ...]:
    scores, y = _scores(W, records)[0], records[1]
    by_label = ((label, scores[y == code]) for code, label in enumerate(LABELS))
    return tuple(
        LabelSums(label=label, count=len(own), loss=float(own.sum()), square=float(own @ own))
        for label, own in by_label
        if len(own)
    )


def _fits(outputs: FloatArray, y: FloatArray) -> FloatArray:
    """Return S[a, b]: see `Answer`."""
    logs = np.maximum(MODEL.log_likelihoods(outputs), -score_bound(len(LABELS)))
    return np.array([logs[y == code].sum(axis=0) for code in range(logs.shape[1])])


def _fixed(array: FloatArray) -> FloatArray:
    array.flags.writeable = False
    return array


def _bytes(plan: RoundPlan) -> list[bytes]:
    live = [(m.name, m.eta, m.trained, m.clients, m.history, m.whitened) for m in plan.live]
    rest = (plan.serves, plan.block, plan.keep, plan.sampled, plan.held, plan.apart)
    return [repr((live, rest)).encode(), *(model.W.tobytes() for model in plan.live)]
