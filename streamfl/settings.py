"""What a person may choose, with names and defaults; turned into the core's settings here and nowhere else."""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from river import base

from streamfl.core.errors import UsageError
from streamfl.core.learning.algorithms import Algorithm, FedAvg, FedOMD
from streamfl.core.learning.algorithms.mirror_maps import Euclidean, Hypentropic, MirrorMap, PNorm
from streamfl.core.learning.local_round import Learner
from streamfl.core.learning.model import Model
from streamfl.core.profiles.adaptive.promotion import Promotion, ladder_settings
from streamfl.core.profiles.experts import Experts, ExpertsSettings
from streamfl.core.profiles.paper.profile import Paper, PaperSettings
from streamfl.core.protocol.native.settings import OnlineSettings
from streamfl.detectors import named_detector
from streamfl.models import Linear, Logistic, Softmax
from streamfl.models.river_models import RiverGuest, federable, named
from streamfl.models.river_models.names import PREFIX

Task = Literal["classification", "regression"]
Loss = Literal["softmax", "logistic", "squared", "huber"]

# Blocks of a million rounds: a longer one is drawn at once, and no stream is known to have as many.
HIGHEST_ORDER = 20

MODELS: dict[Loss, Model] = {
    "softmax": Softmax(),
    "logistic": Logistic(),
    "squared": Linear(),
    "huber": Linear(loss="huber"),
}


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LearningSettings(_Settings):
    """The model and the base algorithm.

    `auto` takes a softmax for labels and squared loss for targets. A model of River, as text such as
    `river:linear_model.SoftmaxRegression` or as an estimator, learns and answers record by record in place of
    `features` and `neighbours`, and `auto` beside it watches for drift. `features` is what learns record by record
    between rounds: `linear` models, `ferns`, both (`auto`), or nothing (`rounds`: then a round is one step).
    `mirror`, `average` and `l1` are of `fedomd`, whose map is `p-norm` unless another is named; with the Euclidean
    one it is FedAvg.

    >>> LearningSettings(algorithm="fedomd", l1=0.01).learner("classification", seed=0).algorithm.l1
    0.01
    """

    model: Any = "auto"
    algorithm: Literal["fedavg", "fedomd"] = "fedavg"
    mirror: Literal["euclidean", "hypentropic", "p-norm"] = "p-norm"
    average: Literal["primal", "dual"] = "primal"
    l1: float = Field(0.0, ge=0.0, allow_inf_nan=False)
    l2: float = Field(0.0, ge=0.0, allow_inf_nan=False)
    radius: float = Field(1e3, gt=0.0)
    local_batch: int | None = Field(None, ge=1)
    gamma: float = Field(1.0, gt=0.0, le=1.0)
    exchange: Literal["difference", "model"] = "difference"
    features: Literal["auto", "linear", "ferns", "rounds"] = "rounds"
    neighbours: bool = True

    @field_validator("model")
    @classmethod
    def _there_is_such_a_model(cls, model: Any) -> Any:
        if isinstance(model, base.Estimator):
            federable(model)
        elif isinstance(model, str) and model.startswith(PREFIX):
            named(model)
        elif model not in ("auto", *MODELS):
            raise UsageError(f"no model is called {model!r}: take one of auto, {', '.join(MODELS)}, or {PREFIX}NAME")
        return model

    @model_validator(mode="after")
    def _has_an_effect(self) -> Self:
        idle = sorted({"mirror", "average", "l1"} & self.model_fields_set)
        if idle and self.algorithm != "fedomd":
            names = " and ".join(idle)
            raise UsageError(
                f"{names}: of fedomd, and the algorithm is {self.algorithm}; take fedomd, or leave it out"
            )
        return self

    def guest(self, task: Task) -> RiverGuest | None:
        """Return the model of River that is federated, if one is.

        Raises
        ------
        UsageError
            It is for the other task.
        """
        if isinstance(self.model, base.Estimator):
            return RiverGuest(self.model, task)
        return RiverGuest(named(self.model), task) if self.model.startswith(PREFIX) else None

    def learner(self, task: Task, seed: int) -> Learner:
        """Return the core's description of how to learn.

        Raises
        ------
        UsageError
            The model is for the other task.
        """
        guest = self.guest(task)
        return Learner(
            model=MODELS[self.loss(task)],
            algorithm=self._algorithm(),
            l2=self.l2,
            local_batch=self.local_batch,
            gamma=self.gamma,
            exchange=self.exchange,
            seed=seed,
            online=self._online(task, seed) if guest is None else None,
            guest=guest,
        )

    def _online(self, task: Task, seed: int) -> OnlineSettings | None:
        if self.features == "rounds":
            return None
        targets = task == "regression"
        return OnlineSettings(self.features, neighbours=self.neighbours, targets=targets, seed=seed)

    def loss(self, task: Task) -> Loss:
        """Return the loss that is meant.

        Raises
        ------
        UsageError
            It is one for the other task.
        """
        own: Loss | None = next((name for name in MODELS if name == self.model), None)
        if own is not None and (MODELS[own].link == "identity") != (task == "regression"):
            what = "numbers, and these are labels" if task == "classification" else "labels, and these are numbers"
            raise UsageError(f"model {own} predicts {what}: leave it out, or say the other task")
        return own or ("softmax" if task == "classification" else "squared")

    def _algorithm(self) -> Algorithm:
        if self.algorithm == "fedavg":
            return FedAvg(self.radius)
        maps: dict[str, MirrorMap] = {
            "euclidean": Euclidean(self.radius),
            "hypentropic": Hypentropic(radius=self.radius),
            "p-norm": PNorm(radius=self.radius),
        }
        return FedOMD(maps[self.mirror], self.average, self.l1)


class ProfileSettings(_Settings):
    """How drift is handled.

    `max_order` caps the blocks of `paper` and the instances of `experts` at 2^max_order rounds, so that a round's
    cost does not grow; `none` has no cap, as their theorems want.

    >>> type(ProfileSettings(profile="paper").master(100, LearningSettings().learner("regression", seed=0))).__name__
    'Paper'
    """

    profile: Literal["adaptive", "paper", "experts"] = "adaptive"
    detector: str = "excess"
    rho_scale: float = Field(1.0, ge=0.0)
    optimistic: Literal["history", "regret"] = "history"
    start: Literal["scratch", "warm"] | None = None
    order_after_alarm: Literal["reset", "continue"] = "reset"
    max_order: int | Literal["none"] = 8
    step: float | None = Field(None, gt=0.0, allow_inf_nan=False)

    @field_validator("detector")
    @classmethod
    def _there_is(cls, name: str) -> str:
        named_detector(name)
        return name

    @field_validator("max_order", mode="before")
    @classmethod
    def _is_an_order(cls, told: object) -> object:
        text = str(told)
        if text != "none" and not (text.isdecimal() and int(text) <= HIGHEST_ORDER):
            raise UsageError(f"max_order {text}: no order; give a whole number from 0 to {HIGHEST_ORDER}, or none")
        return text if text == "none" else int(text)

    def paper(self, horizon: int, seed: int) -> PaperSettings:
        """Return the settings of profile `paper` for a stream of so many rounds."""
        start = self.start or "scratch"
        return PaperSettings(
            horizon=max(2, horizon),
            rho_scale=self.rho_scale,
            optimistic=self.optimistic,
            new_instance=start,
            new_block=start,
            after_alarm=start,
            order_after_alarm=self.order_after_alarm,
            max_order=HIGHEST_ORDER if self.max_order == "none" else self.max_order,
            step=self.step or 1.0,
            seed=seed,
        )

    def master(self, horizon: int, learner: Learner) -> Paper | Promotion | Experts:
        """Return the profile in its first state, for a stream of so many rounds."""
        if self.profile == "paper":
            return Paper(self.paper(horizon, learner.seed))
        ladder = ladder_settings(
            bounded_gradient=not isinstance(learner.model, Linear),
            one_full_step=learner.one_full_step,
            whitened=learner.algorithm.may_be_whitened,
            step=self.step,
        )
        if self.profile == "experts":
            capped = None if self.max_order == "none" else self.max_order
            return Experts(ExpertsSettings(capped, ladder.step, self.start or "warm", ladder.whitened))
        return Promotion(ladder, named_detector(self.detector))
