"""A scorer's loop, by a script of what it reads: when it waits, answers and is ready."""

from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
import pytest
from structlog.testing import capture_logs

from streamfl.live.answers import Predictor
from streamfl.live.score import BEGUN_AGAIN, NO_MODELS, NO_ROUND, NOT_FITTING, TELL_EVERY, ScoringNode
from streamfl.machines.client.follower import Follower
from streamfl.protocol.messages import BranchGroup, ModelPublished, RegistryPublished, RoundOpened, Slot
from streamfl.protocol.registry import Registry
from streamfl.records.formats import FieldMap, JsonRecords
from streamfl.run.settings import LearningSettings
from streamfl.runtime.ports import ScoringCounts, UnlabelledRecords

LEARNER = LearningSettings(features="rounds").learner("classification", 0)
# A record with x above 0 is a yes; in the other model it is a no.
YES, NO = np.array([[-1.0, 1.0], [0.0, 0.0]]), np.array([[1.0, -1.0], [0.0, 0.0]])


def opening(round_, weights=YES, *, apart=()):
    """Return what opens a round: registry, models, and the round itself."""
    slots = (Slot(name="m", version=round_, eta=1.0), Slot(name="own", version=round_, eta=1.0))
    return [
        RegistryPublished(registry=Registry(1, ("x",), ("no", "yes"), np.zeros(1), np.ones(1))),
        ModelPublished(slot="m", version=round_, registry=1, weights=weights),
        ModelPublished(slot="own", version=round_, registry=1, weights=-weights),
        opened(round_, slots, apart),
    ]


def opened(round_, slots, apart=()):
    return RoundOpened(
        entry=round_ + 5,
        round=round_,
        epoch=1,
        block=1,
        registry=1,
        slots=slots,
        serves="m",
        known_labels=2,
        apart=apart,
    )


def asked(*values, clients=(), keys=None, partition=0):
    records = JsonRecords(FieldMap(task="unlabelled")).decode(
        range(len(values)), [msgspec.json.encode({"x": value}) for value in values]
    )
    if clients:
        records = replace(records, clients=clients)
    return UnlabelledRecords("t", partition, records, keys or dict.fromkeys(range(len(values))))


@dataclass
class Script:
    """A scorer whose models and records a test writes."""

    models: list = field(default_factory=list)
    records: list = field(default_factory=list)
    answered: list = field(default_factory=list)
    waited: float = 0.0
    counts: ScoringCounts = field(default_factory=ScoringCounts)

    def poll_models(self):
        taken, self.models = self.models, []
        return taken

    def read(self):
        taken, self.records = self.records, []
        return taken

    def answer(self, answers):
        self.answered.append([msgspec.json.decode(answer.value) for answer in answers])

    def listen(self, seconds):
        self.waited += seconds


@pytest.fixture
def script():
    return Script()


@pytest.fixture
def node(script):
    return ScoringNode(script, Predictor(Follower(LEARNER), stride=1), most_behind=2)


def test_a_scorer_without_models_waits_and_leaves_records_where_they_are(script, node):
    script.records = [asked(1.0)]
    with capture_logs() as logs:
        node.step(0.0)
        node.step(0.1)
    assert (script.answered, len(script.records)) == ([], 1)
    assert script.waited > 0.0
    assert [log["reason"] for log in logs if log["event"] == "not ready"] == [NO_MODELS]
    assert node.not_ready == NO_MODELS


def test_an_answer_names_its_record_and_its_model(script, node):
    script.models = opening(7)
    script.records = [asked(2.0, -2.0, keys={0: b"k", 1: b"\xff"}, partition=3)]
    node.step(0.0)
    ((first, second),) = script.answered
    share = round(1 / (1 + np.exp(-4.0)), 6)
    assert first == {
        "key": "k", "prediction": "yes", "round": 7, "epoch": 1, "entry": 11, "topic": "t", "partition": 3,
        "offset": 0, "probabilities": {"no": pytest.approx(1 - share, abs=1e-6), "yes": share},
    }  # fmt: skip
    assert (second["key"], second["prediction"], second["offset"]) == ("\\xff", "no", 1)
    assert node.not_ready is None


def test_each_answered_record_is_timed_from_its_reading_to_its_answer(script, node):
    script.models, script.records = opening(7), [asked(2.0, -2.0)]
    node.seconds = iter([10.0, 10.5]).__next__
    node.step(0.0)
    (measure,) = [one for one in node.measured() if one.kind == "histogram"]
    assert (measure.samples[-1][1], measure.total) == (2, 1.0)


@pytest.mark.parametrize("first", ["models", "round"])
def test_records_of_a_client_that_drifted_alone_are_answered_by_its_own_model(script, node, first):
    *models, last = opening(7, apart=(BranchGroup(clients=("c1",), serves="own"),))
    last = replace(last, slots=(last.slots[0], replace(last.slots[1], clients=("c1",))))
    script.models = [*models, last] if first == "models" else [last, *models]
    script.records = [asked(2.0, 2.0, 2.0, clients=("c0", "c1", "c2"))]
    node.step(0.0)
    assert [answer["prediction"] for answer in script.answered[0]] == ["yes", "no", "yes"]


def test_models_change_between_records_read_together_never_within(script, node):
    script.models, script.records = opening(7), [asked(2.0), asked(2.0)]
    node.step(0.0)
    script.models, script.records = opening(8, NO), [asked(2.0)]
    node.step(0.1)
    told = [[(answer["round"], answer["prediction"]) for answer in part] for part in script.answered]
    assert told == [[(7, "yes"), (7, "yes")], [(8, "no")]]


def test_a_scorer_whose_models_are_too_old_is_not_ready_and_keeps_answering(script, node):
    slots = (Slot(name="m", version=9, eta=1.0),)
    script.models = opening(7)
    node.step(0.0)
    script.models = [opened(9, slots)]  # its models have not arrived
    node.step(0.1)
    assert node.not_ready is None
    script.models, script.records = [opened(10, slots)], [asked(2.0)]
    with capture_logs() as logs:
        node.step(0.2)
    assert node.not_ready == "its models are 3 rounds behind; at most 2 are allowed"
    assert [log["event"] for log in logs] == ["not ready"]
    assert script.answered[0][0]["round"] == 7
    script.models = opening(11)
    with capture_logs() as logs:
        node.step(0.3)
    assert node.not_ready is None
    assert [(log["event"], log["round"]) for log in logs if log["log_level"] == "info"] == [("ready", 11)]


def test_a_scorer_counts_bad_records_as_read(script, node):
    script.models = opening(7)
    script.records = [asked()]
    node.step(0.0)
    assert script.answered == [[]]


def test_lies_about_models_are_counted_and_change_nothing(script, node):
    script.models = opening(7)
    node.step(0.0)
    script.models = [ModelPublished(slot="m", version=8, registry=1, weights=np.full((2, 2), np.inf))] * 3
    script.records = [asked(2.0)]
    with capture_logs() as logs:
        node.step(0.1)
    assert script.answered[0][0]["prediction"] == "yes"
    assert [log["count"] for log in logs if log["event"] == "unusable message"] == [1, 2, 3]


def test_a_scorer_logs_every_minute_what_it_has_answered(script, node):
    script.models = opening(7)
    script.counts.answered = 12
    with capture_logs() as logs:
        for now in (0.0, TELL_EVERY - 1.0, TELL_EVERY + 1.0, TELL_EVERY + 2.0):
            node.step(1.0 + now)
    assert [(log["answered"], log["round"]) for log in logs if log["event"] == "scored"] == [(12, 7)]


def test_a_scorer_that_cannot_use_the_models_says_so_at_once_and_every_minute(script, node):
    with capture_logs() as logs:
        node.step(1.0)
        script.models = opening(7)[1:]  # the names have not arrived
        node.step(1.1)
        node.step(1.2)
        script.models = [opened(8, (Slot(name="m", version=8, eta=1.0),))]
        node.step(1.3)
        node.step(2.0 + TELL_EVERY)
    told = [log["reason"] for log in logs if log["event"] == "not ready"]
    assert told == [NO_MODELS, NOT_FITTING, NOT_FITTING]
    script.models = opening(9)
    node.step(3.0 + TELL_EVERY)
    assert node.not_ready is None


def test_a_scorer_that_finds_models_but_no_open_round_says_so(script, node):
    script.models = opening(7)[:-1]
    node.step(0.0)
    assert node.not_ready == NO_ROUND
    script.models = opening(7)[-1:]
    node.step(0.1)
    assert node.not_ready is None


def test_a_scorer_whose_federation_begins_again_is_not_ready(script, node):
    script.models = opening(7)
    node.step(0.0)
    slots = (Slot(name="m", version=4, eta=1.0),)
    script.models = [opened(5, slots)]
    node.step(0.1)
    assert node.not_ready is None
    script.models, script.records = [opened(4, slots)], [asked(2.0)]
    node.step(0.2)
    assert node.not_ready == BEGUN_AGAIN
    assert script.answered[0][0]["round"] == 7


def test_records_without_any_feature_of_the_models_are_answered_counted_and_told(script, node):
    script.models = opening(7)
    form = JsonRecords(FieldMap(task="unlabelled"))
    values = [b'{"x": 2.0}', b'{"X": 2.0}', b'{"x": null, "X": 1.0}', b'{"x": 0.0}', b"{}"]
    script.records = [UnlabelledRecords("t", 0, form.decode(range(5), values), dict.fromkeys(range(5)))]
    with capture_logs() as logs:
        node.step(0.0)
        node.tell("ended")
    told = [(log["position"], log["reason"]) for log in logs if log["event"].startswith("record without")]
    assert told == [(place, "records next to it have x, X; they know x") for place in (1, 2, 4)]
    assert (len(script.answered[0]), logs[-1]["blind"]) == (5, 3)


def test_the_http_server_gets_each_model_that_answers_once(script, node):
    told = []
    node.on_models = lambda: told.append(node.follower.opened.round)
    for models in (opening(7), [], opening(8)[:-1], opening(8)[-1:], []):
        script.models = models
        node.step(0.0)
    assert told == [7, 8]
