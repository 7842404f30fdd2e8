"""Messages by a schema in a registry: read as the same JSON objects; what is hostile is rejected alone."""

import base64
import json
from collections.abc import Iterator

import mock_registry
import numpy as np
import pytest
from mock_registry import Answers, answering, framed, schema

from streamfl.errors import UsageError
from streamfl.protocol.records import Rejection
from streamfl.records.formats import FieldMap, JsonRecords, record_format
from streamfl.records.formats.by_schema import registry
from streamfl.runtime.ports import Decoded

pytest.importorskip("fastavro")

WRONG = (b"", b"\xff" * 50, b"\x05" * 9)
LIST = {"type": "array", "items": "float"}
RECORD = {
    "type": "record", "name": "Plant", "fields": [
        {"name": "label", "type": "string"},
        {"name": "x", "type": ["null", "double"]},
        {"name": "n", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "in", "type": {"type": "record", "name": "In", "fields": [{"name": "v", "type": LIST}]}},
    ],
}  # fmt: skip
AT = 1_774_100_706_000
ROW = {"label": "on", "x": None, "n": 3, "at": AT, "in": {"v": [0.5, 1.5]}}
BYTES = {"label": "string", "x": "double", "raw": "bytes"}
LOOP = {"type": "record", "name": "A", "fields": [{"name": "next", "type": ["null", "A"]}]}
EMPTY = {"type": "record", "name": "A", "fields": [{"name": "many", "type": {"type": "array", "items": "null"}}]}


@pytest.fixture
def url() -> Iterator[str]:
    with answering() as url:
        yield url


def avro(number: int, record: object) -> bytes:
    return mock_registry.avro(number, record, RECORD)


def decode(url: str, *messages: bytes | None, **fields: object) -> Decoded:
    return record_format("confluent", FieldMap(registry=url, time="at", **fields)).decode(
        range(len(messages)), messages
    )


def test_avro_and_json_schema_are_read_as_json_objects(url: str) -> None:
    schema(7, RECORD)
    schema(8, "{}", "JSON")
    plain = json.dumps(ROW | {"at": "2026-03-21T13:45:06Z"}).encode()
    found = decode(url, avro(7, ROW), framed(8, plain))
    right = JsonRecords(FieldMap(time="at")).decode([0, 1], [plain, plain])
    assert (found.features, found.labels, found.rejected) == (right.features, right.labels, ())
    np.testing.assert_array_equal(found.X, right.X)
    assert found.times.tolist() == [AT / 1000] * 2


def test_bytes_are_no_number_whatever_their_digits(url: str) -> None:
    plan = {"type": "record", "name": "P", "fields": [{"name": n, "type": t} for n, t in BYTES.items()]}
    schema(7, plan)
    rows = [mock_registry.avro(7, {"label": "a", "x": 1.5, "raw": raw}, plan) for raw in (b"\1\2", b"\x12\xe5")]
    found = record_format("confluent", FieldMap(registry=url)).decode([0, 1], rows)
    assert (found.features, found.X.tolist(), found.rejected) == (("x",), [[1.5], [1.5]], ())
    assert found.remarks == (
        'field "raw": "0x0102" is not a number; the field is not a feature; declare its values under categories, or '
        "drop it",
    )


def test_protobuf_is_read_by_its_descriptor(url: str) -> None:
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name="plant.proto", syntax="proto3")
    kind = file.message_type.add(name="Plant")
    kind.field.add(name="label", number=1, type=9, label=1)
    kind.field.add(name="x", number=2, type=1, label=1)
    schema(9, base64.b64encode(file.SerializeToString()).decode(), "PROTOBUF")
    found = decode(url, framed(9, b"\0\x0a\x02on\x11" + np.float64(2.5).tobytes()), framed(9, b"\0\x0a\x02on"))
    assert (found.features, found.labels, found.X.tolist()) == (("x",), ("on",), [[2.5], [0.0]])
    assert len(decode(url, framed(9, b"\x02\x02\0"), framed(9, b""), framed(9, b"\xff" * 9)).rejected) == 3


def test_a_schema_is_fetched_once_also_a_bad_one(url: str) -> None:
    schema(7, RECORD)
    reader = record_format("confluent", FieldMap(registry=url))
    for _ in range(3):
        reader.decode([0, 1], [avro(7, ROW), framed(8, b"")])
    assert Answers.asked == {"/schemas/ids/7": 1, "/schemas/ids/8": 1}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "the registry has no schema 5 (404)"),
        (b"", "does not come from a Schema Registry"),
        (b"[" * 100_000, "does not come from a Schema Registry"),
        (b"x" * (registry.LARGEST + 1), "is too large"),
        (json.dumps({"schema": "{}", "schemaType": "XML"}), "'XML', which is neither AVRO"),
        (json.dumps({"schema": json.dumps(RECORD), "references": [{"name": "a"}]}), "refers to other schemas"),
        (json.dumps({"schema": '"string"'}), "the schema is not that of a record"),
        (json.dumps({"schema": json.dumps(LOOP)}), "the schema contains itself"),
        (json.dumps({"schema": json.dumps(EMPTY)}), "an array of values without bytes"),
        (json.dumps({"schema": '{"type":"record"}'}), "schema 5 cannot be used"),
        (json.dumps({"schema": "not base64", "schemaType": "PROTOBUF"}), "schema 5 cannot be used"),
    ],
)
def test_what_a_hostile_registry_answers_rejects_its_messages_alone(
    url: str, answer: bytes | str | None, why: str
) -> None:
    schema(7, RECORD)
    if answer is not None:
        Answers.schemas[5] = answer.encode() if isinstance(answer, str) else answer
    found = decode(url, framed(5, b"\2\2\2"), avro(7, ROW))
    assert found.positions.tolist() == [1]
    assert why in found.rejected[0].reason


def test_bytes_that_do_not_fit_are_rejected_alone(url: str) -> None:
    schema(7, RECORD)
    good = avro(7, ROW)
    bad = [None, b"", b"{}", b"\0\0", good[:-1], good + b"x", *(framed(7, wrong) for wrong in WRONG)]
    found = decode(url, good, *bad, good)
    assert found.positions.tolist() == [0, len(bad) + 1]
    assert all(isinstance(one, Rejection) and one.reason for one in found.rejected)
    assert (
        found.rejected[2].reason == "it does not begin with a zero and the number of its schema, as Confluent has it"
    )


def test_a_registry_that_does_not_answer_loses_no_record(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "PATIENCE", 0.2)
    schema(7, RECORD)
    Answers.status = 503
    with pytest.raises(UsageError, match=r"has not answered for .* \(503\); start it") as told:
        decode(url.replace("//", "//me:secret@"), avro(7, ROW))
    assert "secret" not in str(told.value)
    Answers.status = 401
    with pytest.raises(UsageError, match=r"refuses the log-in \(401\)"):
        decode(url, avro(7, ROW))
    with pytest.raises(UsageError, match="needs the address of the Schema Registry"):
        record_format("confluent", FieldMap())
