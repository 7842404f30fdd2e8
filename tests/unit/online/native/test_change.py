"""The change of an agreed state: who follows it has the coordinator's state, and what does not fit is refused."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from native_streams import LABELS, drawn, learnt, state

from streamfl.errors import PeerError
from streamfl.online.native.at_client import NativeAtClient
from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.merging import merging
from streamfl.online.native.tables import ClientTable
from streamfl.protocol.messages import OnlinePublished
from streamfl.protocol.native.change import NativeChange
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import ROWS, NativeSettings
from streamfl.protocol.native.sleeping import Rest
from streamfl.protocol.native.steps import Steps
from streamfl.wire import messages

pytestmark = pytest.mark.compiles

AUTO = NativeSettings("auto")
NONE = NativeState.none(AUTO)
MODELS, CHANGE = merging.after(replace(NONE, table=NONE.table.copy()), [learnt(AUTO, drawn(40))], LABELS)


def test_a_change_leads_from_state_to_state():
    after = CHANGE.after(NONE)
    without = ("table", "early", "far", "kept_back")
    assert state(after, without=without) == state(MODELS, without=without)
    # The table stays that of the state before; its rows are told apart.
    assert after.table is NONE.table
    rows = CHANGE.cells.astype(int)
    np.testing.assert_array_equal(CHANGE.rows(np.zeros((len(rows), 2, 3))), MODELS.table[rows])
    assert np.array_equal(np.flatnonzero(MODELS.table.any(axis=(1, 2))), rows)


def test_rows_change_in_32_bits_everywhere():
    cells, ones = np.array([3.0]), np.full((1, 2, 1), 2.0**-30)
    change = replace(CHANGE, cells=cells, table=ones)
    assert change.rows(np.ones((1, 2, 1))).tolist() == [[[1.0], [1.0]]]
    assert change.rows(np.full((1, 2, 1), 2.0**-29)).tolist() == [[[3 * 2.0**-30]] * 2]
    assert change.rows(np.ones((1, 2, 1))).dtype == np.float32


SPOILT: dict[str, Callable[[NativeChange], NativeChange]] = {
    "a feature more": lambda c: replace(c, features=(*c.features, "z")),
    "a label fewer": lambda c: replace(c, labels=c.labels[:-1]),
    "weights of fewer models": lambda c: replace(c, weights=c.weights[:, :-1]),
    "weights in two dimensions": lambda c: replace(c, weights=c.weights[0]),
    "second moments of fewer features": lambda c: replace(c, second=c.second[1:, 1:]),
    "no second moments": lambda c: replace(c, second=np.zeros((0, 0))),
    "cells in two dimensions": lambda c: replace(c, cells=c.cells[:, None]),
    "cells without rows": lambda c: replace(c, table=c.table[:-1]),
    "rows of one rate": lambda c: replace(c, table=c.table[:, :1]),
    "rows of fewer labels": lambda c: replace(c, table=c.table[..., 1:]),
    "a row before the table": lambda c: replace(c, cells=np.concatenate([[-1.0], c.cells[1:]])),
    "a row behind the table": lambda c: replace(c, cells=np.concatenate([c.cells[:-1], [float(ROWS)]])),
    "half a row": lambda c: replace(c, cells=np.concatenate([[c.cells[0] + 0.5], c.cells[1:]])),
    "a row NaN": lambda c: replace(c, cells=np.concatenate([[np.nan], c.cells[1:]])),
    "a row twice": lambda c: replace(c, cells=np.concatenate([c.cells[:1], c.cells[:1], c.cells[2:]])),
    "rows that fall": lambda c: replace(c, cells=c.cells[::-1]),
    "a weight that is no number": lambda c: replace(c, weights=np.full(c.weights.shape, np.nan)),
    "second moments of so many that it is no number": lambda c: replace(c, each=float("nan")),
    "infinite second moments": lambda c: replace(c, second=np.full(c.second.shape, np.inf)),
    "a row that is no number": lambda c: replace(c, table=np.full(c.table.shape, np.nan)),
    "one norm": lambda c: replace(c, norms=c.norms[:1]),
    "fewer records than none": lambda c: replace(c, seen=-1),
    "a centre that is no number": lambda c: replace(c, centre=float("nan")),
    "moments of another shape": lambda c: replace(c, moments=replace(c.moments, mean=c.moments.mean[:1])),
    "a rest that cannot come about": lambda c: replace(c, rests={"rounds": Rest(left=17)}),
    "a mixture of fewer experts": lambda c: replace(c, mixture=replace(c.mixture, best=c.mixture.best[1:])),
    "steps of fewer models": lambda c: replace(c, steps=replace(c.steps, weights=c.steps.weights[1:])),
    "steps beyond all bounds": lambda c: replace(c, steps=Steps((111,) * 7, (0,) * 4)),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_change_that_does_not_fit_is_refused_and_nothing_changes(spoil):
    learner = NativeLearner(AUTO)
    learner.learn(*drawn(20, seed=2).part(0, 20))
    before = state(learner)
    with pytest.raises(PeerError, match="do not fit"):
        learner.begin(*learner.following(spoil(CHANGE)))
    assert state(learner) == before
    learner.begin(*learner.following(CHANGE))
    np.testing.assert_array_equal(learner.table, MODELS.table)


def test_a_change_of_another_state_is_refused():
    _, second = merging.after(replace(MODELS, table=MODELS.table.copy()), [], (*LABELS, "z"))
    with pytest.raises(PeerError, match="changes of agreed models do not fit them"):
        NativeLearner(AUTO).following(second)


def test_a_change_and_a_state_survive_the_wire_to_the_last_bit():
    for agreed in (CHANGE, replace(MODELS, table=MODELS.table.copy())):
        published = OnlinePublished(version=2, agreed=agreed)
        read = messages.decode(messages.encode(published))
        assert isinstance(read, OnlinePublished)
        assert read.is_whole is isinstance(agreed, NativeState)
        client = NativeAtClient(AUTO)
        client.take(read)
        client.begin(2, 1)
        np.testing.assert_array_equal(client.learner.table, MODELS.table)
        without = ("table", "early", "far", "kept_back")
        assert state(client.learner._agreed, without=without) == state(MODELS, without=without)


def test_a_change_counts_for_those_who_have_the_version_before_alone():
    client = NativeAtClient(AUTO)
    client.take(OnlinePublished(version=3, agreed=CHANGE))
    assert not client.has(3)
    client.take(OnlinePublished(version=2, agreed=CHANGE))
    assert client.has(2)


def second_round(labels: tuple[str, ...] = LABELS) -> tuple[NativeState, NativeChange]:
    """Return a state and its change, which names cells by their places: steps are agreed on since the first one."""
    learner = NativeLearner(AUTO)
    learner.begin(*learner.following(CHANGE))
    learner.learn(*drawn(20, seed=3).part(0, 20))
    return merging.after(replace(MODELS, table=MODELS.table.copy()), [learner.learnt()], labels)


def test_a_client_that_agreed_on_another_state_refuses_the_next_change_instead_of_reading_other_cells():
    rows = CHANGE.table.copy()
    rows[0], (_, change) = 64.0, second_round()
    forged = replace(CHANGE, table=rows)
    learner = NativeLearner(AUTO)
    with pytest.raises(PeerError, match="do not fit the ones before"):
        learner.following(forged)
    learner.begin(*learner.following(replace(forged, chain=forged.chain_after(NONE))))  # that cannot be detected
    with pytest.raises(PeerError, match="do not fit the ones before"):
        learner.following(change)
    learner.begin(replace(MODELS, table=MODELS.table.copy()))
    learner.begin(*learner.following(change))
    assert learner.agreed.chain == change.chain


def test_a_change_that_was_left_out_shows():
    learner = NativeLearner(AUTO)
    learner.begin(replace(MODELS, chain="another", table=MODELS.table.copy()))
    with pytest.raises(PeerError, match="do not fit the ones before"):
        learner.following(second_round()[1])


@pytest.mark.parametrize("broken_off", ["chain", "values"])
def test_a_change_of_the_table_that_was_broken_off_is_made_whole(broken_off, monkeypatch):
    learner, (_, change) = NativeLearner(AUTO), second_round()
    learner.begin(*learner.following(CHANGE))
    table = learner._table.agreed
    table.take_out()
    before = table.values.copy()

    def breaks(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if broken_off == "values":
            patched.setattr(table, "widen", breaks)
        else:
            patched.setattr(ClientTable, "_move", breaks)
        with pytest.raises(KeyboardInterrupt):
            learner.begin(*learner.following(change))
    assert np.array_equal(table.values, before) == (broken_off == "values")
    learner.begin(*learner.following(change))
    whole = NativeLearner(AUTO)
    whole.begin(*whole.following(CHANGE))
    whole.begin(*whole.following(change))
    np.testing.assert_array_equal(learner.agreed.table, whole.agreed.table)


def test_whoever_followed_changes_or_began_from_the_whole_has_the_order_of_the_coordinator():
    models, change = second_round((*LABELS, "z"))
    followed, whole = NativeLearner(AUTO), NativeLearner(AUTO)
    for each in (CHANGE, change):
        followed.begin(*followed.following(each))
    published = messages.encode(OnlinePublished(version=3, agreed=models.published))
    whole.begin(messages.decode(published).agreed)
    for learner in (followed, whole):
        learner.learn(*drawn(20, seed=4).part(0, 20))  # what is not agreed on does not count
        learner.learn(("x",), np.ones((3, 1)), np.arange(3.0), ("new", "newer", "z"))
        assert learner._table.agreed.order.cells.tolist() == models.order.cells.tolist()
