"""Records in Avro by a Schema Registry, on a real broker: the same model as from the same records in memory."""

from collections.abc import Sequence

import pytest
from kafka_federation import check_ledger
from mock_registry import Answers, answering, avro, framed, schema
from small_stream import FEATURES, LABELS, ROUNDS, SIZE

from streamfl.run.settings import ProfileSettings

pytest.importorskip("fastavro")


def plan(label: object, number: object) -> dict[str, object]:
    numbers = [{"name": name, "type": number} for name in FEATURES]
    return {"type": "record", "name": "Plant", "fields": [{"name": "label", "type": label}, *numbers]}


OLD = plan("string", ["null", "double"])
NEW = plan({"type": "enum", "name": "Kind", "symbols": [*LABELS]}, "float")


@pytest.mark.full
def test_avro_of_two_schemas_gives_the_model_of_the_same_records_and_bad_frames_are_counted(federate, small):
    small.profile = ProfileSettings(detector="glr")  # it holds nothing back, so bad records move nothing
    plans = {"c0": (7, OLD), "c1": (7, OLD), "c2": (12, NEW)}

    def encode(client: str, x: Sequence[float], label: str) -> bytes:
        number, its = plans[client]
        return avro(number, {"label": label, **dict(zip(FEATURES, x, strict=True))}, its)

    small.encode = encode
    bad = [b'{"label":"fir"}', framed(7, b"\2"), framed(99, b"\2\2\2")]
    with answering() as url:
        for number, its in plans.values():
            schema(number, its)
        federation = federate(small, "profile.detector=glr", "records.format=confluent", f"records.registry={url}")
        for value in bad:
            small.send("c1", value)
        small.write(until=ROUNDS)
        small.end()
        federation.start("a")
        federation.start("coordinator")
        federation.until("the end", lambda: all(p.popen.poll() is not None for p in federation.running))
        assert Answers.asked["/schemas/ids/7"] <= 2  # a format of its own for each partition
    closed = federation.closed()
    check_ledger(closed, {**small.each, "c1": SIZE * ROUNDS + len(bad)})
    assert sum(entry.rejected for entry in closed) == len(bad)
    assert closed[-1].model == small.expected.model_sha256
