"""Federated averaging of a linear softmax model in Flower's simulation, for `beside_flower.py`, which starts it.

It runs in an interpreter that has Flower and Ray, and needs nothing of streamfl. The environment says what to do:
BESIDE_FLOWER is a JSON object with the path of the records, the shape, the step and the rounds before the first mark.
All processes that Ray starts inherit that variable; by it their CPU time is found in /proc.
"""

import json
import logging
import os
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

NAME = "BESIDE_FLOWER"
GIVEN = os.environ[NAME]
WANTED = json.loads(GIVEN)
# Seconds in which what Ray still starts in the background comes to an end, before the first mark.
SETTLES = 10.0


def cpu() -> float:
    """Return the CPU seconds of this process and all that Ray has started, with those that they have waited for."""
    ticks, mark = 0, f"{NAME}={GIVEN}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                fields = (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:15]))
        except (OSError, ValueError):
            continue  # of somebody else, or just ended
    return ticks / os.sysconf("SC_CLK_TCK")


@cache
def records() -> tuple[Any, Any]:
    """Return the records and labels; each process reads them once."""
    with np.load(WANTED["path"]) as file:
        return file["X"], file["y"]


def train(message: Any, context: Any) -> Any:
    """Predict the client's records of a round, and take one gradient step on them."""
    (W,) = message.content["arrays"].to_numpy_ndarrays()
    size, clients = WANTED["size"], WANTED["clients"]
    first = (message.content["config"]["server-round"] - 1) * size * clients
    own = slice(first + int(context.node_config["partition-id"]), first + size * clients, clients)
    X, y = (whole[own] for whole in records())
    Z = np.column_stack([X, np.ones(size)])
    outputs = Z @ W
    right = float((outputs.argmax(axis=1) == y).mean())
    p = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(size), y] -= 1.0
    stepped = ArrayRecord([W - WANTED["eta"] / size * (Z.T @ p)])
    metrics = MetricRecord({"num-examples": size, "accuracy": right})
    return Message(RecordDict({"arrays": stepped, "metrics": metrics}), reply_to=message)


def serve(grid: Any, context: Any) -> None:
    """Run all rounds, and print the CPU time at the two marks and the accuracy of predictions before each step."""
    marks = {}
    clients, rounds = WANTED["clients"], WANTED["rounds"]

    def note(closed: int, arrays: Any) -> None:
        if closed == WANTED["warm"]:
            time.sleep(SETTLES)
        if closed in {WANTED["warm"], rounds}:
            marks[closed] = cpu()

    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients)
    d, labels = records()[0].shape[1] + 1, int(records()[1].max()) + 1
    first = ArrayRecord([np.zeros((d, labels))])
    result = strategy.start(grid, first, num_rounds=rounds, evaluate_fn=note)
    by_round = [one["accuracy"] for one in result.train_metrics_clientapp.values()]
    print(json.dumps({"marks": list(marks.values()), "accuracy": sum(by_round) / rounds}), flush=True)


def main() -> None:
    """Run the simulation without a dashboard, evaluation by clients, or lines of logs.

    Ray has two CPUs, and a client takes both, as is Flower's default: one worker. Two workers cost more CPU time.
    """
    logging.getLogger("flwr").setLevel(logging.ERROR)
    client, server = ClientApp(), ServerApp()
    client.train()(train)
    server.main()(serve)
    ray = {"num_cpus": 2, "include_dashboard": False, "log_to_driver": False}
    config = {"client_resources": {"num_cpus": 2}, "init_args": ray}
    run_simulation(server, client, WANTED["clients"], backend_config=config)
