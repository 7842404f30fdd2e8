"""The V2 inference protocol: health, metadata, answers, and what is refused, with models that are known by heart."""

import asyncio
import json
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from asgi import Reply, asked, call

from streamfl.errors import UsageError
from streamfl.live.answering import Answering
from streamfl.live.http import serving as http
from streamfl.live.http.app import Counts, app
from streamfl.live.http.infer import RequestLimits
from streamfl.live.http.serving import _listening, serving
from streamfl.protocol.registry import Registry, TargetUnit
from streamfl.records.past_features import PastFeatures
from streamfl.records.values.time_features import TimeFeatures
from streamfl.records.values.times import Notation
from streamfl.run.model_file import ServedModel

# Predicts "yes" with odds e^(2 (a - b)).
TWO = ServedModel(
    "classification",
    "softmax",
    Registry(1, ("a", "b"), ("no", "yes"), np.zeros(2), np.ones(2)),
    np.array([[-1.0, 1.0], [1.0, -1.0], [0.0, 0.0]]),
    branches={"upside-down": np.array([[1.0, -1.0], [-1.0, 1.0], [0.0, 0.0]])},
    label="kind",
)
# Predicts "yes" where x > 0; being red is worth 10.
COLOURED = ServedModel(
    "classification",
    "softmax",
    Registry(1, ("x", "colour=blue", "colour=red"), ("no", "yes"), np.zeros(3), np.ones(3)),
    np.array([[-1.0, 1.0], [0.0, 0.0], [-5.0, 5.0], [0.0, 0.0]]),
    categories={"colour": ("blue", "red")},
)
# Predicts 2 x + 1.
TARGETS = ServedModel(
    "regression",
    "squared",
    Registry(1, ("x",), (), np.zeros(1), np.ones(1), TargetUnit(1.0, 2.0)),
    np.array([[1.0], [0.0]]),
)
SMALL = RequestLimits(most_bytes=2000, most_records=20, at_once=2, seconds=0.05)
INFER = "/v2/models/m/infer"
VERSIONS = ("", "/versions/7", "/versions/candidate")


def answers(model: ServedModel, **options: Any) -> Any:
    return app("m", lambda: Answering(model, 7, 2, 41), **options)


def infer(model: ServedModel, *inputs: dict[str, Any], limits: RequestLimits = SMALL, **request: Any) -> Reply:
    return call(answers(model, limits=limits), "POST", INFER, json.dumps({"inputs": inputs, **request}).encode())


def column(name: str, data: Any, datatype: str = "FP64", shape: Any = None, **others: Any) -> dict[str, Any]:
    return {
        "name": name,
        "datatype": datatype,
        "shape": [len(data)] if shape is None else shape,
        "data": data,
        **others,
    }


A = column("a", [2.0, -2.0])
B = column("b", [1.0, 1.0])


def outputs(reply: Reply) -> dict[str, Any]:
    assert reply.status == 200, reply.body
    return {output["name"]: output["data"] for output in reply.json["outputs"]}


def test_health_metadata_and_answers_of_a_model():
    served = answers(replace(TWO, branches={}))
    assert call(served, "GET", "/v2").json["extensions"] == ["binary_tensor_data"]
    assert call(served, "GET", "/v2/health/live").json == {"live": True}
    assert call(served, "GET", "/v2/health/ready").json == {"ready": True}
    for of_model in ("/v2/models/m", "/v2/models/m/versions/7"):
        assert call(served, "GET", f"{of_model}/ready").json == {"name": "m", "ready": True}
        assert call(served, "GET", of_model).json == {
            "name": "m",
            "versions": ["7"],
            "platform": "streamfl",
            "inputs": [
                {"name": "a", "datatype": "FP64", "shape": [-1]},
                {"name": "b", "datatype": "FP64", "shape": [-1]},
            ],
            "outputs": [
                {"name": "prediction", "datatype": "BYTES", "shape": [-1]},
                {
                    "name": "probabilities",
                    "datatype": "FP64",
                    "shape": [-1, 2],
                    "parameters": {"labels": ["no", "yes"]},
                },
            ],
            "parameters": {"epoch": 2, "entry": 41, "matrix": "features"},
        }
        body = json.dumps({"id": "q1", "inputs": [A, B]}).encode()
        odds = np.exp([2.0, -6.0])
        reply = call(served, "POST", f"{of_model}/infer", body).json
        assert (reply["model_name"], reply["model_version"], reply["id"]) == ("m", "7", "q1")
        assert reply["parameters"] == {"epoch": 2, "entry": 41}
        labels, shares = reply["outputs"]
        assert labels == {"name": "prediction", "datatype": "BYTES", "shape": [2], "data": ["yes", "no"]}
        assert (shares["datatype"], shares["shape"]) == ("FP64", [2, 2])
        np.testing.assert_allclose(shares["data"][1::2], odds / (1.0 + odds))


def test_a_model_with_features_of_the_time_takes_the_time():
    features = TimeFeatures(("hour",), "at", Notation("Europe/Berlin"))
    registry = Registry(1, ("a", *features.names), ("no", "yes"), np.zeros(3), np.ones(3))
    W = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, -1.0], [0.0, 0.0]])  # yes at noon
    model = ServedModel("classification", "softmax", registry, W, time_features=features)
    told = call(answers(model), "GET", "/v2/models/m").json
    assert [(one["name"], one["datatype"]) for one in told["inputs"]] == [("a", "FP64"), ("at", "BYTES")]
    assert "matrix" not in told["parameters"]
    texts = column("at", ["2026-07-01 23:00", "2026-07-01T10:00Z"], "BYTES")
    assert outputs(infer(model, A, texts))["prediction"] == ["no", "yes"]
    assert outputs(infer(model, A, column("at", [1_782_939_600, 1_782_900_000])))["prediction"] == ["no", "yes"]
    assert "warning" not in infer(model, A, texts).json["parameters"]
    unread = infer(model, A, column("at", ["2026-07-01 23:00", "noon"], "BYTES")).json["parameters"]["warning"]
    assert unread.startswith(
        'input "at": 1 of 2 cells cannot be read and count as missing; the first one, of record 1'
    )


def test_a_request_brings_the_lags_of_a_record_as_columns():
    past = PastFeatures((1,))
    registry = Registry(1, ("a", *past.names(("a",))), ("no", "yes"), np.zeros(2), np.ones(2))
    W = np.array([[0.0, 0.0], [-1.0, 1.0], [0.0, 0.0]])  # yes if it was above 0
    model = ServedModel("classification", "softmax", registry, W, past=past)
    assert [one["name"] for one in call(answers(model), "GET", "/v2/models/m").json["inputs"]] == ["a", "a[-1]"]
    assert outputs(infer(model, A, column("a[-1]", [3.0, -3.0])))["prediction"] == ["yes", "no"]
    assert "a[-1] of the model's features are missing; add them" in infer(model, A).error


def test_the_model_may_change_between_two_requests_and_old_versions_are_gone():
    now = [None, Answering(TWO, 7, 2, 41), Answering(replace(TWO, weights=-TWO.weights), 8, 2, 42)]
    served = app("m", lambda: now[0])
    body = json.dumps({"inputs": [A, B]}).encode()
    assert call(served, "GET", "/v2/health/live").status == 200
    for method, path in (("GET", "/v2/health/ready"), ("GET", "/v2/models/m/ready"), ("POST", INFER)):
        none = call(served, method, path, body if method == "POST" else b"")
        assert (none.status, none.error) == (503, "there is no model yet")
    now.pop(0)
    assert outputs(call(served, "POST", INFER, body))["prediction"] == ["yes", "no"]
    now.pop(0)
    reply = call(served, "POST", INFER, body)
    assert (outputs(reply)["prediction"], reply.json["model_version"]) == (["no", "yes"], "8")
    for place in ("/ready", "/infer", ""):
        old = call(served, "POST" if place == "/infer" else "GET", f"/v2/models/m/versions/7{place}", body)
        assert (old.status, old.error) == (404, 'version "7" is not available; the current one is 8')


def test_a_model_that_lags_behind_is_not_ready_and_still_answers():
    served = answers(TWO, ready=lambda: "12 rounds behind")
    for path in ("/v2/health/ready", "/v2/models/m/ready"):
        assert (call(served, "GET", path).status, call(served, "GET", path).error) == (503, "12 rounds behind")
    assert call(served, "GET", "/v2/models/m").status == 200
    assert call(served, "POST", INFER, json.dumps({"inputs": [A, B]}).encode()).status == 200
    told = call(answers(TWO, ready=lambda: "two\n lines " + "x" * 1000), "GET", "/v2/health/ready").error
    assert told.startswith("two lines xx")
    assert len(told) == 500


@pytest.mark.parametrize("datatype", ["INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64"])
def test_every_datatype_of_numbers_and_both_shapes_are_read(datatype):
    columns = (column(t["name"], [int(v) for v in t["data"]], datatype) for t in (A, B))
    assert outputs(infer(TWO, *columns))["prediction"] == ["yes", "no"]
    nested = (column(t["name"], [[int(v)] for v in t["data"]], datatype, [2, 1]) for t in (A, B))
    assert outputs(infer(TWO, *nested))["prediction"] == ["yes", "no"]


@pytest.mark.parametrize("datatype", ["UINT8", "UINT16", "UINT32", "UINT64", "BOOL"])
def test_whole_numbers_without_a_sign_and_truth_values_are_read(datatype):
    kind = bool if datatype == "BOOL" else int
    columns = (column("a", [kind(1), kind(0)], datatype), column("b", [kind(0), kind(1)], datatype))
    assert outputs(infer(TWO, *columns))["prediction"] == ["yes", "no"]


@pytest.mark.parametrize("data", [[2.0, 1.0, -2.0, 1.0], [[2.0, 1.0], [-2.0, 1.0]]], ids=["flat", "nested"])
def test_one_tensor_holds_all_columns_in_the_order_of_the_inputs(data):
    assert outputs(infer(TWO, column("features", data, shape=[2, 2])))["prediction"] == ["yes", "no"]
    assert "[2, 3], but it must be [n, 2]" in infer(TWO, column("features", [0.0] * 6, shape=[2, 3])).error
    assert "send no other input with it" in infer(TWO, A, column("features", data, shape=[2, 2])).error


def test_texts_are_read_and_have_no_place_in_a_matrix():
    x, colour = column("x", [-1.0, -1.0, 1.0]), column("colour", ["red", "blue", None], "BYTES")
    assert outputs(infer(COLOURED, x, colour))["prediction"] == ["yes", "no", "yes"]
    nested = column("colour", [["red"], ["pink"], [""]], "BYTES", [3, 1])
    assert outputs(infer(COLOURED, x, nested))["prediction"] == ["yes", "no", "yes"]
    values = column("colour=red", [1, 0, 0], "UINT8"), column("colour=blue", [0, 1, 0], "UINT8")
    assert outputs(infer(COLOURED, x, *values))["prediction"] == ["yes", "no", "yes"]
    assert "send one of them" in infer(COLOURED, x, colour, *values).error
    assert 'does not know "features"' in infer(COLOURED, column("features", [1.0] * 2, shape=[1, 2])).error
    assert "matrix" not in call(answers(COLOURED), "GET", "/v2/models/m").json["parameters"]


def test_targets_are_fp64_and_have_no_probabilities():
    reply = infer(TARGETS, column("x", [1.0, 3.0, None]))
    assert reply.json["outputs"] == [
        {"name": "prediction", "datatype": "FP64", "shape": [3], "data": [3.0, 7.0, 1.0]}
    ]
    assert "there is prediction" in infer(TARGETS, column("x", [1.0]), outputs=[{"name": "probabilities"}]).error


def test_a_reply_has_only_the_outputs_that_are_asked_for():
    asked_for = [{"name": "probabilities"}, {"name": "prediction"}]
    assert list(outputs(infer(TWO, A, B, outputs=asked_for))) == ["probabilities", "prediction"]
    assert list(outputs(infer(TWO, A, B, outputs=asked_for[1:]))) == ["prediction"]
    assert "asked for twice" in infer(TWO, A, B, outputs=[asked_for[0]] * 2).error
    for other in ({"classification": 2}, {"shared_memory_region": "r"}):
        assert "not supported" in infer(TWO, A, B, outputs=[{"name": "prediction", "parameters": other}]).error


def test_an_input_that_is_missing_is_refused_unless_it_is_to_be_the_mean():
    assert infer(TWO, A).error.startswith("b of the model's features are missing; add them, or")
    assert outputs(infer(TWO, A, parameters={"missing": "mean"}))["prediction"] == ["yes", "no"]
    assert infer(TWO, column("kind", ["?"], "BYTES"), parameters={"missing": "mean"}).status == 400


def test_the_label_is_ignored_and_a_client_with_its_own_model_is_answered_by_it():
    assert outputs(infer(TWO, A, B, column("kind", ["no", "no"], "BYTES")))["prediction"] == ["yes", "no"]
    told = infer(TWO, A, B, parameters={"client": "upside-down"})
    assert outputs(told)["prediction"] == ["no", "yes"]
    assert outputs(infer(TWO, A, B, parameters={"client": "another"}))["prediction"] == ["yes", "no"]
    named = infer(replace(TWO, client_column="site"), A, B, column("site", ["upside-down", "another"], "BYTES"))
    assert outputs(named)["prediction"] == ["no", "no"]


def test_a_candidate_answers_under_its_name_and_is_compared_where_no_version_is_asked_for():
    counts, candidate = Counts(), Answering(replace(TWO, weights=-TWO.weights), 3, 1, 9, "candidate")
    served = answers(TWO, candidate=lambda: candidate, counts=counts)
    body = json.dumps({"inputs": [A, column("b", [1.0, -2.0])]}).encode()
    told = {version: call(served, "POST", INFER.replace("/infer", f"{version}/infer"), body) for version in VERSIONS}
    assert {
        version: (reply.json["model_version"], outputs(reply)["prediction"]) for version, reply in told.items()
    } == {
        "": ("7", ["yes", "no"]),
        "/versions/7": ("7", ["yes", "no"]),
        "/versions/candidate": ("candidate", ["no", "no"]),
    }
    metadata = call(served, "GET", "/v2/models/m/versions/candidate").json
    assert metadata["versions"] == call(served, "GET", "/v2/models/m").json["versions"] == ["7", "candidate"]
    assert (metadata["parameters"]["compared_records"], metadata["parameters"]["compared_equal"]) == (2, 1)
    assert counts.figures["compared_records"] == 2


def test_a_candidate_that_cannot_answer_a_request_spoils_no_answer():
    counts = Counts()
    served = answers(TWO, candidate=lambda: Answering(COLOURED, 3, 1, 9, "candidate"), counts=counts)
    assert outputs(call(served, "POST", INFER, json.dumps({"inputs": [A, B]}).encode()))["prediction"] == [
        "yes",
        "no",
    ]
    assert counts.figures["compared_failed"] == 1


@pytest.mark.parametrize(
    ("model", "candidate", "inputs"),
    [
        (TARGETS, replace(TWO, registry=replace(TWO.registry, features=("x", "b"))), column("x", [1.0])),
        (TWO, replace(TARGETS, registry=replace(TARGETS.registry, features=("a",))), A),
        (COLOURED, replace(TWO, registry=replace(TWO.registry, features=("x", "colour"))), column("x", [1.0])),
        (TWO, replace(TWO, weights=TWO.weights[:2]), A),
    ],
    ids=["labels of targets", "targets of labels", "numbers of texts", "damaged"],
)
def test_a_candidate_of_any_kind_spoils_no_answer(model: ServedModel, candidate: ServedModel, inputs: dict[str, Any]):
    counts = Counts()
    served = answers(model, candidate=lambda: Answering(candidate, 3, 1, 9, "candidate"), counts=counts)
    others = [column("colour", ["red"], "BYTES")] if model is COLOURED else []
    asked = {"inputs": [inputs, *others], "parameters": {"missing": "mean"}}
    assert call(served, "POST", INFER, json.dumps(asked).encode()).status == 200
    assert (counts.compared.failed, counts.compared.records) == (1, 0)


def test_a_candidate_reads_a_matrix_in_the_order_of_the_model_that_answers():
    turned = replace(
        TWO, registry=replace(TWO.registry, features=("b", "a")), weights=TWO.weights[[1, 0, 2]], branches={}
    )
    counts, matrix = Counts(), column("features", [2.0, 1.0, -2.0, 1.0], shape=[2, 2])
    served = answers(TWO, candidate=lambda: Answering(turned, 3, 1, 9, "candidate"), counts=counts)
    assert call(served, "POST", INFER, json.dumps({"inputs": [matrix]}).encode()).status == 200
    assert (counts.compared.records, counts.compared.equal) == (2, 2)


def test_a_new_candidate_is_counted_from_the_start():
    models = [replace(TWO, weights=-TWO.weights), replace(TWO)]
    candidates = [Answering(model, 3, 1, 9, "candidate") for model in models]
    served = answers(TWO, candidate=lambda: candidates[0])

    def compared() -> tuple[int, int]:
        told = call(served, "GET", "/v2/models/m/versions/candidate").json["parameters"]
        return told["compared_records"], told["compared_equal"]

    body = json.dumps({"inputs": [A, B]}).encode()
    call(served, "POST", INFER, body)
    assert compared() == (2, 0)
    candidates.pop(0)
    assert compared() == (0, 0)
    call(served, "POST", INFER, body)
    assert compared() == (2, 2)


def test_targets_of_a_candidate_are_compared_by_their_difference():
    counts, other = Counts(), replace(TARGETS, weights=-TARGETS.weights)
    served = answers(TARGETS, candidate=lambda: Answering(other, 3, 1, 9, "candidate"), counts=counts)
    call(served, "POST", INFER, json.dumps({"inputs": [column("x", [1.0, 2.0])]}).encode())
    assert counts.figures["compared_difference"] == 4.0 + 8.0


def test_an_answer_warns_where_a_client_may_be_misspelt_or_is_not_named():
    counts, sites = Counts(), column("site", ["upside-down", "anoter"], "BYTES")
    unsure = replace(TWO, client_column="site")
    sure = replace(unsure, clients=("upside-down", "another"))

    def warning(model: ServedModel, *inputs: Any, **parameters: str) -> str:
        body = json.dumps({"inputs": [A, B, *inputs], "parameters": parameters}).encode()
        reply = call(answers(model, limits=SMALL, counts=counts), "POST", INFER, body)
        return reply.json["parameters"].get("warning", "") if reply.status == 200 else f"refused: {reply.error}"

    assert "whether a client is called anoter" in warning(unsure, client="anoter")
    assert "whether a client is called anoter, which column 'site' names" in warning(unsure, sites)
    assert "the run had no client called anoter, which column 'site' names" in warning(sure, sites)
    assert "there is no way to tell which records belong to upside-down" in warning(sure)
    assert counts.figures == {"requests": 4, "records": 8, "warned": 4, "refused": {}}
    assert 'refused: the run had no client called "anoter"' in warning(sure, client="anoter")
    for client in ("upside-down", "another", ""):
        assert warning(sure, client=client) == ""
    assert warning(replace(unsure, branches={}), client="anoter") == ""


def binary(
    inputs: list[dict[str, Any]], data: bytes, model: ServedModel = TWO, told: int | str | None = None, **request: Any
) -> Reply:
    head = json.dumps({"inputs": inputs, **request}).encode()
    header = {"Inference-Header-Content-Length": str(len(head) if told is None else told)}
    return call(answers(model, limits=SMALL), "POST", INFER, head + data, header)


def sized(name: str, size: int, datatype: str = "FP64", shape: Any = (2,)) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": list(shape), "parameters": {"binary_data_size": size}}


def test_bytes_after_the_json_are_read_and_written_beside_tensors_in_it():
    data = np.array([1.0, np.nan]).tobytes()
    reply = binary(
        [A, sized("b", 16)], data, outputs=[{"name": "prediction"}], parameters={"binary_data_output": True}
    )
    length = int(reply.headers["inference-header-content-length"])
    (told,) = json.loads(reply.body[:length])["outputs"]
    assert told == {"name": "prediction", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": 13}}
    assert reply.body[length:] == b"\x03\0\0\0yes\x02\0\0\0no"
    asked_for = [{"name": "probabilities", "parameters": {"binary_data": True}}, {"name": "prediction"}]
    reply = binary([A, sized("b", 16)], data, outputs=asked_for)
    length = int(reply.headers["inference-header-content-length"])
    assert json.loads(reply.body[:length])["outputs"][1]["data"] == ["yes", "no"]
    shares = np.frombuffer(reply.body[length:]).reshape(2, 2)
    np.testing.assert_array_equal(shares, TWO.predict_proba([[2.0, 1.0], [-2.0, np.nan]], ("a", "b"), client=""))
    texts = struct.pack("<I3sI", 3, b"red", 0)
    reply = binary([column("x", [-1.0, 1.0]), sized("colour", len(texts), "BYTES")], texts, COLOURED)
    assert outputs(reply)["prediction"] == ["yes", "yes"]


@pytest.mark.parametrize(
    ("inputs", "data", "told", "reason"),
    [
        ([A, sized("b", 8)], bytes(8), None, "8 bytes, but shape [2] of FP64 needs 16"),
        ([A, sized("b", 16)], bytes(8), None, "it names 16 bytes, but only 8 follow"),
        ([A, sized("b", 2**61)], bytes(8), None, "bytes, but only 8 follow"),
        ([A, sized("b", -16)], bytes(16), None, "Expected `int` >= 0"),
        ([A, sized("b", 16)], bytes(17), None, "name 16 bytes after the JSON, but there are 17"),
        ([A, B], b"rest", None, "name 0 bytes after the JSON, but there are 4"),
        ([A, sized("b", 2, "BOOL")], b"\x01\x02", None, "neither 0 nor 1"),
        ([A, {**sized("b", 16), "data": [1, 2]}], bytes(16), None, "either data, or bytes"),
        ([A, {**B, "data": None} | {"parameters": {"shared_memory_region": "r"}}], b"", None, "shared memory"),
        ([A, B], b"", "-1", "which is not a number of bytes"),
        ([A, B], b"", "1e3", "which is not a number of bytes"),
        ([A, B], b"", "²", "which is not a number of bytes"),
        ([A, B], b"", "9" * 20, "which is not a number of bytes"),
        ([A, B], b"", 10**9, "but the body has only"),
        ([A, B], b"", 5, "no request for inference"),
        ([A, B], b"", 0, "no request for inference"),
    ],
)
def test_a_request_with_impossible_tensor_bytes_is_refused(inputs, data, told, reason):
    reply = binary(inputs, data, told=told)
    assert reply.status == 400
    assert reason in reply.error


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack("<I", 2**32 - 1), "text 0 has 4294967295 bytes, but only 0 are there"),
        (struct.pack("<I1sI", 1, b"\xff", 0), "text 0 is not in UTF-8"),
        (b"\0\0\0\0\0\0", "not exactly 2 texts"),
        (bytes(4), "not exactly 2 texts"),
        (bytes(12), "not exactly 2 texts"),
    ],
)
def test_texts_that_lie_about_their_lengths_are_refused(data, reason):
    reply = binary([column("x", [1.0, 1.0]), sized("colour", len(data), "BYTES")], data, COLOURED)
    assert reply.status == 400
    assert reason in reply.error


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ([], "no inputs"),
        ([A, column("c\n", [1.0, 1.0])], 'does not know "c\\n"; it knows a, b'),
        ([A, B, A], 'the input "a" is there twice'),
        ([A, column("b", [1.0])], "have 2 and 1 records"),
        ([A, column("b", [1.0], shape=[2])], "1 elements, but shape [2] needs 2"),
        ([A, column("b", [], shape=[2])], "1 elements, but shape [2] needs 2"),
        ([A, column("b", [[1.0, 1.0], []], shape=[2, 1])], "3 elements, but"),
        ([A, column("b", [[], []], shape=[2, 1])], "rows do not have the lengths"),
        ([column("a", [[]], "BOOL", shape=[1]), column("b", [1.0])], "rows do not have the lengths"),
        ([A, column("b", [[1.0], 1.0], shape=[2, 1])], "2 elements, but shape [2, 1] needs 2"),
        ([A, column("b", [[[1.0]], [[1.0]]], shape=[2, 1])], "elements, but shape"),
        ([A, column("b", [1.0, 1.0], shape=[-2])], "Expected `int` >= 0"),
        ([A, column("b", [1.0, 1.0], shape=[2**63])], "Expected `int` <= 4611"),
        ([A, column("b", [1.0, 1.0], shape=[2.0])], "Expected `int`, got `float`"),
        ([A, column("b", [1.0, 1.0], shape=[2, 2**61])], "but it must be [n] or [n, 1]"),
        ([A, column("b", [1.0, 1.0], shape=[2, 1, 1, 1])], "shape [2, 1, 1].., but"),
        ([A, column("b", [1.0, 1.0], shape=[])], "shape [], but"),
        ([column("a", [], shape=[0])], "there are no records"),
        ([A, column("b", [1.0, 1.0], "FP8")], 'there is no such datatype: "FP8"'),
        ([A, column("b", ["1", "1"], "BYTES")], "it holds numbers: send them as FP64, not as BYTES"),
        ([A, column("b", ["1", "1"])], "Expected `float | null`, got `str`"),
        ([A, column("b", [0.5, 1.0], "INT32")], "Expected `int | null`, got `float`"),
        ([A, column("b", [1, 1], "BOOL")], "Expected `bool | null`, got `int`"),
        ([A, column("b", [128, 1], "INT8")], "a number is out of the range of INT8"),
        ([A, column("b", [-1, 1], "UINT64")], "a number is out of the range of UINT64"),
        ([A, column("b", [10**400, 1], "INT64")], "a number is out of the range of INT64"),
        ([A, column("b", [float("nan"), 1.0])], "no request for inference: JSON is malformed"),
        ([A, column("b", {"x": 1}, shape=[1])], "elements, but"),
        ([A, {"name": "b", "datatype": "FP64", "shape": [2]}], "either data, or bytes"),
        ([A, {**B, "parameters": []}], "Expected `object`, got `array`"),
        ([A, 5], "Expected `object`, got `int`"),
    ],
)
def test_a_request_with_impossible_tensors_is_refused(inputs, reason):
    reply = infer(TWO, *inputs)
    assert reply.status == 400
    assert reason in reply.error


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "no request for inference"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"inputs": ' + b"[" * 1500, "no request for inference"),
        (b'{"x": ' + b"[" * 1900, "nested too deeply"),
        (b'{"inputs": [{"name": "\xff"}]}', "no request for inference"),
        (
            b'{"inputs": [{"name": "kind", "shape": [1], "datatype": "BYTES", "data": ["\xff"]}]}',
            "input \"kind\": 'utf-8' codec can't decode byte 0xff",
        ),
        (b'{"inputs": [{"name": "\\ud800"}]}', "no request for inference"),
        (json.dumps({"inputs": [A, B], "id": "x" * 1025}).encode(), "Expected `str` of length <= 1024"),
        (json.dumps({"inputs": [A, B], "parameters": {"missing": "zero"}}).encode(), "Invalid enum value"),
        (json.dumps({"inputs": [A, B], "parameters": {"missing": "a\nb"}}).encode(), "Invalid enum value"),
    ],
)
def test_bodies_that_are_no_request_are_refused(body, reason):
    reply = call(answers(TWO, limits=SMALL), "POST", INFER, body)
    assert reply.status == 400
    assert reason in reply.error


def test_what_is_larger_than_a_limit_is_refused():
    served = answers(TWO, limits=SMALL)
    many = column("a", [1.0] * 21), column("b", [1.0] * 21)
    reply = infer(TWO, *many)
    assert (reply.status, reply.error) == (413, "21 records, more than 20; send fewer at a time")
    assert infer(TWO, *many, limits=RequestLimits()).status == 200
    wide = replace(
        TWO, registry=Registry(1, ("a",), ("no", "yes"), np.zeros(1), np.ones(1)), weights=np.zeros((2, 2))
    )
    true = column("features", [1] * 20, "INT8", [20, 1])
    answer = infer(wide, true, limits=replace(SMALL, most_bytes=300))
    assert answer.status == 413
    assert "probabilities would have 320 bytes, more than 300" in answer.error
    assert infer(wide, true, limits=replace(SMALL, most_bytes=320)).status == 200
    features = infer(wide, true, limits=replace(SMALL, most_bytes=159))
    assert features.status == 413
    assert "20 records of 1 features are 160 bytes as FP64, more than 159" in features.error
    for body, headers in ((b"", {"Content-Length": "2001"}), ([b"x" * 1000, b"x" * 1001], {})):
        reply = call(served, "POST", INFER, body, headers, end=False)  # refused before it has ended
        assert (reply.status, reply.error[:33]) == (413, "the body has more than 2000 bytes")


def test_headers_that_lie_are_refused_and_a_body_that_does_not_come_is_given_up():
    served = answers(TWO, limits=SMALL)
    body = json.dumps({"inputs": [A, B]}).encode()
    for told in (len(body) + 1, len(body) - 1, "x", -1):
        assert "Content-Length is" in call(served, "POST", INFER, body, {"Content-Length": str(told)}).error
    assert call(served, "POST", INFER, body, {"Content-Encoding": "gzip"}).status == 415
    reply = call(served, "POST", INFER, body, end=False)
    assert (reply.status, reply.error) == (408, "the body did not arrive within 0.05 s")


def test_names_and_methods_that_are_not_there_are_refused():
    served = answers(TWO)
    assert call(served, "GET", "/v2/models/n").error == 'there is no model "n"; there is m'
    for path in ("/v2/models/n/ready", "/v2/models/n/versions/7", "/v1", "/v2/models/m/versions/07"):
        assert call(served, "GET", path).status == 404
    assert call(served, "POST", "/v2/models/n/infer").status == 404
    assert (call(served, "GET", INFER).status, call(served, "GET", INFER).error) == (405, "Method Not Allowed")


def test_infinity_and_values_far_out_are_answered():
    extreme = column("a", [1.7e308, -1.7e308]), column("b", [-1.7e308, 1e-320])
    assert outputs(infer(TWO, *extreme))["prediction"] == ["yes", "no"]
    infinite = column("a", [1e300, -2.0], "FP32"), B
    tiny = replace(TWO, registry=replace(TWO.registry, scale=np.array([1e-300, 1.0])))
    assert outputs(infer(tiny, *extreme))["prediction"] == ["yes", "no"]
    assert outputs(infer(TWO, *infinite))["prediction"] == ["no", "no"]


def test_what_was_answered_and_refused_is_counted():
    counts = Counts()
    served = answers(TWO, counts=counts)
    body = json.dumps({"inputs": [A, B]}).encode()
    for sent in (body, b"", body, b"[]"):
        call(served, "POST", INFER, sent)
    call(served, "GET", "/v3")
    assert (counts.requests, counts.records, counts.refused) == (2, 4, {400: 2, 404: 1})


def test_health_answers_while_predictions_are_made_and_requests_beyond_the_limit_are_refused(monkeypatch):
    begun, close_if_ready = threading.Event(), threading.Event()
    own = ServedModel.predictions

    def slow(self: ServedModel, *args: Any) -> Any:
        begun.set()
        assert close_if_ready.wait(60.0)
        return own(self, *args)

    monkeypatch.setattr(ServedModel, "predictions", slow)
    served, body = answers(TWO, limits=replace(SMALL, at_once=1)), json.dumps({"inputs": [A, B]}).encode()

    async def main() -> tuple[Reply, Reply, Reply]:
        first = asyncio.create_task(asked(served, "POST", INFER, body))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        health, second = await asked(served, "GET", "/v2/health/live"), await asked(served, "POST", INFER, body)
        close_if_ready.set()
        return health, second, await first

    health, second, first = asyncio.run(main())
    assert health.status == 200
    assert (second.status, second.headers["retry-after"]) == (503, "1")
    assert "1 requests are being answered" in second.error
    assert outputs(first)["prediction"] == ["yes", "no"]
    assert call(served, "POST", INFER, body).status == 200  # the first has given its place back


def test_a_port_that_is_taken_is_told_and_is_free_again_once_its_server_has_ended():
    taken = "cannot serve on 127.0.0.1, port .*; choose another address"
    with (
        serving(answers(TWO), port=0) as port,
        pytest.raises(UsageError, match=taken),
        serving(answers(TWO), port=port),
    ):
        pass
    with serving(answers(TWO), port=port) as again:
        assert again == port
    assert "http" not in {thread.name for thread in threading.enumerate()}


def test_what_is_written_is_sent_at_once():
    with _listening("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        taken, _ = listener.accept()
        with taken:
            assert taken.proto == socket.IPPROTO_TCP  # asyncio's condition for TCP_NODELAY


@pytest.mark.process
def test_without_the_extra_the_error_names_it():
    code = "import sys; sys.modules['uvicorn'] = None; import streamfl.live.http.app"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "UsageError: answers over HTTP need uvicorn: install the extra http (docs/install.md)" in done.stderr


GET = b"GET /v2/health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def closed(connection: socket.socket) -> bool:
    """Tell whether a server closes a connection; what it says before does not count."""
    with suppress(ConnectionResetError):
        while connection.recv(65_536):
            pass
    return True


@pytest.mark.parametrize(
    "begun",
    [b"", b"GET / HTTP/1.1\r\nhost: ", GET + b"\r\n" + GET, b"POST " + GET[4:] + b"Content-Length: 900\r\n\r\n"],
    ids=["nothing", "half a head", "half a head after an answer", "a body that does not come"],
)
def test_a_request_that_trickles_is_cut_off_and_others_are_answered(begun, monkeypatch):
    monkeypatch.setattr(http, "HEAD", 0.2)
    monkeypatch.setattr(http, "BODY", 0.2)
    with serving(answers(TWO), port=0) as port:
        connection = socket.create_connection(("127.0.0.1", port), timeout=30)
        connection.sendall(begun)
        with closing(connection):
            stop = threading.Event()
            drip = threading.Thread(target=drips, args=(connection, stop), daemon=True)
            drip.start()
            with urlopen(f"http://127.0.0.1:{port}/v2/health/live") as reply:
                assert reply.status == 200
            assert closed(connection)
            stop.set()
            drip.join()


def drips(connection: socket.socket, stop: threading.Event) -> None:
    """Send a little now and then, as if more were to come."""
    while not stop.wait(0.02):
        with suppress(OSError):
            connection.sendall(b"x")


@pytest.mark.parametrize("host", ["127.0.0.1", "::"], ids=["IPv4", "IPv4 and IPv6"])
def test_one_address_cannot_take_all_connections(host, monkeypatch):
    monkeypatch.setattr(http, "MOST_OF_ADDRESS", 3)
    with serving(answers(TWO), host, port=0) as port, ExitStack() as stack:
        taken = [
            stack.enter_context(closing(socket.create_connection(("127.0.0.1", port), timeout=30))) for _ in range(5)
        ]
        for connection in taken:
            with suppress(OSError):
                connection.sendall(GET + b"\r\n")
        answered = []
        for connection in taken:
            with suppress(ConnectionResetError):
                answered.append(connection.recv(12)[9:])
        assert answered.count(b"200") == 3
        other = stack.enter_context(closing(socket.socket()))
        other.bind(("127.0.0.2", 0))
        other.settimeout(30)
        other.connect(("127.0.0.1", port))
        other.sendall(GET + b"\r\n")
        assert other.recv(12)[9:] == b"200"


def test_an_answer_that_is_not_taken_is_cut_off(monkeypatch):
    monkeypatch.setattr(http, "UNREAD", 0.2)
    sent = threading.Event()

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(100):
            await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
        sent.set()

    with serving(endless, port=0) as port, closing(socket.create_connection(("127.0.0.1", port))) as connection:
        connection.sendall(GET + b"\r\n")
        assert sent.wait(20)


@pytest.fixture
def connections(monkeypatch) -> list[Any]:
    """Return the connections of servers, as they are made."""
    made, own = list[Any](), http.ImpatientProtocol.connection_made

    def noted(self: http.ImpatientProtocol, transport: Any) -> None:
        made.append(self)
        own(self, transport)

    monkeypatch.setattr(http.ImpatientProtocol, "connection_made", noted)
    return made


def comes(condition: Any, seconds: float = 20.0) -> bool:
    """Tell whether a condition comes to hold."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(condition())


def is_lost(connection: Any) -> bool:
    return connection not in connection.connections


async def of_8_mb(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"8000000")]})
    await send({"type": "http.response.body", "body": bytes(8_000_000)})


def unread(port: int) -> socket.socket:
    """Return a connection with a request, that takes next to nothing by itself."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(30)
    connection.connect(("127.0.0.1", port))
    connection.sendall(GET + b"\r\n")
    return connection


def test_a_little_that_waits_for_a_reader_is_cut_off_as_much_is(monkeypatch, connections):
    monkeypatch.setattr(http, "UNREAD", 0.2)

    async def little(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not connections[0].transport.get_write_buffer_size():  # until the system takes no more
            await send({"type": "http.response.body", "body": bytes(4096), "more_body": True})
        await send({"type": "http.response.body", "body": b"the end"})

    with serving(little, port=0) as port, closing(unread(port)):
        assert comes(lambda: connections and is_lost(connections[0]))


def test_answers_that_wait_for_readers_are_bounded_together_and_the_oldest_gives_way(monkeypatch, connections):
    monkeypatch.setattr(http, "MOST_WAITING", 10_000_000)
    with serving(of_8_mb, port=0) as port, ExitStack() as stack:
        for n in range(3):
            stack.enter_context(closing(unread(port)))
            assert comes(lambda n=n: len(connections) > n and connections[n].transport.get_write_buffer_size())
            assert comes(lambda n=n: all(map(is_lost, connections[:n])))
        with urlopen(f"http://127.0.0.1:{port}/") as reply:
            assert len(reply.read()) == 8_000_000


def test_a_further_request_waits_until_the_answer_before_it_is_taken(connections):
    begun = list[str]()

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        begun.append(scope["path"])
        await of_8_mb(scope, receive, send)

    with serving(noting, port=0) as port, closing(unread(port)) as connection:
        assert comes(lambda: connections and connections[0].transport.get_write_buffer_size())
        connection.sendall(GET + b"Connection: close\r\n\r\n")
        assert not comes(lambda: len(begun) > 1, seconds=0.3)
        taken = 0
        while part := connection.recv(1 << 20):
            taken += len(part)
    assert (len(begun), taken > 16_000_000) == (2, True)


def test_a_client_that_takes_an_answer_slowly_gets_all_of_it(monkeypatch):
    monkeypatch.setattr(http, "UNREAD", 0.5)
    size, step = 6_000_000, 60_000

    async def large(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": bytes(size)})

    with serving(large, port=0) as port, closing(socket.socket()) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, step)
        connection.settimeout(30)
        connection.connect(("127.0.0.1", port))
        connection.sendall(GET + b"\r\n")
        taken = 0
        while part := connection.recv(step):
            taken += len(part)
            time.sleep(0.02)
    assert taken > size


def test_bodies_that_do_not_come_keep_nobody_from_being_answered():
    served = answers(TWO, limits=replace(SMALL, seconds=5.0))

    async def main() -> Reply:
        waiting = [asyncio.create_task(asked(served, "POST", INFER, b"{", end=False)) for _ in range(10)]
        await asyncio.sleep(0)
        reply = await asked(served, "POST", INFER, json.dumps({"inputs": [A, B]}).encode())
        for task in waiting:
            task.cancel()
        return reply

    assert asyncio.run(main()).status == 200


def test_bodies_together_are_bounded_and_give_their_room_back():
    served, body = answers(TWO, limits=replace(SMALL, seconds=5.0)), json.dumps({"inputs": [A, B]}).encode()

    async def main() -> tuple[Reply, Reply]:
        large = [b" " * 1900, b" " * 50]
        waiting = [asyncio.create_task(asked(served, "POST", INFER, large, end=False)) for _ in range(2)]
        for _ in range(20):
            await asyncio.sleep(0)
        refused = await asked(served, "POST", INFER, body + b" " * 300)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return refused, await asked(served, "POST", INFER, body)

    refused, answered = asyncio.run(main())
    assert (refused.status, refused.headers["retry-after"], answered.status) == (503, "1", 200)


def test_a_server_answers_under_its_own_names_only():
    def status(path: str, host: str, port: int) -> int:
        request = Request(f"http://127.0.0.1:{port}{path}", headers={"Host": host})
        try:
            with urlopen(request) as reply:
                return int(reply.status)
        except HTTPError as error:
            return error.code

    with serving(answers(TWO), port=0, names=["Scorer.example"]) as port:
        names = ("evil.example", "evil.example:80", "scorer.example", "localhost:9", "10.1.2.3")
        assert [status("/v2", name, port) for name in names] == [400, 400, 200, 200, 200]


def test_a_probe_that_names_no_host_is_answered():
    with serving(answers(TWO), port=0) as port, closing(socket.create_connection(("127.0.0.1", port))) as connection:
        connection.sendall(b"GET /v2/health/live HTTP/1.0\r\n\r\n")
        assert connection.recv(12)[9:] == b"200"
