"""Whatever bytes come over HTTP, the answer is one of the protocol: never an error of the server."""

import json
from typing import Any

import numpy as np
from asgi import call
from hypothesis import given
from hypothesis import strategies as st

from streamfl.live.answering import Answering
from streamfl.live.http.app import app
from streamfl.live.http.infer import RequestLimits
from streamfl.protocol.registry import Registry
from streamfl.run.model_file import ServedModel

MODEL = ServedModel(
    "classification",
    "softmax",
    Registry(1, ("x", "y", "colour=blue", "colour=red"), ("no", "yes"), np.zeros(4), np.array([1.0, 1e-300, 1, 1])),
    np.array([[-1.0, 1.0], [1.0, 0.0], [0.0, 0.0], [-5.0, 5.0], [0.0, 0.0]]),
    categories={"colour": ("blue", "red")},
    label="kind",
)
APP = app(
    "m", lambda: Answering(MODEL, 7, 2, 41), limits=RequestLimits(most_bytes=4096, most_records=4, seconds=0.01)
)
DATATYPES = ["BOOL", "UINT8", "INT64", "UINT64", "FP16", "FP32", "FP64", "BYTES", "BF16", ""]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
cells = st.none() | st.booleans() | st.integers(-3, 300) | st.floats() | st.sampled_from(["red", "", "1"])
tensors = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["x", "y", "colour", "colour=red", "kind", "features", "\ud800"]),
        "shape": st.lists(st.integers(-1, 5) | st.just(2**62), max_size=3) | st.sampled_from([[1], [2], [2, 1]]),
        "datatype": st.sampled_from(DATATYPES),
    },
    optional={
        "data": st.lists(cells, max_size=3) | st.lists(st.lists(cells, max_size=2), max_size=3) | json_values,
        "parameters": st.fixed_dictionaries({}, optional={"binary_data_size": st.integers(-1, 40) | json_values}),
    },
)
requests = st.fixed_dictionaries(
    {"inputs": st.lists(tensors, max_size=4)},
    optional={
        "id": json_values,
        "parameters": st.fixed_dictionaries(
            {}, optional={"missing": st.just("mean") | json_values, "binary_data_output": st.booleans()}
        ),
        "outputs": st.lists(st.fixed_dictionaries({"name": st.sampled_from(["prediction", "probabilities", "x"])})),
    },
)
lengths = st.none() | st.integers(-1, 5000).map(str) | st.text(st.characters(max_codepoint=255), max_size=5)
# A request that is answered, into which lies are put one at a time.
TRUE = [
    {"name": "x", "shape": [2], "datatype": "FP64", "data": [1.0, None]},
    {"name": "y", "shape": [2, 1], "datatype": "INT8", "data": [[1], [0]]},
    {"name": "colour", "shape": [2], "datatype": "BYTES", "data": ["red", None]},
]


def answered(path: str, body: bytes, headers: dict[str, str | None]) -> int:
    """Return the status; fail unless the answer is one of the protocol, or a refusal in one line."""
    told = {name: value for name, value in headers.items() if value is not None}
    reply = call(APP, "POST", path, body, told)
    assert reply.status < 500
    if reply.status >= 400:
        assert reply.error
    else:
        head = reply.headers.get("inference-header-content-length")
        assert json.loads(reply.body[: None if head is None else int(head)])["model_name"] == "m"
    return reply.status


@given(st.binary(max_size=200), lengths, lengths)
def test_arbitrary_bytes_are_refused(body: bytes, head: str | None, length: str | None):
    answered("/v2/models/m/infer", body, {"Inference-Header-Content-Length": head, "Content-Length": length})


@given(requests, st.binary(max_size=40), lengths, st.booleans())
def test_requests_that_are_nearly_true_are_answered_or_refused(
    request: Any, rest: bytes, head: str | None, is_true: bool
):
    told = json.dumps(request).encode()
    answered(
        "/v2/models/m/infer", told + rest, {"Inference-Header-Content-Length": str(len(told)) if is_true else head}
    )


@given(st.integers(0, 2), st.sampled_from(["name", "shape", "datatype", "data"]), tensors | st.none(), json_values)
def test_one_lie_in_a_true_request_is_answered_or_refused(which: int, field: str, lie: Any, value: Any):
    assert answered("/v2/models/m/infer", json.dumps({"inputs": TRUE}).encode(), {}) == 200
    inputs = [dict(tensor) for tensor in TRUE]
    inputs[which][field] = value if lie is None else lie.get(field, value)
    answered("/v2/models/m/infer", json.dumps({"inputs": inputs}).encode(), {})


@given(st.integers(0, 400), st.binary(min_size=1, max_size=3))
def test_a_true_request_with_other_bytes_somewhere_is_answered_or_refused(at: int, other: bytes):
    body = json.dumps({"inputs": TRUE}).encode()
    answered("/v2/models/m/infer", body[:at] + other + body[at + len(other) :], {})


@given(st.text(max_size=8).filter(lambda text: text.isprintable() and not {*text} & {*"/?#"}))  # what ends a name
def test_arbitrary_names_and_versions_are_refused(text: str):
    if text not in ("m", "", ".", ".."):
        assert answered(f"/v2/models/{text}/infer", b"{}", {}) == 404
    if text not in ("7", "", ".", ".."):
        assert answered(f"/v2/models/m/versions/{text}/infer", b"{}", {}) == 404
