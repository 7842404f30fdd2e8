"""Every function that reads what others wrote: bytes in, a value out, or the one error that it declares.

A new one is a row of `DECODERS`, and a folder of good inputs, `corpus/NAME`, which `seeds.py` writes.
"""

import base64
import io
import json
import struct
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2

from fuzz.mutations import compact_again
from streamfl.bounds import Limits
from streamfl.errors import PeerError, UsageError
from streamfl.live.answering import Answering
from streamfl.live.http.infer import InferRequest, TooLargeError, answer, predicted
from streamfl.live.http.infer import RequestLimits as HttpLimits
from streamfl.live.members_file import MembersFile, read_members
from streamfl.live.settings.loading import load
from streamfl.protocol.events import Unusable
from streamfl.protocol.messages import Command, FromCoordinator
from streamfl.protocol.registry import Registry
from streamfl.records.files.csv_file import csv_stream
from streamfl.records.files.readers import blocks
from streamfl.records.formats import FieldMap, JsonRecords, LabelMap, Packed
from streamfl.records.formats.by_schema.confluent import Confluent
from streamfl.records.formats.by_schema.registry import NoSchemaError, Schema
from streamfl.records.request import Request
from streamfl.run.estimators.saved import SavedEstimator
from streamfl.run.model_file import ServedModel
from streamfl.runtime.log import commands, predictions, updates
from streamfl.runtime.log.control import ControlReader
from streamfl.runtime.log.dead_letters import WHOLE, DeadLetter
from streamfl.runtime.log.parts import PartAssembly
from streamfl.runtime.log.repartitioning.origin import origin
from streamfl.runtime.log.signatures import seal, unseal
from streamfl.runtime.ports import Decoded
from streamfl.wire import array_bytes, codec, compact, messages, state_bytes
from streamfl.wire import integers as whole_numbers
from streamfl.wire.primitives import Bytes, floats_read, floats_written, whole_read, whole_written
from streamfl.wire.signing import Listed, PrivateKey, Signer, Verifier

CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Decoder:
    """A function that reads what others wrote.

    Parameters
    ----------
    name
        That of its folder in `corpus`.
    read
        It returns a value within stated bounds, which it checks by `assert` where a caller relies on them.
    errors
        All that it may raise.
    again
        Writes a value; what was read, written and read again is written as the same bytes.
    is_text
        Whether inputs are text: mutations then replace words, too.
    most_memory
        The most bytes that reading takes, whatever the input: fixed ones, and so many for each byte of the input.
    share
        How many inputs it gets, beside the others: fewer if it is slow.
    """

    name: str
    read: Callable[[bytes], Any]
    errors: tuple[type[Exception], ...] = ()
    again: Callable[[Any], bytes] | None = None
    is_text: bool = False
    most_memory: tuple[int, int] = (2**20, 100)
    share: float = 1.0

    def corpus(self) -> list[bytes]:
        """Return the kept inputs, in the order of their names."""
        return [path.read_bytes() for path in sorted((CORPUS / self.name).iterdir())]


# --- the wire ----------------------------------------------------------------------------------------------------


def _read_whole_numbers(data: bytes) -> tuple[int, int, Any]:
    if len(data) < 2:
        raise PeerError("no shape")
    rows, columns = data[0] * 3, data[1] % 40
    m = whole_numbers.read(Bytes(data[2:]), rows, columns)
    assert m.shape == (rows, columns)
    return rows, columns, m


def _read_floats(data: bytes) -> list[float]:
    return floats_read(Bytes(data))


def _chunks(data: bytes) -> list[bytes]:
    """Return what a log holds: chunks, each after its length in two bytes."""
    found, at = [], 0
    while at + 2 <= len(data):
        (size,) = struct.unpack_from("<H", data, at)
        found.append(data[at + 2 : at + 2 + size])
        at += 2 + size
    return found


def chunked(chunks: Sequence[bytes]) -> bytes:
    """Return the input that `_chunks` reads."""
    return b"".join(struct.pack("<H", len(chunk)) + chunk for chunk in chunks)


def _of_a_log(data: bytes) -> list[tuple[str, tuple[tuple[str, bytes], ...], bytes]]:
    """Return messages of a log: name, headers and value."""
    parts = _chunks(data)
    return [
        (parts[i].decode(errors="replace"), (("part", parts[i + 1]), ("digest", parts[i + 2])), parts[i + 3])
        for i in range(0, len(parts) - 3, 4)
    ]


def _read_parts(data: bytes) -> list[bytes]:
    assembly = PartAssembly(4096, least=2, budget=8192, strangers=1024, allows=lambda name: name == "c0")
    found, wrong = [], None
    for name, headers, value in _of_a_log(data):
        try:
            whole = assembly.add(name, headers, value)
        except PeerError as error:
            wrong = error
            continue
        finally:
            assert assembly.held <= 8192 + 1024
        if whole is not None:
            assert len(whole) <= 4096
            found.append(whole)
    if wrong is not None and not found:
        raise wrong
    return found


def _read_control(data: bytes) -> list[FromCoordinator]:
    reader, found, wrong = ControlReader(most_bytes=2**16), [], None
    for name, headers, value in _of_a_log(data):
        try:
            message = reader.read(value, headers if name == "part" else ())
        except PeerError as error:
            wrong = error
            continue
        if message is not None:
            found.append(message)
    if wrong is not None and not found:
        raise wrong
    return found


def _read_update(data: bytes) -> Any:
    message = updates.understood(data)
    if isinstance(message, Unusable):
        raise PeerError(message.reason)
    return message


# --- records -----------------------------------------------------------------------------------------------------

LIMITS = Limits(features=40, labels=10)
JSON = {
    "open": FieldMap(label="kind", client="device", time="at"),
    "closed": FieldMap(
        label="kind", features=("x", "position.y"), labels=("a", "b"), categories={"c": ("red",)}, closed=True
    ),
    "regression": FieldMap(label="kind", task="regression", drop=("meta",)),
    "features apart": FieldMap(label="kind", key="id", task="unlabelled"),
}
BY_SCHEMA = FieldMap(label="kind", client="device", time="at", registry="http://r")
_FIELDS = [
    ("kind", "string"),
    ("device", ["null", "string"]),
    ("x", "double"),
    ("v", {"type": "array", "items": "int"}),
]
AVRO = json.dumps({"type": "record", "name": "A", "fields": [{"name": n, "type": t} for n, t in _FIELDS]})


def _protobuf() -> str:
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", syntax="proto3")
    kind = file.message_type.add(name="A")
    for number, (name, type_) in enumerate([("kind", 9), ("device", 9), ("x", 1)], start=1):
        kind.field.add(name=name, number=number, type=type_, label=1)
    return base64.b64encode(file.SerializeToString()).decode()


PROTOBUF = _protobuf()


def _checked(decoded: Decoded, messages_: int, most: int) -> Decoded:
    """Check what callers rely on: every record good or bad, finite or missing, within the limits on names."""
    n = len(decoded.positions)
    assert decoded.X.shape == (n, len(decoded.features))
    assert not np.isinf(decoded.X).any()
    assert len(decoded.features) <= LIMITS.features
    assert all(len(name.encode()) <= LIMITS.name_bytes for name in (*decoded.features, *decoded.labels))
    assert np.isfinite(decoded.y).all()
    assert not decoded.labels or (decoded.y < len(decoded.labels)).all()
    assert n + sum(bad.count for bad in decoded.rejected) == messages_ if most == 1 else n <= most * messages_
    assert all(len(bad.reason) <= 2000 for bad in decoded.rejected)
    return decoded


def _read_json(fields: FieldMap, data: bytes) -> Decoded:
    values = data.split(b"\n")[:50]
    return _checked(JsonRecords(fields, LIMITS).decode(range(len(values)), values), len(values), 1)


def _read_packed(task: Any, data: bytes) -> Decoded:
    return _checked(Packed(task, LIMITS).decode([3], [data]), 1, 65_536)


class KnownSchemas:
    """A registry of one schema of each kind; a number beyond them has the schema that the input brings."""

    def __init__(self, text: str = "") -> None:
        self.schemas = {7: Schema(AVRO), 8: Schema("{}", "JSON"), 9: Schema(PROTOBUF, "PROTOBUF"), 10: Schema(text)}

    def fetched(self, number: int, form: str = "") -> Schema:
        if number not in self.schemas:
            raise NoSchemaError(f"the registry has no schema {number}")
        return self.schemas[number]


def _read_confluent(data: bytes) -> Decoded:
    return _checked(Confluent(BY_SCHEMA, LIMITS, KnownSchemas()).decode([3], [data]), 1, 1)


def _read_schema(data: bytes) -> Decoded:
    """Read a message of a schema: the schema, a line's end, and the message."""
    text, _, message = data.partition(b"\n")
    values = [b"\0\0\0\0\x0a" + message]
    known = KnownSchemas(text.decode(errors="replace"))
    return _checked(Confluent(BY_SCHEMA, LIMITS, known).decode([3], values), 1, 1)


# --- files -------------------------------------------------------------------------------------------------------


@cache
def _folder() -> Path:
    root = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="fuzz-", dir=root if root.is_dir() else None))


def _file(ending: str, data: bytes) -> Path:
    path = _folder() / f"input{ending}"
    path.write_bytes(data)
    return path


def _read_records(ending: str, data: bytes) -> Any:
    with blocks(Request(str(_file(ending, data)), label="y")) as opened:
        return opened.table()


def _read_blocks(ending: str, data: bytes) -> int:
    with blocks(Request(str(_file(ending, data)), labelled=False)) as opened:
        return sum(block.records for block in opened.each)


def _read_csv(data: bytes) -> Any:
    return csv_stream(Request("standard input", label="y"), "standard input", io.BytesIO(data)).table()


def _read_model(data: bytes) -> ServedModel:
    model = ServedModel.load(_file(".safetensors", data))
    with np.errstate(over="ignore"):  # what is that far out is clipped
        P = model.predictions(model.registry.features, np.zeros((2, len(model.registry.features))))
    assert np.isfinite(P).all()
    return model


def _read_estimator(kind: str, data: bytes) -> Any:
    saved = SavedEstimator.load(_file(".streamfl", data), kind)
    saved.check(targets=kind == "MasterFLRegressor")
    return saved


def _read_settings(data: bytes) -> Any:
    return load(_file(".toml", data))


# --- answers -----------------------------------------------------------------------------------------------------

SERVED = ServedModel(
    "classification",
    "softmax",
    Registry(1, ("x", "y", "colour=blue", "colour=red"), ("no", "yes"), np.zeros(4), np.array([1.0, 1e-300, 1, 1])),
    np.array([[-1.0, 1.0], [1.0, 0.0], [0.0, 0.0], [-5.0, 5.0], [0.0, 0.0]]),
    categories={"colour": ("blue", "red")},
    label="kind",
)
NUMBERS = ServedModel(
    "classification",
    "softmax",
    Registry(1, ("x", "y"), ("no", "yes"), np.zeros(2), np.ones(2)),
    np.array([[-1.0, 1.0], [1.0, 0.0], [0.0, 0.0]]),
    label="kind",
)
HTTP = HttpLimits(most_bytes=2**16, most_records=100)

HOST = PrivateKey(bytes(range(32)))
HOSTS = Listed.of([HOST.public])
HOST_SIGNER = Signer(HOST, "client", "f")


def _read_http(data: bytes) -> bytes:
    """Read a request whose first bytes are the length of its JSON, 0 for no such header, and which of two models."""
    header, which = (int.from_bytes(data[:2], "little") or None), data[2:3] == b"n"
    model = NUMBERS if which else SERVED
    asked = InferRequest.of(data[3:], header, model, HTTP)
    assert 0 < asked.records <= HTTP.most_records
    body, _ = answer(asked, Answering(model, 7, 2, 41), "m", predicted(asked, model)[0])
    assert len(body) <= 2**18
    return body


def _read_prediction(data: bytes) -> Any:
    found = predictions.read(data)
    if found is None:
        raise PeerError("no answer")
    for targets in (True, False):
        predictions.is_usable(found, targets=targets)
    return found


def _read_dead_letter(data: bytes) -> DeadLetter:
    key, _, value = data.partition(b"\n")
    letter = DeadLetter.of("f.updates", 3, 2**40, data.decode(errors="replace"), key, value)
    assert letter.place == ("f.updates", 3, 2**40)
    assert letter.size <= WHOLE + 4096
    return letter


def _read_origin(data: bytes) -> tuple[str, int, int] | None:
    found = origin([("from", data)])
    assert found is None or (len(found[0]) <= 249 and found[1] < 10**10 and found[2] < 10**18)
    return found


def _read_command(data: bytes) -> Command:
    found = commands.understood(data, (), None)
    if isinstance(found, Unusable):
        assert len(found.reason) <= 500
        raise PeerError(found.reason)
    return found.command


def _read_signed(data: bytes) -> bytes:
    value, signer = unseal(Verifier(HOSTS, "client", "f"), updates.PLACE, data)
    assert signer == str(HOST.public)
    return value


def _read_members(data: bytes) -> MembersFile:
    return read_members(_file(".toml", data))


PEER, USAGE = (PeerError,), (UsageError,)

# A message may say in a few bytes that it has 2^25 zeros: docs/trust.md says why.
ARRAYS = (5 * 2**28, 400)


def _as_json(message: Any) -> bytes:
    """Return a message as JSON, which can spell whole numbers of any length."""
    return codec.encode(message, header={"type": messages.TYPES[type(message)]})


DECODERS = {
    decoder.name: decoder
    for decoder in (
        Decoder("message", messages.decode, PEER, _as_json, most_memory=ARRAYS),
        Decoder("update", _read_update, PEER, _as_json, most_memory=ARRAYS),
        Decoder("compact", compact.unpack, PEER, compact_again, most_memory=ARRAYS),
        Decoder("array", lambda data: array_bytes.read(Bytes(data), most=2**16), PEER, array_bytes.written),
        Decoder("whole-numbers", _read_whole_numbers, PEER),
        Decoder("floats", _read_floats, PEER, floats_written),
        Decoder("integers", lambda data: whole_read(Bytes(data)), PEER, whole_written),
        Decoder("state", state_bytes.decode, PEER, state_bytes.encode, most_memory=(2**26, 400), share=0.3),
        Decoder("parts", _read_parts, PEER),
        Decoder("control", _read_control, PEER, most_memory=(2**22, 400)),
        Decoder("dead-letter", _read_dead_letter),
        Decoder("origin", _read_origin),
        Decoder("command", _read_command, PEER, lambda read: commands.written(read, None)[0]),
        Decoder("signed", _read_signed, PEER, lambda value: seal(HOST_SIGNER, updates.PLACE, value)),
        Decoder("members", _read_members, USAGE, is_text=True, most_memory=(2**22, 400), share=0.3),
        *(
            Decoder(f"json-{name.replace(' ', '-')}", partial(_read_json, fields), is_text=True)
            for name, fields in JSON.items()
        ),
        Decoder("json-labels", partial(_read_json, LabelMap(label="kind", key="id")), is_text=True),
        Decoder("confluent", _read_confluent, most_memory=(2**22, 400)),
        Decoder("confluent-schema", _read_schema, is_text=True, most_memory=(2**22, 400), share=0.3),
        Decoder("packed", partial(_read_packed, "classification"), most_memory=(2**20, 400)),
        Decoder("packed-targets", partial(_read_packed, "regression"), most_memory=(2**20, 400)),
        Decoder("csv", _read_csv, USAGE, is_text=True, most_memory=(2**22, 400), share=0.3),
        Decoder("csv-gz", partial(_read_records, ".csv.gz"), USAGE, most_memory=(2**22, 400)),
        Decoder("csv-blocks", partial(_read_blocks, ".csv"), USAGE, is_text=True, most_memory=(2**22, 400)),
        Decoder("json-lines", partial(_read_records, ".jsonl"), USAGE, is_text=True, most_memory=(2**22, 400)),
        Decoder("npz", partial(_read_records, ".npz"), USAGE, most_memory=(2**22, 400)),
        Decoder("npz-blocks", partial(_read_blocks, ".npz"), USAGE, most_memory=(2**22, 400)),
        Decoder("parquet", partial(_read_records, ".parquet"), USAGE, most_memory=(2**22, 400), share=0.05),
        Decoder("model", _read_model, USAGE, most_memory=(2**22, 400)),
        Decoder(
            "estimator", partial(_read_estimator, "MasterFLRegressor"), USAGE, most_memory=(2**23, 400), share=0.3
        ),
        Decoder("settings", _read_settings, USAGE, is_text=True, most_memory=(2**22, 400), share=0.05),
        Decoder("http", _read_http, (PeerError, UsageError, TooLargeError), most_memory=(2**20, 400)),
        Decoder("prediction", _read_prediction, PEER, predictions.encoded, is_text=True),
    )
}
