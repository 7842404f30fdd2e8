"""Clients that share a table see what they would see alone, whatever they do in which order; and they do share it."""

import copy
import gc
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.online.native.tables import AgreedTables, ClientTable

ROWS, RATES = 6, 2


def table(tables: AgreedTables, columns: int = 1) -> ClientTable:
    return ClientTable(tables, np.zeros((ROWS, RATES, columns), np.float32))


def learn(client: ClientTable, row: int, by: float) -> None:
    """Change a row in the last column, as the compiled loops do."""
    client.make_room_for(1)
    touched, agreed = client.changes.touched, client.enter()
    if not agreed.visits[row]:
        at = touched.counted["rows"][0]
        touched.cells[at], touched.counted["rows"][0] = row, at + 1
        columns = touched.before.shape[-1]
        touched.before[at] = agreed.values[row, :, :columns]
    agreed.visits[row] += 1
    agreed.values[row, :, client.changes.columns - 1] += by


def rows_of(*values: float, columns: int = 1) -> np.ndarray:
    return np.array(values)[:, None, None] * np.ones((1, RATES, columns))


def seen(client: ClientTable) -> list[list[float]]:
    return client.values[:, 0].tolist()


def state(client: ClientTable) -> list[object]:
    return [part.tolist() for part in (client.values, *client.changed())]


# --- by hand -----------------------------------------------------------------------------------------------------


def test_changes_are_a_clients_own_and_come_back_with_it():
    tables = AgreedTables()
    one, other = table(tables), table(tables)
    learn(one, 2, 5.0)
    learn(other, 2, 7.0)
    learn(one, 3, 1.0)
    assert one.agreed is other.agreed
    assert [seen(one)[row] for row in (2, 3)] == [[5.0], [1.0]]
    assert [seen(other)[row] for row in (2, 3)] == [[7.0], [0.0]]
    cells, before, own, visits = one.changed()
    assert (cells.tolist(), before[:, 0, 0].tolist(), own[:, 0, 0].tolist()) == ([2, 3], [0.0, 0.0], [5.0, 1.0])
    assert visits.tolist() == [1, 1]


def test_a_client_goes_on_to_new_rows_while_another_still_has_the_old_ones():
    tables = AgreedTables()
    one, other, third = table(tables), table(tables), table(tables)
    learn(other, 0, 4.0)
    cells, rows = np.array([0, 1]), rows_of(2.0, 3.0)
    one.begin(cells, rows)
    assert (seen(one)[:2], seen(other)[:2]) == ([[2.0], [3.0]], [[4.0], [0.0]])
    other.begin(cells.copy(), rows.copy())  # as another process would have decoded them
    assert other.agreed is one.agreed is not third.agreed
    assert (len(list(tables)), seen(other)[:2], seen(third)[:2]) == (2, [[2.0], [3.0]], [[0.0], [0.0]])
    third.begin(cells, rows)
    gc.collect()
    assert third.agreed is one.agreed
    assert len(list(tables)) == 1


def test_the_only_client_of_a_table_has_it_changed_in_place():
    one = table(AgreedTables())
    values = one.agreed.values
    learn(one, 0, 4.0)
    one.begin(np.array([1]), rows_of(3.0), "a")
    assert one.agreed.values is values
    assert seen(one)[:2] == [[0.0], [3.0]]


FORGERIES = {
    "other values": (np.array([0]), rows_of(9.0)),
    "other rows": (np.array([1]), rows_of(2.0)),
    "more labels": (np.array([0]), rows_of(2.0, columns=2)),
    "no number": (np.array([0]), rows_of(np.nan)),
}


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("forged", FORGERIES.values(), ids=FORGERIES)
@pytest.mark.parametrize("first", [False, True])
def test_rows_that_were_forged_for_one_client_reach_no_other_under_any_name(forged, first, whole):
    tables = AgreedTables()
    clients = [table(tables) for _ in range(3)]
    cells, rows = forged
    if whole:
        values = np.zeros((ROWS, RATES, rows.shape[-1]))
        values[cells] = rows
        cells, rows = None, values
    if first:
        clients[0].begin(cells, rows, "a")
    for client in clients[1:]:
        client.begin(np.array([0]), rows_of(2.0), "a")
    if not first:
        clients[0].begin(cells, rows, "a")
    assert clients[0].agreed is not clients[1].agreed is clients[2].agreed
    assert [seen(client)[:2] for client in clients[1:]] == [[[2.0], [0.0]]] * 2


def test_a_client_that_joins_with_the_whole_table_shares_that_of_the_others():
    tables = AgreedTables()
    one, other = table(tables), table(tables)
    one.begin(np.array([4]), rows_of(2.0), "a")
    whole = np.zeros((ROWS, RATES, 1))
    whole[4] = 2.0
    late = table(tables)
    learn(one, 4, 1.0)
    late.begin(None, whole, "a")
    other.begin(np.array([4]), rows_of(2.0), "a")
    assert one.agreed is late.agreed is other.agreed
    assert (seen(one)[4], seen(late)[4]) == ([3.0], [2.0])


def test_a_late_client_may_be_the_first_at_a_state():
    tables = AgreedTables()
    one, other, late = table(tables), table(tables), table(tables)
    whole = np.zeros((ROWS, RATES, 1))
    whole[4] = 2.0
    late.begin(None, whole, "a")
    for client in (one, other):
        client.begin(np.array([4]), rows_of(2.0), "a")
    assert late.agreed is one.agreed is other.agreed


def test_labels_that_are_new_at_a_client_are_seen_by_it_alone():
    tables = AgreedTables()
    one, other = table(tables), table(tables)
    learn(one, 1, 1.0)
    one.widen(3)
    learn(one, 1, 5.0)
    learn(one, 2, 6.0)
    other.widen(2)
    learn(other, 2, 7.0)
    assert (seen(one)[1], seen(one)[2]) == ([1.0, 0.0, 5.0], [0.0, 0.0, 6.0])
    assert (seen(other)[1], seen(other)[2]) == ([0.0, 0.0], [0.0, 7.0])
    one.begin(np.zeros(0, np.int64), np.zeros((0, RATES, 1)))
    assert one.agreed is other.agreed
    assert seen(one) == [[0.0]] * ROWS
    assert seen(other)[2] == [0.0, 7.0]


def test_arguments_that_point_into_a_table_go_with_it():
    tables = AgreedTables()
    one, other = table(tables), table(tables)
    one.enter()
    one.changes.arguments = object()  # what the loops are called with
    other.widen(2)
    assert one.changes.arguments is None
    one.changes.arguments = object()
    other.enter()
    assert one.changes.arguments is None


def test_fewer_labels_than_before_leave_nothing_of_the_others():
    tables = AgreedTables()
    one, other = table(tables, 2), table(tables, 2)
    for client in (one, other):
        client.begin(np.array([1]), rows_of(3.0, columns=2))
    one.begin(np.zeros(0, np.int64), np.zeros((0, RATES, 1)))
    one.widen(2)
    assert (seen(one)[1], seen(other)[1]) == ([3.0, 0.0], [3.0, 3.0])


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_has_a_table_of_its_own(twin):
    tables = AgreedTables()
    one, other = table(tables), table(tables)
    learn(one, 2, 5.0)
    again = twin(one)
    learn(other, 2, 1.0)
    assert state(again) == state(one)
    learn(again, 3, 2.0)
    again.begin(np.array([0]), rows_of(4.0))
    assert (seen(one)[0], seen(one)[2], seen(one)[3]) == ([0.0], [5.0], [0.0])
    assert seen(other)[2] == [1.0]


def test_a_client_that_is_gone_leaves_nothing_in_the_table():
    tables = AgreedTables()
    one, other = table(tables), table(tables)
    learn(one, 2, 5.0)
    del one
    gc.collect()
    assert seen(other) == [[0.0]] * ROWS
    assert len(other.agreed.users) == 1


def test_a_table_of_many_labels_is_copied_far_less_often_than_once_for_each():
    client, copies = table(AgreedTables()), 0
    for columns in range(2, 301):
        before = client.agreed.values
        client.widen(columns)
        copies += client.agreed.values is not before
        learn(client, 0, float(columns))
    assert seen(client)[0] == [0.0, *map(float, range(2, 301))]
    assert copies < 45


# --- any order ---------------------------------------------------------------------------------------------------

STEP = st.one_of(
    st.tuples(st.just("learn"), st.integers(0, ROWS - 1), st.integers(1, 3)),
    st.tuples(st.just("widen"), st.sampled_from([1, 2, 9])),  # from eight columns on there is room for more
    st.tuples(st.just("rows"), st.lists(st.integers(0, ROWS - 1), unique=True), st.integers(1, 2), st.integers(1, 3)),
    st.tuples(st.just("whole"), st.integers(0, 2), st.integers(1, 3)),
    st.tuples(st.just("forget")),
    st.tuples(st.just("copy")),
)


def act(client: ClientTable, step: tuple, chain: str) -> ClientTable:
    columns = client.changes.columns
    match step:
        case "learn", row, by:
            learn(client, row, by)
        case "widen", more:
            client.widen(columns + more)
        case "rows", cells, value, wide:
            shape = (len(cells), RATES, wide)
            client.begin(np.array(cells, np.int64), np.full(shape, float(value)), chain)
        case "whole", value, wide:
            client.begin(None, np.full((ROWS, RATES, wide), float(value)), chain)
        case ("forget",):
            client.begin(np.zeros(0, np.int64), np.zeros((0, RATES, columns)), chain)
        case ("copy",):
            return copy.deepcopy(client)
    return client


@given(st.lists(st.tuples(st.integers(0, 2), STEP, st.sampled_from(["", "a"])), max_size=25))
def test_shared_tables_give_what_own_tables_give(script):
    tables = AgreedTables()
    shared, alone = [table(tables) for _ in range(3)], [table(AgreedTables()) for _ in range(3)]
    for who, step, chain in script:
        shared[who], alone[who] = act(shared[who], step, chain), act(alone[who], step, chain)
        assert state(shared[who]) == state(alone[who])
    assert list(map(state, shared)) == list(map(state, alone))


class Interrupted(BaseException):
    pass


class Fails(np.ndarray):
    """An array in which the k-th assignment is interrupted."""

    left = 10**9

    def __setitem__(self, key, value):
        Fails.left -= 1
        if Fails.left == 0:
            raise Interrupted
        super().__setitem__(key, value)
        Fails.left -= 1
        if Fails.left == 0:
            raise Interrupted


@pytest.mark.parametrize("last", ["one", "other", "begin"])
@pytest.mark.parametrize("at", range(1, 13))
def test_an_interruption_while_clients_change_places_loses_nothing(at, last):
    def run(interrupted: bool) -> list[object]:
        tables = AgreedTables()
        one, other = table(tables), table(tables)
        for client, by in ((one, 1.0), (other, 2.0)):
            learn(client, 2, by)
            learn(client, 3, by)
        agreed = one.agreed
        agreed.values, agreed.visits = agreed.values.view(Fails), agreed.visits.view(Fails)
        Fails.left = at if interrupted else 10**9
        for _ in range(2):
            try:
                one.enter()
                other.enter()
                one.begin(np.array([3]), rows_of(7.0))
            except Interrupted:
                Fails.left = 10**9
                if last != "begin":
                    continue
            if last == "begin":
                one.begin(np.array([3]), rows_of(7.0))
        order = {"one": (one, other), "other": (other, one), "begin": (other, one)}[last]
        return [state(client) for client in (order if last != "other" else order[::-1])]

    assert run(True) == run(False)
