from collections.abc import Callable, Sequence
from typing import Any

import pytest

from streamfl.run.evaluation.result import DatedRestart, Figures, Kappa, Loss, Result
from streamfl.run.summary import RoundLine

SPIKE = 0.51


def restarted(at: int, epoch: int, **changed: Any) -> DatedRestart:
    told: dict[str, Any] = {
        "round": at,
        "epoch": epoch,
        "cause": "glr",
        "statistic": 113.8,
        "threshold": 11.7,
        "chosen": "scratch",
        "since": at - 1,
        "clients": ("c3", "c7"),
        "labels": ("0", "1"),
    }
    return DatedRestart(**(told | changed))


def lines(n: int, restarts: Sequence[int]) -> tuple[RoundLine, ...]:
    return tuple(
        RoundLine(
            round=t,
            epoch=1 + sum(at < t for at in restarts),
            block=t,
            records=20,
            loss=SPIKE if t + 1 in restarts else 0.2 + 0.001 * (t % 7),
            accuracy=0.7,
            no_change=0.381,
        )
        for t in range(1, n + 1)
    )


@pytest.fixture
def made_up() -> Callable[..., Result]:
    """Build a run of n rounds, with restarts where asked; every other field can be changed."""

    def build(n: int = 103, at: Sequence[int] = (), **changed: Any) -> Result:
        told: dict[str, Any] = {
            "streamfl": "0.1.0",
            "source": "covtype",
            "seed": 4,
            "profile": "adaptive",
            "records": 92962,
            "accepted": 92960,
            "held_out": 1850,
            "rejected": 2,
            "pending": 0,
            "rounds": n,
            "clients": 12,
            "seconds": 3.1,
            "records_per_second": 29988,
            "accuracy": Figures(prequential=0.702, round_start=0.693, post_update=0.714, no_change=0.381),
            "kappa": Kappa(cohen=0.512, temporal=0.519),
            "loss": Loss(prequential=0.213),
            "restarts": tuple(restarted(t, i) for i, t in enumerate(at, start=2)),
            "local_drifts": (),
            "promotions": 3,
            "model_sha256": "9f2c" * 16,
            "per_round": lines(n, at),
        }
        return Result(**(told | changed))

    return build


@pytest.fixture
def restart() -> Callable[..., DatedRestart]:
    return restarted
