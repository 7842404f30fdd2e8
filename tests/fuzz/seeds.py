"""Writes good inputs of every decoder: `python tests/fuzz/seeds.py`. What once broke something stays beside them."""

import gzip
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from mock_registry import avro, framed
from simulation.federation import federation
from simulation.late_labels import Disorder, late
from worlds.simulation import Simulation

from fuzz.decoders import AVRO, CORPUS, HOST_SIGNER, JSON, chunked
from streamfl.protocol.messages import (
    Command,
    Ended,
    FeatureMoved,
    FeatureStuck,
    Fenced,
    FromClient,
    FromCoordinator,
    InputsMoved,
    InputsStuck,
    Join,
    LocalDrift,
    MemberChanged,
    Noticed,
    Refusal,
    Roster,
    RoundClosed,
    RoundOpened,
    Scores,
    Unmask,
    Unmasked,
    Update,
)
from streamfl.records.formats import JsonRecords, Packed
from streamfl.run.settings import LearningSettings
from streamfl.runtime.log import commands, predictions, updates
from streamfl.runtime.log.control import written
from streamfl.runtime.log.parts import cut
from streamfl.runtime.log.repartitioning.origin import origin_header
from streamfl.runtime.log.signatures import seal
from streamfl.wire import array_bytes, messages
from streamfl.wire import integers as whole_numbers
from streamfl.wire.primitives import floats_written, whole_written
from streamfl.wire.signing import PrivateKey

TESTS = Path(__file__).parents[1]
SAVED = TESTS / "golden" / "saved"


def said(simulation: Simulation) -> list[FromClient | FromCoordinator]:
    """Return every message of a run."""
    found, watch = [], simulation.audit.watch

    def noting(now: float, node: str, message: FromClient | FromCoordinator) -> None:
        found.append(message)
        watch(now, node, message)

    simulation.audit.watch = noting
    simulation.run()
    return found


def all_said() -> Iterator[tuple[str, FromClient | FromCoordinator]]:
    """Yield the messages of runs of every kind, with the kind."""
    yield from (("rounds", m) for m in said(federation("adaptive")))
    yield from (("paper", m) for m in said(federation("paper")))
    yield from (("auto", m) for m in said(federation(learning=LearningSettings(features="auto"))))
    model = "river:preprocessing.StandardScaler|linear_model.SoftmaxRegression(optim.SGD(0.1))"
    yield from (("river", m) for m in said(federation(learning=LearningSettings(model=model))))
    yield from (("late", m) for m in said(late(Disorder((7,), missing=0.1), window=60)))
    yield from (("masked", m) for m in said(federation(secure_aggregation="masked")) if _is_of_masks(m))
    finding = {"round": 7, "epoch": 2, "statistic": 11.0, "threshold": 9.2, "since": 6, "labels": ("a",)}
    places = {"positions": {"p/0": (3, 9)}, "times": (0, 10**12), "known_since": 6, "drift": 7}
    yield "told", LocalDrift(**finding, **places, clients=("c0",), state="latched", behind=2)
    yield "told", InputsMoved(**finding, clients=("c0",), moved=(FeatureMoved("x", 1.0, 2.0, ("c0",), 1, 6, 11.0),))
    yield "told", InputsStuck(**finding, clients=("c0",), stuck=(FeatureStuck("x", "c0", 61.2, 6, 17.5),))
    yield "told", Noticed(**finding, cause="class-mix")
    yield "told", Ended(entry=9)
    yield "told", Refusal(client="c0", incarnation=1, entry=4, reason="a loss of NaN")
    yield "told", Fenced(client="c0", nonce="n", after=1, incarnation=2)
    yield "told", MemberChanged(action="evict", client="c0", number=3, by="ed25519:AAA=", entry=9)


def _is_of_masks(message: FromClient | FromCoordinator) -> bool:
    return isinstance(message, Join | RoundOpened | Update | Scores | Roster | Unmask | Unmasked)


def of_messages() -> dict[str, bytes]:
    """Return one message of each type and kind, the smallest and one from the middle."""
    by_kind: dict[str, list[bytes]] = {}
    for kind, message in all_said():
        by_kind.setdefault(f"{kind}-{messages.TYPES[type(message)]}", []).append(messages.encode(message))
    found = {}
    for name, all_ in by_kind.items():
        small = [data for data in all_ if len(data) < 12_000]
        for which, data in enumerate(
            [small[len(small) // 2], max(small, key=len)][: len(set(small))] if small else ()
        ):
            found[f"{name}-{which}"] = data
    return found


def of_logs() -> dict[str, dict[str, bytes]]:
    parts = [(b"c0", p) for p in cut(b"a value of forty-odd bytes in several parts", 10)]
    parts += [(b"c1", p) for p in cut(b"another one", 4)][::-1]
    values = {"two": chunked([x for key, p in parts for x in (key, p.headers[0][1], p.headers[1][1], p.value)])}
    entry = next(m for m in said(federation("paper")) if isinstance(m, RoundClosed))
    whole = [x for data, _ in written(entry) for x in (b"", b"", b"", data)]
    pieces = [x for data, _ in written(entry, most=len(messages.encode(entry)) - 40) for x in (b"", b"", b"", data)]
    in_parts = [
        x
        for data, headers in written(Ended(entry=7), most=9)
        for x in (b"part" if headers else b"", dict(headers)["part"], dict(headers)["digest"], data)
    ]
    return {
        "parts": values,
        "control": {"whole": chunked(whole), "pieces": chunked(pieces), "parts": chunked(in_parts)},
        "origin": {"place": origin_header("machines.readings", 7, 1204)[1]},
        "dead-letter": {"small": b"c0\njunk", "large": b"k" * 300 + b"\n" + b"x" * 70_000},
    }


# An array of three dimensions as 0.2.0 wrote it: slice by slice.
SLICES = bytes.fromhex(
    "0303140203020214031001056364c40400000000010c63606462666165632087020022021403000106e3e4241f0000"
)


def of_numbers() -> dict[str, dict[str, bytes]]:
    rng = np.random.default_rng(1)
    grid = np.rint(rng.normal(size=(9, 4)) * 3) * 0.25
    sparse = np.zeros((200, 100))
    sparse[[3, 7]] = 0.5
    arrays = {
        "plain": rng.normal(size=(3, 2)), "short": np.float64(np.float32(rng.normal(size=5))), "grid": grid,
        "symmetric": grid.T @ grid, "zero-sum": np.column_stack([grid, -grid.sum(axis=1)]),
        "whole": np.rint(grid * 90),
        "rising": np.arange(0.0, 60.0, 3.0), "three": rng.integers(-2, 3, (5, 4, 3)) * 0.5, "rows": sparse,
        "empty": np.zeros((0, 3)), "scalar": np.array(2.5), "infinite": np.array([np.nan, np.inf]),
    }  # fmt: skip
    tables = {
        "moves": np.eye(30, 5, dtype=np.int64) - np.eye(30, 5, 1, dtype=np.int64),
        "small": rng.integers(-2, 3, (30, 5)),
        "large": rng.integers(-(10**6), 10**6, (6, 3)),
        "order": rng.integers(0, 4, (30, 30)),
    }
    shaped = {
        name: bytes([len(m) // 3, m.shape[1]]) + whole_numbers.written(m[: len(m) // 3 * 3])
        for name, m in tables.items()
    }
    shaped["coded"] = bytes([10, 5]) + whole_numbers.coded(tables["small"], 1)
    written = {name: array_bytes.written(x) for name, x in arrays.items()} | {"slices": SLICES}
    written |= {f"coded-{name}": array_bytes.written(arrays[name], coded=True) for name in ("grid", "three", "rows")}
    return {"array": written, "whole-numbers": shaped}


def of_records() -> dict[str, dict[str, bytes]]:
    found: dict[str, dict[str, bytes]] = {}
    told = {"client": "d1", "time": 1.7e9, "key": "a17"}
    for name, fields in JSON.items():
        features = ("x", "position.y") if name == "closed" else ("x", "position.y", "größe")
        plain = [
            {"kind": "a", "device": "d1", "at": 1.7e9, "id": "a17", "x": 1, "position": {"y": 2.5}, "c": "red"},
            {"kind": 1.0, "device": 7, "at": "2026-11-25T00:00:00Z", "id": 3, "x": None, "position.y": "4"},
        ]
        written_ = JsonRecords(fields.model_copy(update={"task": "regression", "categories": {}}))
        one = written_.encode(features, [1.0, 0.1, 2.0][: len(features)], 2.0, *told.values())
        lines = [msgspec.json.encode(record) for record in plain]
        found[f"json-{name.replace(' ', '-')}"] = {"two": b"\n".join(lines), "one": one}
    found["json-labels"] = {"two": b'{"id":"a17","label":"x","kind":"fir"}\n{"id":9,"kind":2}'}
    X = np.array([[1.0, np.nan], [0.5, -2.0], [3.0, 1e30]])
    of_classes = Packed("classification").encode(("x", "größe"), X, np.array([0, 1, 0]), ("a", "b"))
    found["packed"] = {"three": of_classes}
    found["packed-targets"] = {"three": Packed("regression").encode(("x", "y"), X, np.array([0.5, 1.0, -2.0]), ())}
    return found


def of_schemas() -> dict[str, dict[str, bytes]]:
    row = {"kind": "a", "device": "d1", "x": 2.5, "v": [3, -1]}
    whole = avro(7, row, json.loads(AVRO))
    plain = json.dumps(row).encode()
    protobuf = b"\0\x0a\x01a\x12\x02d1\x19" + np.float64(2.5).tobytes()
    at = {"type": "long", "logicalType": "timestamp-millis"}
    kinds = ["null", "string", {"type": "enum", "name": "E", "symbols": ["a", "b"]}]
    fixed = {"type": "fixed", "name": "F", "size": 2}
    inner = {"type": "record", "name": "In", "fields": [{"name": "f", "type": fixed}]}
    fields = [("kind", kinds), ("device", "string"), ("at", at), ("in", inner), ("b", "boolean")]
    fields.append(("m", {"type": "map", "values": "float"}))
    plan = {"type": "record", "name": "B", "fields": [{"name": n, "type": t} for n, t in fields]}
    rich = {"kind": "b", "device": "d1", "at": 1_774_100_706_000, "in": {"f": b"ab"}, "m": {"x": 0.5}, "b": True}
    pairs = {"rich": (plan, rich), "plain": (json.loads(AVRO), row)}
    return {
        "confluent": {"avro": whole, "json": framed(8, plain), "protobuf": framed(9, protobuf)},
        "confluent-schema": {
            name: json.dumps(schema).encode() + b"\n" + avro(0, one, schema)[5:]
            for name, (schema, one) in pairs.items()
        },
    }


def of_files() -> dict[str, dict[str, bytes]]:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(12, 2)), rng.integers(0, 2, 12)
    rows = [f"{a:.3f},{b:.3f},{'ny'[c]}" for (a, b), c in zip(X, y, strict=True)]
    csv = "\n".join(["width,height,y", *rows]).encode() + b"\n"
    quoted = b'"a ""b""",t,y\n1,"red, blue",x\n2,,"y"\n,"green\nline",x\n'
    large = b"width,y\n" + b"".join(b"%d.25,%d\n" % (i, i % 3) for i in range(200))
    lines = b"".join(
        b'{"width":%d,"inner":{"h":%s},"y":"%d"}\n' % (i, b"null" if i % 3 else b"0.5", i % 2) for i in range(9)
    )
    npz, plain = io.BytesIO(), io.BytesIO()
    np.savez_compressed(npz, X=X, y=y, features=np.array(["width", "height"]))
    np.savez(plain, X=np.asfortranarray(X), y=np.array(["a", "b"])[y])
    parquet = io.BytesIO()
    pl.DataFrame({"width": X[:, 0], "name": ["a", None, "b"] * 4, "y": y}).write_parquet(parquet, compression="zstd")
    archives = {"compressed": npz.getvalue(), "plain": plain.getvalue()}
    return {
        "csv": {"plain": csv, "quoted": quoted, "large": large},
        "csv-gz": {"plain": gzip.compress(csv, mtime=0)},
        "csv-blocks": {"plain": csv, "quoted": quoted},
        "json-lines": {"lines": lines},
        "npz": archives,
        "npz-blocks": archives,
        "parquet": {"plain": parquet.getvalue()},
    }


def of_saved() -> dict[str, dict[str, bytes]]:
    def kept(pattern: str) -> dict[str, bytes]:
        return {path.name.split(".")[0]: gzip.decompress(path.read_bytes()) for path in sorted(SAVED.glob(pattern))}

    toml = (TESTS.parent / "deploy" / "federation.toml").read_bytes()
    of_records = b'[records]\ntopics = ["f.*"]\n[kafka]\nbootstrap_servers = "h:9"\n'
    short = b'[federation]\nname = "f"\nmin_clients = 3\n' + of_records
    regressor = {"regressor": gzip.decompress((SAVED / "estimator-regressor.streamfl.gz").read_bytes())}
    return {
        "state": {name: data for name, data in kept("state-*").items() if len(data) < 60_000},
        "model": kept("model-*"),
        "estimator": regressor,
        "settings": {"deployed": toml, "short": short},
    }


def of_members() -> dict[str, dict[str, bytes]]:
    orders = [Command(action="evict", client="c0", number=1), Command(action="admit", client="größe", number=2**40)]
    keys = [str(PrivateKey(bytes([i]) * 32).public) for i in range(3)]
    listed = f"""[coordinator]
key = "{keys[0]}"
[groups.north]
clients = ["plant-7.*"]
[[operators]]
name = "anna"
key = "{keys[1]}"
[[hosts]]
name = "plant-7"
key = "{keys[2]}"
clients = ["lab"]
groups = ["north"]
"""
    return {
        "command": {one.action: commands.written(one, None)[0] for one in orders},
        "signed": {
            "some": seal(HOST_SIGNER, updates.PLACE, b"data"),
            "none": seal(HOST_SIGNER, updates.PLACE, b""),
        },
        "members": {"all": listed.encode()},
    }


def of_answers() -> dict[str, dict[str, bytes]]:
    def request(body: object, rest: bytes = b"", model: bytes = b"s") -> bytes:
        text = msgspec.json.encode(body)
        return (len(text) if rest else 0).to_bytes(2, "little") + model + text + rest

    x = {"name": "x", "shape": [2], "datatype": "FP64", "data": [1.0, None]}
    others = [{"name": "y", "shape": [2, 1], "datatype": "FP32", "data": [[1.5], [2]]}]
    texts = [{"name": "colour", "shape": [2], "datatype": "BYTES", "data": ["red", None]}]
    binary = {"name": "features", "shape": [3, 2], "datatype": "FP64", "parameters": {"binary_data_size": 48}}
    word = {"name": "colour", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": 7}}
    one = [{"name": n, "shape": [1], "datatype": "INT8", "data": [1]} for n in ("x", "y")]
    asked = {"id": "7", "outputs": [{"name": "probabilities", "parameters": {"binary_data": True}}]}
    requests = {
        "columns": request({"inputs": [x, *others, *texts], **asked}),
        "missing": request({"inputs": [x], "parameters": {"missing": "mean", "client": "c0"}}),
        "matrix": request({"inputs": [binary]}, np.arange(6.0).tobytes(), b"n"),
        "text": request({"inputs": [*one, word]}, b"\x03\0\0\0red"),
    }
    answers = {
        "label": predictions.Prediction("a", "yes", 7, 2, 6, "t", 0, 31, 2, {"yes": 0.75, "no": 0.25}),
        "target": predictions.Prediction(None, 2.5, 7, 2, 6, "t", 0, 31, client="c0", known=2.0),
    }
    return {"http": requests, "prediction": {name: predictions.encoded(one) for name, one in answers.items()}}


def main() -> None:
    found = of_messages()
    by_client = {n: d for n, d in found.items() if isinstance(messages.decode(d), FromClient)}
    compact_ = {n: d for n, d in found.items() if d.startswith(b"sfl")}
    everything = {
        "message": found, "update": by_client, "compact": dict(list(compact_.items())[::4]), **of_logs(),
        **of_numbers(), **of_records(), **of_schemas(), **of_files(), **of_saved(), **of_members(),
        **of_answers(),
        "floats": {"some": floats_written([0.5, 0.1, 2.0, -1e300])},
        "integers": {"some": whole_written([3, -1, 200, 2**63, -(2**69)])},
    }  # fmt: skip
    for decoder, inputs in everything.items():
        folder = CORPUS / decoder
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in inputs.items():
            (folder / f"{name}.bin").write_bytes(data)


if __name__ == "__main__":
    main()
