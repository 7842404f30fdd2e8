"""Answers over HTTP as a user gets them: a model of a replay, a socket, and NVIDIA's client of the V2 protocol."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as v2
from tritonclient.utils import InferenceServerException

from streamfl.live.answering import Answering
from streamfl.live.http.app import app
from streamfl.live.http.serving import serving
from streamfl.records.files.readers import read
from streamfl.run.dealing.dealing import deal
from streamfl.run.model_file import ServedModel
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings

TABLE = read("river:Phishing")
X = np.ascontiguousarray(TABLE.X[:300], np.float64)


@pytest.fixture(scope="module")
def answering() -> Answering:
    """Return a model with online experts."""
    settings = ReplaySettings(round_size=25, learning=LearningSettings(features="auto"))
    replayed = Replay(TABLE, deal(TABLE, 2, "round-robin", 0), settings).run()
    assert replayed.model.native is not None
    return Answering(replayed.model, 25, 1, 24)


@pytest.fixture
def port(answering: Answering) -> Iterator[int]:
    with serving(app("phishing", lambda: answering), port=0) as port:
        yield port


@pytest.fixture
def client(port: int) -> Iterator[Any]:
    client = v2.InferenceServerClient(f"127.0.0.1:{port}")
    yield client
    client.close()


def tensor(name: str, values: Any, datatype: str, *, as_bytes: bool) -> v2.InferInput:
    tensor = v2.InferInput(name, list(values.shape), datatype)
    return tensor.set_data_from_numpy(values, binary_data=as_bytes)


def test_the_client_sees_that_server_and_model_are_there(client: Any, answering: Answering):
    version = str(answering.round)
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("phishing")
    assert client.is_model_ready("phishing", version)
    assert not client.is_model_ready("fishing")
    assert client.get_server_metadata()["name"] == "streamfl"
    told = client.get_model_metadata("phishing", version)
    assert [one["name"] for one in told["inputs"]] == list(TABLE.features)
    assert told["outputs"][1]["parameters"]["labels"] == list(answering.model.labels)


@pytest.mark.parametrize("sent_as_bytes", [True, False])
@pytest.mark.parametrize("answered_as_bytes", [True, False, None])
def test_predictions_are_the_models_to_the_bit(
    client: Any, answering: Answering, sent_as_bytes: bool, answered_as_bytes: bool | None
):
    model, values = answering.model, X.copy()
    if sent_as_bytes:  # JSON has no NaN
        values[::7, 3] = np.nan
    wanted = model.predict_proba(values, TABLE.features)
    outputs = (
        answered_as_bytes
        if answered_as_bytes is None
        else [
            v2.InferRequestedOutput(name, binary_data=answered_as_bytes) for name in ("probabilities", "prediction")
        ]
    )
    whole = [tensor("features", values, "FP64", as_bytes=sent_as_bytes)]
    columns = [
        tensor(name, np.ascontiguousarray(values[:, j]), "FP64", as_bytes=sent_as_bytes)
        for j, name in enumerate(TABLE.features)
    ]
    for inputs in (whole, columns[::-1]):
        answer = client.infer("phishing", inputs, str(answering.round), outputs, request_id="q")
        np.testing.assert_array_equal(answer.as_numpy("probabilities"), wanted)
        labels = answer.as_numpy("prediction").tolist()
        assert [label if isinstance(label, str) else label.decode() for label in labels] == model.predict(
            values, TABLE.features
        )
        told = answer.get_response()
        assert (told["id"], told["model_version"]) == ("q", str(answering.round))
        assert told["parameters"] == {"epoch": 1, "entry": answering.entry}


def test_a_column_that_is_left_out_is_the_mean_if_that_is_said(client: Any, answering: Answering):
    inputs = [
        tensor(name, X[:, j : j + 1].astype(np.float32), "FP32", as_bytes=True)
        for j, name in enumerate(TABLE.features)
    ]
    answer = client.infer("phishing", inputs[1:], parameters={"missing": "mean"})
    given = X[:, 1:].astype(np.float32).astype(np.float64)
    wanted = answering.model.predict_proba(given, TABLE.features[1:], missing="mean")
    np.testing.assert_array_equal(answer.as_numpy("probabilities"), wanted)
    with pytest.raises(InferenceServerException, match=r"\[400\] .* of the model's features are missing"):
        client.infer("phishing", inputs[1:])


def test_refusals_reach_the_client_as_a_reason(client: Any, answering: Answering):
    inputs = [tensor("features", X, "FP64", as_bytes=True)]
    with pytest.raises(InferenceServerException, match=f"is not available; the current one is {answering.round}"):
        client.infer("phishing", inputs, "1000")
    with pytest.raises(InferenceServerException, match="more than 10000; send fewer at a time"):
        client.infer("phishing", [tensor("features", np.zeros((10_001, X.shape[1])), "FP64", as_bytes=True)])
    with pytest.raises(InferenceServerException, match="the body is compressed"):
        client.infer("phishing", inputs, request_compression_algorithm="gzip")


def test_requests_at_once_are_answered_by_the_model_that_serves_then(answering: Answering):
    rounds = count(answering.round)

    def next_round() -> Answering:
        return Answering(answering.model, next(rounds), 1, 0)

    with serving(app("m", next_round), port=0) as port:
        client = v2.InferenceServerClient(f"127.0.0.1:{port}", concurrency=4)
        inputs = [tensor("features", X, "FP64", as_bytes=True)]
        answers = [begun.get_result() for begun in [client.async_infer("m", inputs) for _ in range(12)]]
        client.close()
    wanted = answering.model.predict_proba(X, TABLE.features)
    for answer in answers:
        np.testing.assert_array_equal(answer.as_numpy("probabilities"), wanted)
    told = sorted(int(answer.get_response()["model_version"]) for answer in answers)
    assert told == list(range(answering.round, answering.round + 12))


def test_plain_json_is_enough_and_a_body_that_breaks_off_harms_no_one(port: int, answering: Answering):
    with socket.create_connection(("127.0.0.1", port)) as broken:
        broken.sendall(b"POST /v2/models/phishing/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    with socket.create_connection(("127.0.0.1", port)) as garbage:
        garbage.sendall(b"\0\xff nonsense\r\n\r\n")
        assert garbage.recv(1000).startswith(b"HTTP/1.1 400")
    inputs = [
        {"name": name, "shape": [2], "datatype": "FP64", "data": X[:2, j].tolist()}
        for j, name in enumerate(TABLE.features)
    ]
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v2/models/phishing/infer", json.dumps({"inputs": inputs}).encode()
    )
    with urllib.request.urlopen(request) as reply:
        (labels, _) = json.load(reply)["outputs"]
    model: ServedModel = answering.model
    assert labels["data"] == model.predict(X[:2], TABLE.features)


@pytest.mark.process
def test_the_lines_of_the_page_do_what_it_says(tmp_path: Path, answering: Answering):
    page = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    page = page.replace("8000", str(port))
    (client,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (server,) = re.findall(r"^streamfl (score --model \S+ --http .*)$", page, re.MULTILINE)
    (body,) = re.findall(r"/infer -d '(.*?)'", page, re.DOTALL)
    answering.model.save(tmp_path / "phishing.safetensors")
    process = subprocess.Popen([sys.executable, "-m", "streamfl", *server.split()], cwd=tmp_path)
    try:
        while not _listens(port):
            assert process.poll() is None
            time.sleep(0.05)
        address = f"http://127.0.0.1:{port}/v2/models/phishing/infer"
        with urllib.request.urlopen(urllib.request.Request(address, body.encode())) as reply:
            assert [one["shape"] for one in json.load(reply)["outputs"]] == [[2], [2, 2]]
        names = dict[str, Any]()
        exec(client, names)
        names["client"].close()
        wanted = answering.model.predict_proba(np.full((2, X.shape[1]), 0.5), TABLE.features)
        np.testing.assert_array_equal(names["shares"], wanted)
        assert int(names["round_that_answered"]) == answering.model.provenance.rounds
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.wait() == 0


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "Give --settings, or give --model together with --http."),
        (("--model", "m"), "--model needs --http, and allows no other option than --host-name and --candidate."),
        (
            ("--model", "m", "--http", "0", "--name", "s"),
            "--model needs --http, and allows no other option than --host-name and --candidate.",
        ),
        (("--model", "m", "--http", "port"), "--http: 'port' is not an address"),
        (("--model", "none", "--http", "0"), "none"),
    ],
)
def test_a_saved_model_is_served_with_an_address_and_without_a_federation(tmp_path, answering, arguments, reason):
    answering.model.save(tmp_path / "m")
    done = subprocess.run(
        [sys.executable, "-m", "streamfl", "score", *arguments],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert reason in done.stderr and "Traceback" not in done.stderr


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True
