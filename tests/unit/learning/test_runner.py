"""Algorithm 2: instances pause, go on, begin and end."""

import math

import pytest
from unit.learning.driving import SCRATCH, in_block, instance, play, trained_in

from streamfl.errors import BrokenInvariantError
from streamfl.learning.drift.evidence import RoundEvidence
from streamfl.learning.profiles.paper.profile import Paper, PaperSettings

# Method, section 3, point 2: order 4 on [1,16]; order 2 on [5,8], [13,16]; order 1 on [3,4], [7,8];
# order 0 on 2, 5, 9, 13, 14.
EXAMPLE = [
    instance(4, 1),
    *(instance(2, start) for start in (5, 13)),
    *(instance(1, start) for start in (3, 7)),
    *(instance(0, start) for start in (2, 5, 9, 13, 14)),
]

# Round: the order that plays, and the rounds that its model was trained in before.
SCRIPT = {
    1: (4, []),
    2: (0, []),
    3: (1, []),
    4: (1, [3]),
    5: (0, []),
    6: (2, []),  # began in round 5, but plays only now: from scratch
    7: (1, []),
    8: (1, [7]),
    9: (0, []),
    10: (4, [1]),  # goes on from its model after round 1
    11: (4, [1, 10]),
    12: (4, [1, 10, 11]),
    13: (0, []),
    14: (0, []),  # a second order 0: from scratch, not from round 13
    15: (2, []),
    16: (2, [15]),
}


def test_the_example_of_order_4_round_by_round() -> None:
    paper = in_block(PaperSettings(), 4, EXAMPLE)
    for t, (order, before) in SCRIPT.items():
        live, _ = play(paper, t)
        assert (t, live.name, trained_in(live.W)) == (t, f"order-{order}", before)


def test_a_paused_instance_keeps_its_own_model_although_new_ones_start_warm() -> None:
    paper = in_block(PaperSettings(new_instance="warm"), 4, EXAMPLE)
    models = {t: trained_in(play(paper, t)[0].W) for t in SCRIPT}
    # Round 2 begins from the model after 1, 3 from that after 2; 10 goes on with order 4's own.
    assert [models[t] for t in (2, 3, 4)] == [[1], [1, 2], [1, 2, 3]]
    assert models[10] == [1]
    assert models[11] == [1, 10]
    # 13 from the model that served in 12, and 14 from the one that served in 13.
    assert [models[t] for t in (13, 14)] == [[1, 10, 11, 12], [1, 10, 11, 12, 13]]


def test_each_order_steps_with_its_own_size() -> None:
    # s / sqrt(2^k), s = 3: 3/4 for order 4, 3/2 for order 2, 3/sqrt(2) for order 1, 3 for order 0.
    paper = in_block(PaperSettings(step=3.0), 4, EXAMPLE)
    etas = {live.name: live.eta for live in (play(paper, t)[0] for t in SCRIPT)}
    assert etas == pytest.approx({"order-4": 0.75, "order-2": 1.5, "order-1": 3 / math.sqrt(2), "order-0": 3.0})


def test_only_one_model_plays_serves_and_is_trained() -> None:
    opening = in_block(PaperSettings(), 4, EXAMPLE).open(1, SCRATCH, 1.0)
    assert [(live.name, live.trained, live.clients) for live in opening.live] == [("order-4", True, None)]
    assert opening.serves == "order-4"


def test_opening_a_round_again_changes_nothing() -> None:
    paper = in_block(PaperSettings(), 4, EXAMPLE)
    for t in SCRIPT:
        first = paper.open(t, SCRATCH, 1.0).live[0]
        again = paper.open(t, SCRATCH, 1.0).live[0]
        assert (first.name, trained_in(first.W)) == (again.name, trained_in(again.W))
        play(paper, t)


@pytest.mark.parametrize("seed", range(40))
def test_at_most_one_model_an_order_is_alive(seed: int) -> None:
    # Orders 0 .. 5, so six models at most, over the blocks of 1 + 2 + .. + 32 = 63 rounds and one of 32 more.
    paper = Paper(PaperSettings(max_order=5, seed=seed))
    most = 0
    for t in range(1, 96):
        paper.open(t, SCRATCH, 1.0)
        block = paper.block
        assert block is not None
        assert len(block.instances) <= block.order + 1
        assert all(i.placement.covers(t) for i in block.instances.values())
        most = max(most, len(block.instances))
        play(paper, t)
    assert most >= 2


def test_the_schedule_is_drawn_by_seed_and_round() -> None:
    def names(seed: int) -> list[str]:
        paper = Paper(PaperSettings(seed=seed))
        return [play(paper, t)[0].name for t in range(1, 64)]

    assert names(3) == names(3)
    assert len({tuple(names(seed)) for seed in range(5)}) == 5


def test_the_history_asked_for_is_that_of_the_instance() -> None:
    paper = in_block(PaperSettings(), 4, EXAMPLE)
    asked = {t: play(paper, t)[0].history for t in SCRIPT}
    assert asked == {t: tuple(before) for t, (_, before) in SCRIPT.items()}


def test_the_history_sample_is_bounded_and_only_of_this_block() -> None:
    paper = Paper(PaperSettings(history_rounds=3, history_records=17))
    for t in range(1, 64):
        opening = paper.open(t, SCRATCH, 1.0)
        block = paper.block
        assert block is not None
        assert len(opening.sampled) <= 3
        assert all(block.start <= r < t for r in opening.sampled)
        assert set(opening.live[0].history) <= {*block.sampled}
        assert opening.keep in (0, 17)
        play(paper, t)
        assert (opening.keep == 17) == (t in block.sampled)


def test_no_history_is_kept_for_the_regret_estimate() -> None:
    paper = Paper(PaperSettings(optimistic="regret"))
    for t in range(1, 32):
        opening = paper.open(t, SCRATCH, 1.0)
        assert (opening.keep, opening.sampled, opening.live[0].history) == (0, (), ())
        play(paper, t)


def test_a_change_of_coordinates_reaches_paused_models_and_the_one_that_served() -> None:
    paper = in_block(PaperSettings(), 4, EXAMPLE)
    for t in (1, 2, 3):
        play(paper, t)
    paper.transform(lambda W: 5.0 * W)
    block = paper.block
    assert block is not None
    assert block.instances[4].W[1, 0] == 5.0
    assert block.instances[1].W[3, 0] == 5.0
    assert paper.last_served is not None
    assert paper.last_served[3, 0] == 5.0


def test_a_round_cannot_be_closed_before_it_was_opened() -> None:
    with pytest.raises(BrokenInvariantError, match="was not open"):
        Paper(PaperSettings()).close(RoundEvidence(1, 10, {}))
