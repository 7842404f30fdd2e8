"""The choice after an alarm: the least loss wins, relabelled models must be surely better; silent clients, groups."""

from collections.abc import Mapping

import numpy as np
import pytest

from streamfl.arrays import FloatArray
from streamfl.learning.drift.evidence import ClientEvidence, LiveModel, ModelEvidence, RoundEvidence
from streamfl.learning.profiles.adaptive.choice import Choice
from streamfl.learning.profiles.base import Answer
from streamfl.protocol.alarm import Alarm

W = np.array([[1.0, 2.0]])
RECORDS = {"c0": 10, "c1": 30}
BOUND = 2.0
ALARM = Alarm("excess", 12.0, 9.2, 7)

# By model and client: the mean score of its records.
Scores = Mapping[str, Mapping[str, float]]


def parts(scores: Scores) -> dict[str, ClientEvidence]:
    clients = {c for by in scores.values() for c in by}
    return {
        c: ClientEvidence(RECORDS[c], {name: RECORDS[c] * by[c] for name, by in scores.items() if c in by})
        for c in sorted(clients)
    }


def means(scores: Scores) -> dict[str, float]:
    return {
        name: sum(RECORDS[c] * x for c, x in by.items()) / sum(RECORDS[c] for c in by) for name, by in scores.items()
    }


def played(scores: Scores) -> dict[str, ModelEvidence]:
    return {
        name: ModelEvidence(mean, 0.5, np.full((1, 2), 100.0 + i))
        for i, (name, mean) in enumerate(means(scores).items())
    }


def answer(scores: Scores, fits: Mapping[str, Mapping[str, FloatArray]] | None = None) -> Answer:
    return Answer(played(scores), parts(scores), fits or {})


def choice(
    live: Scores,
    candidates: tuple[str, ...] = (),
    relabel: tuple[str, ...] = (),
    clients: tuple[str, ...] | None = None,
) -> Choice:
    steps = {"step 1": 1.0, "average of step 16": 0.0}  # all others take the candidates' step
    models = tuple(LiveModel(name, W, steps.get(name, 4.0), trained="average" not in name) for name in live)
    observed = RoundEvidence(7, 40, played(live), 1.0, BOUND, clients=parts(live), live=models)
    fits = dict.fromkeys(relabel, W)
    return Choice(ALARM, observed, tuple(live), dict.fromkeys(candidates, 0.0 * W), fits, 4.0, clients=clients)


@pytest.mark.parametrize("best", ["average of step 16", "step 1"])
def test_a_winner_without_the_candidates_step_takes_it_before_the_epoch_begins(best: str) -> None:
    deliberation = choice({best: both(0.2), "step 16": both(0.25)}, ("scratch",))
    deliberation.answer(answer({"scratch": both(0.5)}))
    asked = deliberation.ask()
    assert asked is not None
    assert [(m.name, m.W.tolist(), m.eta, m.trained) for m in asked.models] == [(best, W.tolist(), 4.0, True)]
    deliberation.answer(Answer({best: ModelEvidence(0.2, 0.5, W + 7.0)}, parts({best: both(0.2)})))
    assert (deliberation.ask(), deliberation.best()) == (None, best)
    assert deliberation.stepped[best].tolist() == (W + 7.0).tolist()


def test_in_local_drift_the_best_live_model_takes_no_further_step() -> None:
    deliberation = choice({"average of step 16": both(0.2)}, ("scratch",), clients=("c0",))
    deliberation.answer(answer({"scratch": both(0.5)}))
    assert (deliberation.ask(), deliberation.best()) == (None, "average of step 16")


def test_losers_take_no_further_step_nor_does_a_winner_without_answers() -> None:
    deliberation = choice({"step 16": both(0.2), "average of step 16": both(0.25)}, ("scratch",))
    deliberation.answer(answer({"scratch": both(0.5)}))
    assert (deliberation.ask(), deliberation.best()) == (None, "step 16")
    deliberation = choice({"average of step 16": both(0.2)}, ("scratch",))
    deliberation.answer(answer({"scratch": both(0.5)}))
    assert deliberation.ask() is not None
    deliberation.answer(Answer({}, {}))
    assert (deliberation.ask(), deliberation.best()) == (None, "average of step 16")


def both(mean: float) -> dict[str, float]:
    return {"c0": mean, "c1": mean}


def fit(kept: float, swapped: float, records: int) -> FloatArray:
    """Return S of a client, from the mean loss a record with the labels kept and with the labels swapped."""
    return -records * BOUND / 2.0 * np.array([[kept, swapped], [swapped, kept]])


def test_the_least_mean_over_records_wins() -> None:
    # 10 and 30 records: step 16 has (1 + 9) / 40 = 0.25, step 4 (6 + 3) / 40 = 0.225.
    live = {"step 16": {"c0": 0.1, "c1": 0.3}, "step 4": {"c0": 0.6, "c1": 0.1}}
    deliberation = choice(live, ("scratch", "recall-1"))
    asked = deliberation.ask()
    assert asked is not None
    assert [(m.name, m.eta, m.trained, m.clients) for m in asked.models] == [
        ("scratch", 4.0, True, None),
        ("recall-1", 4.0, True, None),
    ]
    assert deliberation.best() == "step 4"
    scores = {"scratch": both(0.5), "recall-1": both(0.22)}
    deliberation.answer(answer(scores))
    assert deliberation.ask() is None
    assert deliberation.best() == "recall-1"
    assert deliberation.losses["recall-1"] == pytest.approx({"c0": 2.2, "c1": 6.6})
    assert deliberation.scores() == {"step 16": 0.25, "step 4": 0.225, "scratch": 0.5, "recall-1": 0.22}
    assert deliberation.stepped["recall-1"].tolist() == [[101.0, 101.0]]  # the model after its step


def test_the_first_of_equals_wins_and_the_one_that_serves_is_first() -> None:
    deliberation = choice({"step 4": both(0.25), "step 16": both(0.25)}, ("scratch",))
    deliberation.answer(answer({"scratch": both(0.25)}))
    assert deliberation.best() == "step 4"


def test_with_nothing_to_ask_there_is_no_question() -> None:
    deliberation = choice({"step 16": both(0.25)})
    assert deliberation.ask() is None
    assert deliberation.best() == "step 16"


@pytest.mark.parametrize(("gain", "sure"), [(0.1, True), (0.45, True), (0.46, False), (0.9, False), (-0.2, False)])
def test_a_gain_is_sure_beyond_two_standard_errors_over_clients(gain: float, sure: bool) -> None:
    # Gains g and 0.1 with 10 and 30 records: mean m = (g + 0.3) / 4, error sqrt((g - m)^2 + 9 (0.1 - m)^2) / 4
    # = sqrt(18) / 16 |g - 0.1|. So (g + 0.3) / 4 = sqrt(18) / 8 (g - 0.1), at g = 0.4567, is the last that is sure.
    deliberation = choice({"step 16": both(0.9)})
    assert deliberation.surely_better({"c0": 10 * (0.9 - gain), "c1": 30 * 0.8}, "step 16") is sure


@pytest.mark.parametrize(("renamed", "sure"), [(0.0, True), (0.4, True), (0.44, False), (0.8, False)])
def test_a_gain_at_one_client_is_sure_beyond_two_standard_errors_over_its_records(renamed: float, sure: bool) -> None:
    # c1 has 30 records. 0.8 - r = 2 sqrt(min(1, 0.8 + r) / 30), which is 2 / sqrt(30) = 0.365 from r = 0.2 on.
    deliberation = choice({"step 16": both(0.8)})
    assert deliberation.surely_better({"c1": 30 * renamed}, "step 16") is sure


def relabelling(gains: tuple[float, float], clients: tuple[str, ...] | None = None) -> Choice:
    """Return a choice whose incumbent has loss 0.8, and less by these gains at each client with labels swapped."""
    live = {"step 16": both(0.8)}
    deliberation = choice(live, ("scratch",), ("incumbent",), clients)
    asked = deliberation.ask()
    assert asked is not None
    assert asked.relabel == ("incumbent",)
    assert [(m.name, m.trained) for m in asked.models] == [("scratch", True), ("incumbent", False)]
    fits = {c: {"incumbent": fit(0.8, 0.8 - g, RECORDS[c])} for c, g in zip(RECORDS, gains, strict=True)}
    deliberation.answer(answer({"scratch": both(0.85), "incumbent": both(0.8)}, fits))
    return deliberation


def test_a_relabelled_model_that_is_surely_better_is_asked_for_and_may_win() -> None:
    deliberation = relabelling((0.3, 0.25))
    asked = deliberation.ask()
    assert asked is not None
    assert [(m.name, m.W.tolist(), m.trained) for m in asked.models] == [("relabelled", [[2.0, 1.0]], True)]
    assert asked.relabel == ()
    deliberation.answer(answer({"relabelled": {"c0": 0.5, "c1": 0.55}}))
    assert (deliberation.ask(), deliberation.best()) == (None, "relabelled")


def test_a_sure_renaming_is_kept_even_when_another_model_is_chosen() -> None:
    # Renamed, the incumbent loses 0.5 and 0.55. The recalled model loses 0.1 and is chosen; the labels are exchanged.
    deliberation = choice({"step 16": both(0.8)}, ("recall-1",), ("incumbent",))
    fits = {c: {"incumbent": fit(0.8, 0.8 - g, RECORDS[c])} for c, g in zip(RECORDS, (0.3, 0.25), strict=True)}
    deliberation.answer(answer({"recall-1": both(0.1), "incumbent": both(0.8)}, fits))
    assert (deliberation.ask(), deliberation.best()) == (None, "recall-1")
    assert (deliberation.renames, deliberation.permutation) == ((1, 0), ())


@pytest.mark.parametrize(("gains", "renames"), [((0.3, 0.25), (1, 0)), ((0.7, 0.0), ()), ((0.0, 0.0), ())])
def test_only_a_renaming_that_surely_gains_is_kept(gains: tuple[float, float], renames: tuple[int, ...]) -> None:
    assert relabelling(gains).renames == renames


def test_a_relabelled_model_that_gains_at_one_client_only_is_not_asked_for() -> None:
    # Gains 0.7 and 0: mean 0.175, error 18^0.5 / 16 * 0.7 = 0.186.
    deliberation = relabelling((0.7, 0.0))
    assert deliberation.ask() is None
    assert deliberation.best() == "step 16"


def test_a_model_that_was_scored_only_for_relabelling_is_no_candidate() -> None:
    deliberation = relabelling((0.0, 0.0))
    assert set(deliberation.stepped) == {"step 16", "scratch"}


def test_the_better_of_two_relabelled_models_is_asked_for() -> None:
    deliberation = choice({"step 16": both(0.8)}, (), ("incumbent", "former"))
    fits = {
        c: {"incumbent": fit(0.8, 0.5, n), "former": fit(0.3, 0.8, n)} for c, n in RECORDS.items()
    }  # the former needs no relabelling
    deliberation.answer(answer({"incumbent": both(0.8), "former": both(0.3)}, fits))
    asked = deliberation.ask()
    assert asked is not None
    assert asked.models[0].W.tolist() == W.tolist()


def test_regression_has_no_labels_to_permute() -> None:
    deliberation = choice({"step 16": both(0.8)}, ("scratch",), ("incumbent",))
    nothing = {c: {"incumbent": np.zeros((0, 0))} for c in RECORDS}
    deliberation.answer(answer({"scratch": both(0.5), "incumbent": both(0.8)}, nothing))
    assert (deliberation.ask(), deliberation.best()) == (None, "scratch")


def test_silent_clients_do_not_count() -> None:
    deliberation = choice({"step 16": both(0.8)}, ("scratch",), ("incumbent",))
    fits = {"c0": {"incumbent": fit(0.8, 0.1, 10)}}
    deliberation.answer(answer({"scratch": {"c0": 0.7}, "incumbent": {"c0": 0.8}}, fits))
    assert deliberation.losses["scratch"] == pytest.approx({"c0": 7.0})
    asked = deliberation.ask()
    assert asked is not None
    deliberation.answer(Answer({"relabelled": ModelEvidence(0.0, 0.5, W)}, {}))  # no client answers now
    assert (deliberation.ask(), deliberation.best()) == (None, "scratch")
    assert set(deliberation.stepped) == {"step 16", "scratch"}


def test_if_all_are_silent_the_best_live_model_goes_on() -> None:
    deliberation = choice({"step 16": both(0.8), "step 4": both(0.7)}, ("scratch",), ("incumbent",))
    deliberation.answer(Answer({}, {}))
    assert (deliberation.ask(), deliberation.best()) == (None, "step 4")


def test_a_relabelled_model_gains_nothing_by_records_that_have_no_known_label() -> None:
    # Half of each client's records have an unregistered label and lose 1 under every model; the others lose 0.8.
    deliberation = choice({"step 16": both(0.9)}, (), ("incumbent",))
    fits = {c: {"incumbent": fit(0.8, 0.9, n // 2)} for c, n in RECORDS.items()}
    deliberation.answer(answer({"incumbent": both(0.9)}, fits))
    assert deliberation.ask() is None


def test_candidates_are_compared_on_the_records_of_the_same_clients() -> None:
    # c1's records are hard for every model, and c1 does not answer. On c0's the live model is the better one.
    deliberation = choice({"step 16": {"c0": 0.1, "c1": 0.9}}, ("scratch",))
    deliberation.answer(answer({"scratch": {"c0": 0.6}}))
    assert deliberation.best() == "step 16"
    assert deliberation.scores() == {"step 16": 0.1, "scratch": 0.6}


def test_of_sums_over_fewer_records_than_the_round_has_the_means_are_compared() -> None:
    # Of masked sums only those of all are known: 80 records were played, and half of the clients scored candidates.
    observed = RoundEvidence(
        7,
        80,
        {"step 16": ModelEvidence(0.5, 0.5, W)},
        1.0,
        BOUND,
        clients={"": ClientEvidence(80, {"step 16": 40.0})},
    )
    deliberation = Choice(ALARM, observed, ("step 16",), {"scratch": 0.0 * W}, {"incumbent": W}, 4.0)
    scored = {"": ClientEvidence(40, {"scratch": 36.0, "incumbent": 20.0})}
    fits = {"": {"incumbent": fit(0.5, 0.25, 40)}}
    deliberation.answer(Answer(played({"scratch": both(0.9), "incumbent": both(0.5)}), scored, fits))
    assert (deliberation.best(), deliberation.scores()) == ("step 16", {"step 16": 0.5, "scratch": 0.9})
    deliberation.answer(Answer(played({"relabelled": both(0.25)}), {"": ClientEvidence(20, {"relabelled": 5.0})}))
    assert deliberation.scores()["relabelled"] == 0.25


def test_without_a_client_that_scored_all_candidates_there_are_no_scores_to_tell() -> None:
    deliberation = choice({"step 16": {"c0": 0.1}, "step 4": {"c1": 0.05}})
    assert (deliberation.best(), deliberation.scores()) == ("step 16", {})


def test_a_choice_about_some_clients_uses_their_records_alone() -> None:
    # For c0 step 16 is better, however bad it is at c1. A relabelled trial need not be surely better.
    live = {"step 16": {"c0": 0.2, "c1": 0.9}, "step 4": {"c0": 0.6, "c1": 0.1}}
    assert choice(live, clients=("c0",)).best() == "step 16"
    for clients in (("c0",), ("c0", "c1")):
        asked = relabelling((0.7, 0.0), clients=clients).ask()
        assert asked is not None
        assert [(m.name, m.clients) for m in asked.models] == [("relabelled", clients)]


def test_labels_of_other_clients_do_not_count_in_a_choice_about_some() -> None:
    # c1's records, three times as many, would keep the labels; c0's alone swap them.
    deliberation = choice({"step 16": both(0.8)}, (), ("incumbent",), ("c0",))
    fits = {"c0": {"incumbent": fit(0.9, 0.1, 10)}, "c1": {"incumbent": fit(0.1, 0.9, 30)}}
    deliberation.answer(answer({"incumbent": {"c0": 0.9, "c1": 0.1}}, fits))
    asked = deliberation.ask()
    assert asked is not None
    assert asked.models[0].W.tolist() == [[2.0, 1.0]]


# --- whether online models begin again -----------------------------------------------------------------------------


ONLINE_LOSS = 20.0  # the mean log-loss of online models at each client


def about(cause: str, excess: Mapping[str, float], records: Mapping[str, int]) -> Choice:
    """Return a choice after an alarm, once clients have said what new online models lost more."""
    clients = {c: ClientEvidence(n, {"step 16": 0.5 * n}) for c, n in records.items()}
    observed = RoundEvidence(
        7,
        sum(records.values()),
        {},
        1.0,
        BOUND,
        clients=clients,
        online_loss=0.4,
        online_losses=dict.fromkeys(clients, ONLINE_LOSS),
    )
    made = Choice(Alarm(cause, 12.0, 9.2, 7), observed, (), {"scratch": 0.0 * W}, {}, 4.0, is_suspected=True)
    asked = made.ask()
    assert asked is not None
    assert asked.wants_untrained_loss
    models = {model.name: ModelEvidence(0.5, 0.5, W) for model in asked.models}
    losses = {c: ONLINE_LOSS + more for c, more in excess.items()}
    made.answer(Answer(models, clients, untrained_losses=losses))
    return made


FIVE = dict.fromkeys(("c0", "c1", "c2", "c3", "c4"), 100)


@pytest.mark.parametrize(
    ("excess", "begins_again"),
    [
        ({"c0": -0.1, "c1": -0.1, "c2": -0.1, "c3": 0.1, "c4": 0.1}, True),
        ({"c0": -0.1, "c1": -0.1, "c2": 0.05, "c3": 0.05, "c4": 0.05}, False),  # better over all, but at two of five
        # Two of five lie, as much as they can: they neither begin again what serves the others, nor prevent it.
        ({"c0": -20.0, "c1": -20.0, "c2": 0.01, "c3": 0.01, "c4": 0.01}, False),
        ({"c0": -0.01, "c1": -0.01, "c2": -0.01, "c3": 20.0, "c4": 20.0}, True),
        ({"c0": -0.1, "c1": -0.1, "c2": -0.1}, True),
        ({"c0": -0.1, "c1": -0.1, "c2": 0.0}, False),  # equal is no better
        ({"c0": -0.1, "c1": -0.1}, False),  # whoever does not say is against it
        ({"c0": -0.1, "c1": -0.1, "x": -0.1}, False),  # one that does not count does not
        ({}, False),
    ],
)
def test_online_models_begin_again_if_new_ones_are_better_at_most_clients(
    excess: Mapping[str, float], begins_again: bool
) -> None:
    assert about("excess", excess, FIVE).begins_again is begins_again


def test_clients_count_by_their_records() -> None:
    excess = {"c0": -0.1, "c1": -0.1, "c2": 0.1}
    assert about("excess", excess, {"c0": 100, "c1": 100, "c2": 100}).begins_again
    assert not about("excess", excess, {"c0": 100, "c1": 100, "c2": 300}).begins_again


def test_whether_new_online_models_are_better_is_asked_without_models() -> None:
    made = Choice(
        Alarm("answers", 12.0, 9.2, 7),
        RoundEvidence(7, 100, {}, 1.0, BOUND),
        (),
        {"scratch": 0.0 * W},
        {},
        4.0,
        is_suspected=True,
    )
    asked = made.ask()
    assert asked is not None
    assert (asked.models, asked.relabel, asked.wants_untrained_loss) == ((), (), True)


def test_if_new_online_models_are_no_better_nothing_else_is_asked() -> None:
    made = about("answers", {"c0": 0.1}, FIVE)
    assert made.is_unfounded
    assert made.ask() is None
    made = about("answers", dict.fromkeys(FIVE, -0.1), FIVE)
    assert not made.is_unfounded
    asked = made.ask()
    assert asked is not None
    assert [(model.name, model.trained) for model in asked.models] == [("scratch", True)]
    assert not asked.wants_untrained_loss


@pytest.mark.parametrize(
    ("alarm", "is_suspected"),
    [
        (Alarm("excess", 12.0, 9.2, 7), False),
        (Alarm("excess", 12.0, 9.2, 7, ("c0",), local=True), True),
        (Alarm("new-label", 12.0, 9.2, 7), True),
        (Alarm("operator", 0.0, 0.0, 7), True),
        (Alarm("answers", 12.0, 9.2, 7, wanted="scratch"), True),
    ],
)
def test_it_is_not_asked_of_some_clients_alone_nor_where_an_epoch_begins_anyway(
    alarm: Alarm, is_suspected: bool
) -> None:
    observed = RoundEvidence(7, 100, {}, 1.0, BOUND, online_loss=0.4)
    asked = Choice(alarm, observed, (), {"scratch": 0.0 * W}, {}, 4.0, is_suspected=is_suspected).ask()
    assert asked is not None
    assert not asked.wants_untrained_loss
