"""`streamfl.Federation`: a program's own federation is a live one in memory."""

import json

import numpy as np
import polars as pl
import pytest

import streamfl
from streamfl.errors import UsageError

N = 400
RNG = np.random.default_rng(1)
A, B = RNG.normal(size=(2, N))
STATE = np.where(A + B > 0.0, "hot", "cold")
RECORDS = [{"a": float(a), "b": float(b), "state": str(s)} for a, b, s in zip(A, B, STATE, strict=True)]
SITES = ("site=s0", "site=s1")


def tables(**rounds: object) -> dict[str, object]:
    return {
        "federation": {"min_clients": 2},
        "rounds": {"clock": "records", "size": 10, **rounds},
        "learning": {"features": "rounds"},
        "records": {"fields": {"label": "state"}},
    }


def fed(federation: streamfl.Federation, records=RECORDS, *, ask: bool = False) -> streamfl.Federation:
    for i, record in enumerate(records):
        federation.learn(SITES[i % 2], record)
        if ask and i % 7 == 0:
            federation.predict(SITES[i % 2], records[:3])
    return federation


def test_a_program_learns_what_a_replay_of_the_same_records_learns():
    frame = pl.DataFrame(RECORDS).with_columns(site=pl.Series([f"s{i % 2}" for i in range(N)]))
    run = streamfl.replay(frame, label="state", split="column:site", drop="site", features="rounds", round_size=10)
    for ask in (False, True):
        heard = []
        federation = fed(streamfl.Federation(tables(), on_round=heard.append, clock=streamfl.ManualClock()), ask=ask)
        assert heard[-1].model == run.result.model_sha256
        assert [line.line for line in heard] == list(run.result.per_round)
    answers = federation.predict(SITES[0], RECORDS)
    assert np.mean([one == record["state"] for one, record in zip(answers, RECORDS, strict=True)]) > 0.95
    model = federation.model()
    assert (model.registry.features, model.labels) == (("a", "b"), ("cold", "hot"))
    assert model.predict([[one["a"], one["b"]] for one in RECORDS], ("a", "b")) == answers


def test_masked_sums_wait_for_as_many_clients_as_a_total_needs():
    heard = []
    hidden = {**tables(), "federation": {"min_clients": 1}, "privacy": {"secure_aggregation": "masked"}}
    federation = streamfl.Federation(hidden, on_round=heard.append, clock=streamfl.ManualClock())
    for i, record in enumerate(RECORDS[:120]):
        federation.learn(f"s{i % (2 if i < 60 else 4)}", record)
    assert [line.records for line in heard][:1] == [30]  # the third client has ten records at last
    with pytest.raises(
        UsageError, match=r"a total is over 3 clients or more .*there are 2: raise federation.most_cl"
    ):
        streamfl.Federation({**hidden, "federation": {"most_clients": 2}})
    with pytest.raises(UsageError, match="there is 1: name more topics or partitions"):
        streamfl.Federation({**hidden, "records": {"topics": ("plant",), "fields": {"label": "state"}}})
    for sums in ("masked", "pooled"):
        with pytest.raises(UsageError, match=f"{sums}: a total is over 3 clients .*there are 2: choose --clients 3"):
            streamfl.replay(
                pl.DataFrame(RECORDS), label="state", clients=2, features="rounds", secure_aggregation=sums
            )


@pytest.mark.compiles
def test_the_objective_says_which_label_is_predicted_live_and_in_the_model_file():
    prices = {"features": "linear", "objective": "cost", "costs": {"hot": 1e6}}
    federation = fed(
        streamfl.Federation({**tables(), "learning": prices}, clock=streamfl.ManualClock()), RECORDS[:120]
    )
    assert {*federation.predict(SITES[0], RECORDS[:50]), *federation.model().predict(RECORDS[:50])} == {"hot"}
    assert min(p["hot"] for p in federation.probabilities(SITES[0], RECORDS[:50])) < 0.5


def test_a_data_frame_and_dicts_are_the_same_records():
    frames, dicts = [], []
    for heard, whole in ((frames, True), (dicts, False)):
        federation = streamfl.Federation(tables(), on_round=heard.append, clock=streamfl.ManualClock())
        for site in SITES:
            records = RECORDS[SITES.index(site) :: 2]
            federation.learn(site, pl.DataFrame(records) if whole else records)
    assert len(frames) == 20
    assert frames == dicts


def test_a_drift_is_heard_once_with_a_sentence():
    heard = []
    swapped = {"hot": "cold", "cold": "hot"}
    records = RECORDS + [{**one, "state": swapped[one["state"]]} for one in RECORDS]
    federation = streamfl.Federation(
        tables(size=25), on_drift=lambda *told: heard.append(told), clock=streamfl.ManualClock()
    )
    fed(federation, records)
    ((said, found),) = heard
    assert said.startswith("Since round 9, records of label hot have been predicted worse at all 2 clients")
    assert found.clients == SITES


def test_rounds_end_as_a_manual_clock_says():
    clock, heard = streamfl.ManualClock(), []
    by_time = tables(clock="interval", interval=60.0, deadline=5.0)
    federation = fed(streamfl.Federation(by_time, on_round=heard.append, clock=clock), RECORDS[:40])
    for site in SITES:
        federation.learn(site, RECORDS[:20])
    assert heard == []
    clock.time = 61.0
    federation.step()
    assert [(line.round, line.records) for line in heard] == [(1, 80)]
    federation.learn(SITES[0], RECORDS[:20])  # the other is silent, and no round waits for ever
    for clock.time in (122.0, 130.0, 190.0, 200.0):
        federation.step()
    assert [line.records for line in heard] == [80, 20]


def test_messages_are_read_by_functions_of_the_program_and_what_these_refuse_is_told():
    def features(message):
        return {"a": message["v"][0], "b": message["v"][1], "state": message["s"]}

    plain, own = [], []
    fed(streamfl.Federation(tables(), on_round=plain.append, clock=streamfl.ManualClock()))
    federation = streamfl.Federation(
        tables(),
        deserialize=lambda message: json.loads(message[4:]),
        features=features,
        on_round=own.append,
        clock=streamfl.ManualClock(),
    )
    messages = [b"v1: " + json.dumps({"v": [one["a"], one["b"]], "s": one["state"]}).encode() for one in RECORDS]
    fed(federation, messages)
    assert own == plain
    assert federation.predict(SITES[0], [messages[0], b"v1: {}"])[1] is None
    federation.learn(SITES[1], [b"v1: {", b'v1: {"v": [1, 2]}'])
    assert [(client, reason.partition(":")[0]) for client, _, reason in federation.rejected] == [
        (SITES[1], "your function deserialize raised JSONDecodeError"),
        (SITES[1], "your function features raised KeyError"),
    ]


def test_what_a_federation_in_memory_cannot_be_is_refused_and_so_is_a_value_that_no_field_holds():
    with pytest.raises(UsageError, match=r"\[labels\] topic: labels that come later"):
        streamfl.Federation({**tables(), "labels": {"topic": "labels-*"}})
    with pytest.raises(UsageError, match=r"cannot be used: rounds[.]sice: there is no such setting"):
        streamfl.Federation({"rounds": {"sice": 3}})
    federation = streamfl.Federation(tables())
    assert federation.predict(SITES[0], {"a": 1.0}) is None
    assert federation.predict(SITES[0], []) == []
    with pytest.raises(UsageError, match="value of type object"):
        federation.learn(SITES[0], {"a": object(), "state": "hot"})
    with pytest.raises(UsageError, match="there is no model yet"):
        federation.model()
    federation.learn(SITES[0], {"a": np.float64(2.0), "b": np.int64(3), "state": np.str_("hot")})
    assert federation.rejected == ()


@pytest.mark.parametrize("name", ["", "a" * 255, "\u00e9" * 128, "\ud800", 7, None, ["a"]])
def test_a_client_that_cannot_join_is_refused_before_it_has_records(name):
    federation = streamfl.Federation(tables(), clock=streamfl.ManualClock())
    with pytest.raises(UsageError, match="a client's name is a text of 1 to 254 bytes, not "):
        federation.learn(name, RECORDS[0])
    assert federation.rejected == ()


def test_the_longest_name_learns_and_there_are_at_most_most_clients():
    heard = []
    settings = {**tables(), "federation": {"min_clients": 2, "most_clients": 2}}
    federation = streamfl.Federation(settings, on_round=heard.append, clock=streamfl.ManualClock())
    for site in ("a" * 254, "b"):
        federation.learn(site, RECORDS[:20])
    assert [line.records for line in heard] == [20, 20]
    with pytest.raises(UsageError, match='client "c": there are 2 already; raise most_clients'):
        federation.learn("c", RECORDS[0])
    federation.learn("b", RECORDS[0])


def test_the_records_of_a_client_that_has_failed_are_forgotten_and_failed_says_so():
    federation = streamfl.Federation(tables(), clock=streamfl.ManualClock())
    fed(federation, RECORDS[:20])
    federation._node.nodes[SITES[0]].machine.evicted = "it was refused"
    for _ in range(3):
        federation.learn(SITES[0], RECORDS[:200])
        assert len(federation._host._partitions[SITES[0]].messages) == 0
    assert federation.failed == {SITES[0]: "evicted: it was refused; its records that were not learnt are forgotten"}
    assert federation.rejected == ()
