"""The size of an answer is bounded, whatever its record and its labels are."""

from dataclasses import replace

import msgspec
import numpy as np

from streamfl.live.answers import Predictor
from streamfl.machines.client.follower import Follower
from streamfl.protocol.messages import BranchGroup, DecisionRule, ModelPublished, RegistryPublished, RoundOpened, Slot
from streamfl.protocol.registry import Registry
from streamfl.records.formats import FieldMap, JsonRecords, Packed
from streamfl.run.settings import LearningSettings
from streamfl.runtime.log.predictions import MOST_BYTES, MOST_KEY
from streamfl.runtime.ports import UnlabelledRecords


def follower_of(labels):
    """Return the follower of a model of some labels that knows nothing."""
    follower = Follower(LearningSettings(features="rounds").learner("classification", 0))
    registry = Registry(1, ("x",), labels, np.zeros(1), np.ones(1))
    slots = (Slot(name="m", version=2, eta=1.0),)
    opened = RoundOpened(entry=2, round=2, epoch=1, block=1, registry=1, slots=slots, serves="m", known_labels=2)
    weights = np.zeros((2, len(labels)))
    for message in (
        RegistryPublished(registry=registry),
        ModelPublished(slot="m", version=2, registry=1, weights=weights),
        opened,
    ):
        assert follower.take(message) == []
    return follower


def answered(labels, key):
    """Return the answer to an empty record."""
    records = JsonRecords(FieldMap(task="unlabelled")).decode([4], [b"{}"])
    (answer,) = Predictor(follower_of(labels), stride=1).to(UnlabelledRecords("t", 0, records, {4: key}))
    return answer, msgspec.json.decode(answer.value)


def test_a_long_key_in_an_answer_is_cut():
    answer, told = answered(("no", "yes"), b"k" * 1_000_000)
    assert answer.key == b"k" * MOST_KEY
    assert told["key"] == "k" * 256
    assert answered(("no", "yes"), b"k" * MOST_KEY)[0].key == b"k" * MOST_KEY


def test_an_answer_with_too_many_probabilities_has_none():
    labels = tuple(f"{i:0256}" for i in range(1024))
    answer, told = answered(labels, None)
    assert len(answer.value) < 1000 < MOST_BYTES <= 1024 * 256
    assert (told["prediction"], told["offset"]) == (labels[0], 4)
    assert "probabilities" not in told
    few = labels[:900]
    assert len(answered(few, None)[1]["probabilities"]) == 900


def test_the_rule_of_the_round_says_which_label_answers_and_changes_no_probability():
    follower = follower_of(("no", "yes"))
    (likeliest, before) = answered_by(follower)
    assert follower.take(replace(follower.opened, decision=DecisionRule(weights={"yes": 1.5}))) == []
    assert (likeliest, *answered_by(follower)) == ("no", "yes", before)


def answered_by(follower):
    records = JsonRecords(FieldMap(task="unlabelled")).decode([4], [b"{}"])
    (answer,) = Predictor(follower, stride=1).to(UnlabelledRecords("t", 0, records, {}))
    told = msgspec.json.decode(answer.value)
    return told["prediction"], told["probabilities"]


def test_an_answer_to_a_packed_record_names_message_and_row():
    form = Packed("unlabelled")
    values = [form.encode(("x",), np.arange(n, dtype=float)[:, None], np.zeros(n), ()) for n in (2, 1)]
    asked = UnlabelledRecords("t", 3, form.decode([8, 9], values), {8: b"a", 9: b"b"})
    answers = Predictor(follower_of(("no", "yes")), form.stride).to(asked)
    told = [msgspec.json.decode(answer.value) for answer in answers]
    assert [(one["offset"], one.get("row"), one["key"], one["partition"]) for one in told] == [
        (8, None, "a", 3),
        (8, 1, "a", 3),
        (9, None, "b", 3),
    ]


def test_records_that_a_model_of_their_client_alone_answers_are_counted():
    follower = follower_of(("no", "yes"))
    slots = (Slot(name="m", version=3, eta=1.0), Slot(name="e", version=3, eta=1.0, clients=("east",)))
    opened = replace(
        follower.opened, entry=3, round=3, slots=slots, apart=(BranchGroup(clients=("east",), serves="e"),)
    )
    for slot, weights in (("m", np.zeros((2, 2))), ("e", np.array([[0.0, 0.0], [0.0, 1.0]]))):
        follower.take(ModelPublished(slot=slot, version=3, registry=1, weights=weights))
    assert follower.take(opened) == []
    answers = Predictor(follower, stride=1)
    told = {}
    for site in ("east", "esat"):  # who takes part is not known, so that nobody can refuse the second name
        records = JsonRecords(FieldMap(task="unlabelled", client="site")).decode(
            [4], [b'{"site":"%s"}' % site.encode()]
        )
        (answer,) = answers.to(UnlabelledRecords("t", 0, records, {}))
        told[site] = (msgspec.json.decode(answer.value)["prediction"], answers.own)
    assert told == {"east": ("yes", 1), "esat": ("no", 1)}
