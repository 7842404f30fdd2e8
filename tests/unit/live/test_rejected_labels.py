"""What a host logs of rejected labels."""

from structlog.testing import capture_logs

from streamfl.live.metrics.rejected_labels import EVERY, RejectedLabels
from streamfl.protocol.messages import Accepted, Watermark


def accepted(client, **counts):
    return Accepted(
        client=client, attempt="1", spans=(), records=9, rejected=0, watermark=Watermark("f", 9, **counts)
    )


def said(labels, now):
    with capture_logs() as logged:
        labels.log(now, {"b": "a second label for a record: k7"}.get)
    return [
        {name: line[name] for name in ("unmatched", "repeated", "unusable", "clients", "last")} for line in logged
    ]


def test_rejected_labels_are_logged_for_all_clients_at_once_and_seldom():
    labels = RejectedLabels()
    assert said(labels, 0.0) == []
    labels.take([accepted("a", repeated=1), accepted("b", repeated=2, unmatched=3), accepted("c", expired=4)])
    last = "a second label for a record: k7"
    assert said(labels, 1.0) == [
        {"unmatched": 3, "repeated": 3, "unusable": 0, "clients": "b, a", "last": last},
    ]
    labels.take([accepted("a", repeated=5)])
    assert said(labels, EVERY) == []
    labels.take([accepted("a", unusable=1)])
    assert said(labels, 1.0 + EVERY) == [
        {"unmatched": 0, "repeated": 5, "unusable": 1, "clients": "a", "last": ""},
    ]
    assert said(labels, 1e9) == []


def test_labels_that_a_producer_only_repeats_are_no_warning():
    labels = RejectedLabels()
    levels = []
    for now, counts in (
        (0.0, {"repeated": 2}),
        (EVERY, {"repeated": 1, "unmatched": 1}),
        (2 * EVERY, {"repeated": 4}),
    ):
        labels.take([accepted("a", **counts)])
        with capture_logs() as logged:
            labels.log(now, {}.get)
        levels += [line["log_level"] for line in logged]
    assert levels == ["info", "warning", "info"]
