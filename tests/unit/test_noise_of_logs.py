"""What kafka-python logs without a consequence."""

import logging

from kafka.errors import Cancelled, KafkaConnectionError

from streamfl_connectors.kafka.noise import is_relevant


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("kafka.coordinator", logging.WARNING, "", 0, text, ("n", "g", "e"), None)


def test_a_group_that_moves_to_another_broker_or_meets_a_new_topic_wakes_nobody() -> None:
    moved = "Marking the coordinator dead (node %s) for group %s: %s."
    assert not is_relevant(record(moved))
    assert not is_relevant(record("No partition metadata for topic %s"))
    assert is_relevant(record("Group Coordinator lookup for group %s failed: %s, %s"))


def test_a_request_that_ends_with_its_process_is_not_logged_and_one_that_fails_is() -> None:
    def failed(error: Exception) -> logging.LogRecord:
        return logging.LogRecord("kafka.cluster", logging.ERROR, "", 0, "Metadata refresh: failed %s", (error,), None)

    assert not is_relevant(failed(Cancelled()))
    assert is_relevant(failed(KafkaConnectionError("refused")))
