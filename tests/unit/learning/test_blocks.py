"""Algorithm 3: blocks, epochs, and where models start."""

import itertools

import pytest
from unit.learning.driving import SCRATCH, close, in_block, instance, play, restart, trained_in

from streamfl.learning.profiles.paper.profile import Paper, PaperSettings, Start
from streamfl.protocol.alarm import Alarm


def state(order: int, **settings: object) -> Paper:
    """Return a profile in the last round of epoch 3's block number 6, of some order."""
    paper = in_block(PaperSettings(**settings), order, [instance(order, 1)])  # type: ignore[arg-type]
    assert paper.block is not None
    paper.epoch, paper.blocks, paper.block.number = 3, 6, 6
    for t in range(1, 2**order):
        play(paper, t)
    close(paper, 2**order)
    return paper


@pytest.mark.parametrize(
    ("order", "alarm", "order_after_alarm", "max_order", "expected"),
    [
        # expected: order, epoch and number of the next block
        (0, False, "reset", 8, (1, 3, 7)),
        (1, False, "reset", 8, (2, 3, 7)),
        (3, False, "continue", 8, (4, 3, 7)),
        (0, True, "reset", 8, (0, 4, 1)),
        (3, True, "reset", 8, (0, 4, 1)),
        (0, True, "continue", 8, (1, 4, 1)),
        (3, True, "continue", 8, (4, 4, 1)),
        (2, False, "reset", 3, (3, 3, 7)),
        (3, False, "reset", 3, (3, 3, 7)),  # the longest block follows itself
        (3, True, "continue", 3, (3, 4, 1)),
        (3, True, "reset", 3, (0, 4, 1)),
        (0, False, "reset", 0, (0, 3, 7)),
    ],
)
def test_a_block_is_followed_by_the_order_and_epoch_that_algorithm_3_gives(
    order: int, alarm: bool, order_after_alarm: str, max_order: int, expected: tuple[int, int, int]
) -> None:
    paper = state(order, order_after_alarm=order_after_alarm, max_order=max_order)
    t = 2**order
    if alarm:
        restart(paper, t)
    else:
        paper.advance(t)
    number = paper.open(t + 1, SCRATCH, 1.0).block
    assert paper.block is not None
    assert (paper.block.order, paper.epoch, number) == expected
    assert (paper.block.start, paper.block.end) == (t + 1, t + 2 ** expected[0])


def test_blocks_double_from_the_first_round_on() -> None:
    # Order 0: round 1; order 1: 2-3; order 2: 4-7; order 3: 8-15; then again order 3, the longest, from 16 and 24.
    paper = Paper(PaperSettings(max_order=3))
    blocks = []
    for t in range(1, 32):
        blocks.append(paper.open(t, SCRATCH, 1.0).block)
        play(paper, t)
    assert blocks == [1] + 2 * [2] + 4 * [3] + 8 * [4] + 8 * [5] + 8 * [6]


def test_an_alarm_ends_a_block_before_its_time() -> None:
    # Blocks: round 1, 2-3, 4-7; the alarm is in round 5, so rounds 6 and 7-8 are the next epoch's first blocks.
    paper = Paper(PaperSettings())
    for t in range(1, 5):
        play(paper, t)
    close(paper, 5)
    restart(paper, 5)
    seen = []
    for t in (6, 7, 8, 9):
        number = paper.open(t, SCRATCH, 1.0).block
        assert paper.block is not None
        seen.append((t, paper.epoch, number, paper.block.order))
        play(paper, t)
    assert seen == [(6, 2, 1, 0), (7, 2, 2, 1), (8, 2, 2, 1), (9, 2, 3, 2)]


def test_the_losses_of_a_block_are_forgotten_with_it() -> None:
    paper = state(1)
    assert paper.block is not None
    assert len(paper.block.served) == len(paper.block.optimistic) == 2
    paper.advance(2)
    paper.open(3, SCRATCH, 1.0)
    assert paper.block.served == paper.block.optimistic == []
    assert paper.block.sampled == ()


STARTS: tuple[Start, ...] = ("scratch", "warm")


@pytest.mark.parametrize(("instance_", "block", "alarm"), list(itertools.product(STARTS, STARTS, STARTS)))
def test_where_models_start_is_set_for_three_occasions(instance_: Start, block: Start, alarm: Start) -> None:
    # Block 1: rounds 1-2, with a new instance in 2. Block 2 begins with round 3. The alarm is in 3, so 4 is after it.
    settings = PaperSettings(new_instance=instance_, new_block=block, after_alarm=alarm)
    paper = in_block(settings, 1, [instance(1, 1), instance(0, 2)])
    first, _ = play(paper, 1)
    second, _ = play(paper, 2)
    third, _ = close(paper, 3)
    restart(paper, 3)
    fourth, _ = close(paper, 4)
    after_2 = [1, 2] if instance_ == "warm" else [2]
    after_3 = [*after_2, 3] if block == "warm" else [3]
    assert trained_in(first.W) == []
    assert trained_in(second.W) == ([1] if instance_ == "warm" else [])
    assert trained_in(third.W) == (after_2 if block == "warm" else [])
    assert trained_in(fourth.W) == (after_3 if alarm == "warm" else [])


@pytest.mark.parametrize(("start", "chosen"), [("scratch", "scratch"), ("warm", "incumbent")])
def test_a_restart_names_its_choice(start: Start, chosen: str) -> None:
    paper = Paper(PaperSettings(after_alarm=start))
    close(paper, 1)
    alarm = Alarm("test1", 0.7, 0.6, since=1)
    made = restart(paper, 1, alarm)
    assert (made.round, made.epoch, made.alarm, made.chosen) == (1, 2, alarm, chosen)


def test_the_horizon_doubles_when_it_is_passed() -> None:
    paper = Paper(PaperSettings(horizon=3))
    seen = {}
    for t in range(1, 14):
        paper.open(t, SCRATCH, 1.0)
        seen[t] = paper.horizon
        play(paper, t)
    assert [seen[t] for t in (1, 3, 4, 6, 7, 12, 13)] == [3, 3, 6, 6, 12, 12, 24]
