"""Records per second of the estimators on elec2, by way of feeding, next to River's softmax and forest.

CPU time of one process, median of interleaved runs, compilation not included.

    python benchmarks/estimator_speed.py --data DIR --runs 5
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
from river import forest, linear_model, preprocessing

from streamfl import MasterFLClassifier

Feed = Callable[[], None]


def feeds(X: np.ndarray, y: np.ndarray) -> dict[str, Feed]:
    """Return the ways of feeding by name; each feeds all records to a new model."""
    names = [str(j) for j in range(X.shape[1])]
    records = [dict(zip(names, x, strict=True)) for x in X.tolist()]
    labels = y.astype(int).tolist()

    def one_by_one(make: Callable[[], object], *, predict: bool, most: int | None = None) -> Feed:
        def feed() -> None:
            model = make()
            for x, label in zip(records[:most], labels[:most], strict=True):
                if predict:
                    model.predict_one(x)
                model.learn_one(x, label)

        return feed

    def ours(**parameters: object) -> Callable[[], MasterFLClassifier]:
        return lambda: MasterFLClassifier(seed=1, **parameters)

    def softmax() -> object:
        return preprocessing.StandardScaler() | linear_model.SoftmaxRegression()

    linear = {"features": "linear", "neighbours": False}
    return {
        "streamfl: predict_one, learn_one": one_by_one(ours(), predict=True),
        "streamfl: learn_one": one_by_one(ours(), predict=False),
        "streamfl: learn_many, an array": lambda: ours()().learn_many(X, np.array(labels)),
        "streamfl linear: predict_one, learn_one": one_by_one(ours(**linear), predict=True),
        "streamfl linear: learn_one": one_by_one(ours(**linear), predict=False),
        "streamfl linear: learn_many, an array": lambda: ours(**linear)().learn_many(X, np.array(labels)),
        "River scaler, softmax: predict_one, learn_one": one_by_one(softmax, predict=True),
        "River scaler, softmax: learn_one": one_by_one(softmax, predict=False),
        "River ARF: predict_one, learn_one": one_by_one(lambda: forest.ARFClassifier(seed=1), predict=True),
    }


@click.command(help=__doc__.splitlines()[0])
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True, help="The folder of elec2.npz.")
@click.option("--records", default=5000, show_default=True)
@click.option("--runs", default=5, show_default=True)
def main(data: Path, records: int, runs: int) -> None:
    with np.load(data / "elec2.npz") as arrays:
        X, y = arrays["X"][:records].astype(float), arrays["y"][:records]
    ways = feeds(X, y)
    for feed in feeds(X[:300], y[:300]).values():
        feed()
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, feed in ways.items():
            began = time.process_time()
            feed()
            seconds[name].append(time.process_time() - began)
    for name, each in seconds.items():
        rates = sorted(records / s for s in each)
        click.echo(f"{name:48s} {statistics.median(rates):9,.0f} records/s [{rates[0]:,.0f}, {rates[-1]:,.0f}]")


if __name__ == "__main__":
    main()
