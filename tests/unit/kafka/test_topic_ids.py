"""How a coordinator knows a topic from another one that was made in its place."""

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors

from streamfl.errors import PeerError
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import Placement
from streamfl_connectors.kafka.coordinator import ends
from streamfl_connectors.kafka.coordinator.ends import MOST_UNKNOWN, NO_ID, STAYS, Ends
from streamfl_connectors.kafka.settings import KafkaSettings


class Brokers:
    """Brokers that tell the identities of these topics."""

    def __init__(self, **ids: str | None) -> None:
        self.ids, self.asked = ids, list[list[str]]()
        self.fails: Exception | None = None
        self.settings = KafkaSettings.model_validate({"bootstrap_servers": "127.0.0.1:1"})

    def admin(self) -> Any:
        return self

    def describe_topics(self, topics: list[str]) -> list[dict[str, Any]]:
        self.asked.append(topics)
        if self.fails is not None:
            raise self.fails
        return [{"name": topic, "topic_id": self.ids.get(topic)} for topic in topics]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(ends, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def asking(brokers: Brokers) -> Ends:
    return Ends(brokers, Topics("f"), Placement(("r*",)), 1)  # type: ignore[arg-type]


def test_a_topic_that_was_made_again_has_another_identity_within_seconds(clock: SimpleNamespace) -> None:
    of = asking(brokers := Brokers(ra="1", rb="2")).ids_of
    assert of(["ra/0", "rb/0"]) == {"ra/0": "1", "rb/0": "2"}
    brokers.ids["ra"] = "3"
    clock.now += STAYS
    assert of(["rb/0"]) == {"rb/0": "2"}
    assert of(["ra/0"]) == {"ra/0": "3"}
    assert brokers.asked == [["ra", "rb"]] * 2, "all topics at once, now and then"


@pytest.mark.parametrize("told", [None, NO_ID])
def test_brokers_that_tell_none_leave_it_unknown(told: str | None, clock: SimpleNamespace) -> None:
    of = asking(Brokers(ra=told)).ids_of
    assert of(["ra/0", "f.state/0", "no partition"]) == {"ra/0": None, "f.state/0": None, "no partition": None}


def test_a_topic_without_an_identity_is_not_asked_for_at_every_update(clock: SimpleNamespace) -> None:
    of = asking(brokers := Brokers(ra=NO_ID)).ids_of
    for _ in range(100):
        of(["ra/0", "rb/0"])
    assert brokers.asked == [["ra", "rb"]]
    brokers.ids["ra"] = "1"
    clock.now += STAYS
    assert of(["ra/0", "rb/0"]) == {"ra/0": "1", "rb/0": None}
    assert of(["ra/0", "rb/0"]) == {"ra/0": "1", "rb/0": None}
    assert brokers.asked == [["ra", "rb"]] * 2


def test_few_names_of_topics_that_do_not_exist_are_kept_and_not_for_long(clock: SimpleNamespace) -> None:
    asked = asking(Brokers())
    asked.ids_of([f"r{i}/0" for i in range(3 * MOST_UNKNOWN)])
    asked.ids_of(["rx/0"])
    assert len(asked._unknown) == MOST_UNKNOWN
    clock.now += STAYS
    asked.ids_of(["rx/0"])
    assert (asked._unknown, asked._ids) == (["rx"], {})


def test_while_brokers_are_away_topics_stay_what_they_were(clock: SimpleNamespace) -> None:
    asked = asking(brokers := Brokers(ra="1"))
    asked.ids_of(["ra/0"])
    brokers.fails = PeerError("no answer")
    clock.now += STAYS
    assert asked.ids_of(["ra/0"]) == {"ra/0": "1"}


REFUSED = kafka_errors.SaslAuthenticationFailedError("wrong password")


def test_a_refused_login_of_the_coordinator_is_no_fault_of_a_client(clock: SimpleNamespace) -> None:
    asked = asking(brokers := Brokers(ra="1"))
    asked.ids_of(["ra/0"])
    brokers.fails = REFUSED
    assert asked.ids_of(["ra/0", "rb/0"]) == {"ra/0": "1", "rb/0": None}
    clock.now += STAYS
    assert asked.ids_of(["ra/0"]) == {"ra/0": "1"}


def test_a_refused_login_leaves_the_ends_of_partitions_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise REFUSED

    monkeypatch.setattr(ends, "_listed", refused)
    assert asking(Brokers(ra="1")).of(["ra/0"]) == {"ra/0": None}
