"""Settings that users choose, with their defaults; only this module turns them into settings of the core."""

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from streamfl.bounds import MOST
from streamfl.errors import UsageError
from streamfl.learning.algorithms.base import RADIUS, Algorithm, AlgorithmOptions
from streamfl.learning.between_rounds import BetweenRounds
from streamfl.learning.local_round import Learner
from streamfl.learning.model import Model
from streamfl.learning.pooling.masks import FEWEST as FEWEST_CLIENTS
from streamfl.learning.pooling.masks import Sums
from streamfl.learning.pooling.noise import Noise
from streamfl.learning.profiles.base import HIGHEST_ORDER, Profile, ProfileOptions
from streamfl.machines.client.budget import Budget
from streamfl.models import RIVER, Linear, Logistic, Softmax
from streamfl.online.external.between_rounds import ExternalBetweenRounds
from streamfl.online.native.between_rounds import NativeBetweenRounds
from streamfl.plugins.algorithms import ALGORITHMS, named_algorithm
from streamfl.plugins.detectors import named_detector
from streamfl.plugins.profiles import named_profile
from streamfl.protocol.messages import Update
from streamfl.protocol.native.settings import NativeSettings

if TYPE_CHECKING:
    from streamfl.models.river_models import FederatedRiverModel

Task = Literal["classification", "regression"]
Loss = Literal["softmax", "logistic", "squared", "huber"]

# Options that only some algorithms use.
OF_SOME = {option.name for option in fields(AlgorithmOptions)} - {"radius"}

# Options that say how the step of a round is made: with another one than the default, a round is one step.
STEPS = ("model", "algorithm", "l2", "local_batch", "gamma")

# No update takes fewer bytes, however coarse: with one feature, two labels and ten records it takes at least 908
# (auto), 867 (ferns) or 485 (linear); with eight features and 100 records 1,144, 1,104 or 595.
FEWEST = {"auto": 800, "ferns": 800, "linear": 450}

MODELS: dict[Loss, Model] = {
    "softmax": Softmax(),
    "logistic": Logistic(),
    "squared": Linear(),
    "huber": Linear(loss="huber"),
}


def _is_of_river(model: object) -> bool:
    """Tell whether a model is one of River's: by name, or as an object."""
    return not isinstance(model, str) or model.startswith(RIVER)


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class LearningSettings(_Settings):
    """`[learning]`: the model and the base algorithm.

    With a River model, `features`, `neighbours` and `last_answer` do nothing, and the model `auto` detects drift.

    >>> LearningSettings(algorithm="fedomd", l1=0.01).learner("classification", seed=0).algorithm.l1
    0.01
    >>> LearningSettings().features, LearningSettings(l2=0.1).features
    ('auto', 'rounds')
    """

    model: Any = "auto"
    """The model that is trained once a round: softmax, logistic, squared or huber; `auto` is softmax for labels and
    squared for targets; or a River model, such as `river:linear_model.SoftmaxRegression`, that learns and predicts
    record by record."""
    algorithm: str = "fedavg"
    """The base algorithm of a round: `fedavg`, `fedomd`, or that of another package."""
    mirror: Literal["euclidean", "hypentropic", "p-norm"] = "p-norm"
    """The mirror map of `fedomd`; with `euclidean` it is FedAvg."""
    average: Literal["primal", "dual"] = "primal"
    """Where `fedomd` averages the clients."""
    l1: float = Field(0.0, ge=0.0, allow_inf_nan=False)
    """The weight of the L1 penalty of `fedomd`."""
    l2: float = Field(0.0, ge=0.0, allow_inf_nan=False)
    """The weight of the squared penalty."""
    radius: float = Field(RADIUS, gt=0.0)
    """The greatest norm of a model's weights."""
    local_batch: int | None = Field(
        None, ge=1, le=MOST, json_schema_extra={"unit": "records", "unset": "one step a round"}
    )
    """Records of a local step."""
    gamma: float = Field(1.0, gt=0.0, le=1.0)
    """The share of a round's records that a client trains on."""
    exchange: Literal["difference", "model"] = "difference"
    """Whether clients send what they have changed, or whole models."""
    features: Literal["auto", "linear", "ferns", "rounds"] = "auto"
    """The models that learn between rounds: `linear` models, `ferns`, both (`auto`), or none (`rounds`: a round is
    one step); unless given it is `rounds` with another profile than `adaptive`, and where `model`, `algorithm`, `l2`,
    `local_batch`, `gamma` or `profile.step` says how that step is made."""
    neighbours: bool = True
    """Whether each client also predicts from the nearest of its own last records, which are not sent."""
    last_answer: bool = True
    """Whether each client also predicts by a model of its own, which is not sent, and from the last label or target
    that it learnt."""
    bytes: float | Literal["auto"] = Field("auto", json_schema_extra={"unit": "bytes a record"})
    """The budget of each client's updates from round 5 on, a positive number; `auto`: none."""

    @model_validator(mode="before")
    @classmethod
    def _rounds_where_steps_are_chosen(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "features" in given:
            return given
        chosen = any(
            given.get(name, cls.model_fields[name].default) != cls.model_fields[name].default for name in STEPS
        )
        return {**given, "features": "rounds"} if chosen else given

    @field_validator("model")
    @classmethod
    def _model_exists(cls, model: Any) -> Any:
        if _is_of_river(model):
            from streamfl.models.river_models import given  # noqa: PLC0415

            given(model)
        elif model not in ("auto", *MODELS):
            raise UsageError(f"no model is called {model!r}: take one of auto, {', '.join(MODELS)}, or {RIVER}NAME")
        return model

    @field_validator("algorithm")
    @classmethod
    def _algorithm_exists(cls, name: str) -> str:
        named_algorithm(name)
        return name

    @field_validator("bytes", mode="before")
    @classmethod
    def _parse_bytes(cls, value: object) -> object:
        if value == "auto":
            return value
        try:
            number = math.nan if isinstance(value, bool) else float(str(value))
        except ValueError:
            number = math.nan
        if not 0.0 < number < math.inf:
            raise UsageError(f"bytes {value}: no number of bytes a record; give a positive number, or auto")
        return number

    @model_validator(mode="after")
    def _options_have_an_effect(self) -> Self:
        idle = sorted((OF_SOME & self.model_fields_set) - set(named_algorithm(self.algorithm).takes))
        if idle:
            names = " and ".join(idle)
            others = " or ".join(name for name, kind in ALGORITHMS.items() if set(idle) <= set(kind.takes))
            raise UsageError(
                f"{names}: only for {others}, and the algorithm is {self.algorithm}; take {others}, or leave it out"
            )
        return self

    def beside(self, profile: "ProfileSettings", privacy: "PrivacySettings") -> Self:
        """Return the settings as they hold with a profile, and with what is told of records.

        Unless `features` is given, it is `rounds` with a profile other than `adaptive`, or with a step of its own, or
        where only sums over all clients are told.

        >>> LearningSettings().beside(ProfileSettings(profile="paper"), PrivacySettings()).features
        'rounds'
        """
        plain = profile.profile == "adaptive" and profile.step is None and privacy.sums == "by-client"
        return (
            self if plain or "features" in self.model_fields_set else self.model_copy(update={"features": "rounds"})
        )

    def budget(self, size_of: Callable[[Update], int]) -> Budget | None:
        """Return the budget of a client's updates, whose bytes `size_of` returns; None without one."""
        return None if self.bytes == "auto" else Budget(self.bytes, size_of)

    def check_budget(self, size: int | None) -> None:
        """Check that a budget can be kept with these settings, which are those beside a profile.

        Parameters
        ----------
        size
            The records of a client's round; None if rounds are closed by the clock.

        Raises
        ------
        UsageError
            The models cannot be rounded more coarsely, or no update of so many records keeps the budget.

        >>> LearningSettings(bytes=12.5).check_budget(64)
        >>> LearningSettings(bytes=12.5).check_budget(63)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        streamfl.errors.UsageError: bytes 12.5: an update of 63 records may then take 788 bytes, and takes at ...
        """
        if self.bytes == "auto":
            return
        if self.features == "rounds" or _is_of_river(self.model):
            what = "the model of rounds" if self.features == "rounds" else "a River model"
            raise UsageError(
                f"bytes {self.bytes:g}: what {what} sends cannot be made coarser; leave bytes out, or take features "
                "auto, linear or ferns without a River model"
            )
        fewest = FEWEST[self.features]
        if size is not None and self.bytes * size < fewest:
            raise UsageError(
                f"bytes {self.bytes:g}: an update of {size} records may then take {self.bytes * size:.0f} bytes, and "
                f"takes at least {fewest}; give {math.ceil(fewest / size)} or more, or make rounds larger"
            )

    def river_model(self, task: Task) -> "FederatedRiverModel | None":
        """Return the River model to federate, or None.

        Raises
        ------
        UsageError
            The model is for the other task.
        """
        if not _is_of_river(self.model):
            return None
        from streamfl.models.river_models import FederatedRiverModel, given  # noqa: PLC0415

        return FederatedRiverModel(given(self.model), task)

    def learner(self, task: Task, seed: int) -> Learner:
        """Return the settings of the core for learning.

        Raises
        ------
        UsageError
            The model is for the other task.
        """
        return Learner(
            model=MODELS[self.loss(task)],
            algorithm=self._algorithm(),
            l2=self.l2,
            local_batch=self.local_batch,
            gamma=self.gamma,
            exchange=self.exchange,
            seed=seed,
            between=self._between(task, seed),
        )

    def _between(self, task: Task, seed: int) -> BetweenRounds[Any, Any] | None:
        """Return the models between rounds: a River model, native models, or None."""
        river = self.river_model(task)
        if river is not None:
            return ExternalBetweenRounds(river)
        if self.features == "rounds":
            return None
        own = {"neighbours": self.neighbours, "last_answer": self.last_answer}
        return NativeBetweenRounds(NativeSettings(self.features, **own, targets=task == "regression", seed=seed))

    def loss(self, task: Task) -> Loss:
        """Return the loss, with `auto` resolved.

        Raises
        ------
        UsageError
            The loss is for the other task.
        """
        own: Loss | None = next((name for name in MODELS if name == self.model), None)
        if own is not None and (MODELS[own].link == "identity") != (task == "regression"):
            what = "numbers, and these are labels" if task == "classification" else "labels, and these are numbers"
            raise UsageError(f"model {own} predicts {what}: leave it out, or set the other task")
        return own or ("softmax" if task == "classification" else "squared")

    def _algorithm(self) -> Algorithm:
        return named_algorithm(self.algorithm).of(
            AlgorithmOptions(radius=self.radius, mirror=self.mirror, average=self.average, l1=self.l1)
        )


class PrivacySettings(_Settings):
    """`[privacy]`: what the coordinator, and everybody who reads the log, may know of the numbers about records.

    With `noise` totals are differentially private for records. With `masked` the clients of a total share the noise,
    so that at least `fewest` of them have to be honest; with `pooled` each adds all of it.
    """

    sums: Sums = "by-client"
    """`by-client`: all that each client sends; `masked`: the totals over the clients of a round; `pooled`: the same
    totals in the clear, to compare with, which protects nothing."""
    fewest: int = Field(FEWEST_CLIENTS, ge=2, le=MOST, json_schema_extra={"unit": "clients"})
    """With `masked`, the fewest clients about whom totals tell anything, and how many clients name a feature or label
    in one round before it is taken up."""
    noise: float = Field(0.0, ge=0.0, allow_inf_nan=False)
    """The noise multiplier of the Gaussian mechanism, which hides each record in totals; 0: no noise."""
    radius: float = Field(1.0, gt=0.0, allow_inf_nan=False)
    """With `noise`, records whose features, with the constant 1, have a greater norm are shortened to it."""
    delta: float = Field(1e-6, gt=0.0, lt=1.0, json_schema_extra={"decides": False})
    """With `noise`, the delta at which epsilon is told."""

    @property
    def mechanism(self) -> Noise | None:
        """Return the noise on sums; None: there is none."""
        if not self.noise:
            return None
        return Noise(self.noise, self.radius, self.fewest if self.sums == "masked" else 1)

    def check_noise(self, learning: LearningSettings, profile: "ProfileSettings", *, scaling: bool) -> None:
        """Check that noise can hide a record in all that is sent.

        Raises
        ------
        UsageError
            It cannot: something that a record can change without bound is sent, or old records are used again.

        >>> PrivacySettings(sums="pooled", noise=1.0).check_noise(
        ...     LearningSettings(features="rounds"), ProfileSettings(), scaling=False
        ... )
        Traceback (most recent call last):
        streamfl.errors.UsageError: privacy.noise: the detector excess uses held-out records again; take glr
        """
        if not self.noise:
            return
        why = {
            "single clients' numbers would need far more of it; take sums masked": self.sums == "by-client",
            "moments of features have no bound; scale the features beforehand, and take scaling false": scaling,
            f"the profile {profile.profile} asks for history or whole steps; take adaptive": (
                profile.profile != "adaptive"
            ),
            f"the detector {profile.detector} uses held-out records again; take glr": profile.detector == "excess",
            "a step of its own has no bound; leave out algorithm, l2, local_batch, gamma and step": (
                learning.algorithm != "fedavg"
                or learning.local_batch is not None
                or learning.l2 > 0.0
                or learning.gamma != 1.0
            ),
        }
        _refuse("privacy.noise", why)

    def check(self, learning: LearningSettings, task: Task, aggregation: str) -> None:
        """Check that a federation can learn from totals alone.

        Parameters
        ----------
        learning
            As it holds with the profile.
        task, aggregation
            What is learnt, and how differences are combined.

        Raises
        ------
        UsageError
            It cannot: something needs the numbers of each client.

        >>> PrivacySettings(sums="masked").check(LearningSettings(features="rounds"), "classification", "mean")
        >>> PrivacySettings(sums="masked").check(
        ...     LearningSettings(features="rounds"), "regression", "mean"
        ... )  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        streamfl.errors.UsageError: privacy.sums masked: the unit of targets is a median over clients, so the ...
        """
        if self.sums == "by-client":
            return
        river = _is_of_river(learning.model)
        why = {
            "the unit of targets is a median over clients, so the task must be classification": task == "regression",
            "what a River model learns is no sum; leave learning.model out": river,
            "what models learn between rounds is no sum over a fixed set of numbers; take features rounds": (
                learning.features != "rounds"
            ),
            "whole models are no differences; leave learning.exchange out": learning.exchange == "model",
            f"{aggregation} compares clients; take aggregation mean": aggregation != "mean",
        }
        _refuse(f"privacy.sums {self.sums}", why)


def _refuse(setting: str, why: Mapping[str, bool]) -> None:
    """Raise the first of some reasons that holds."""
    for reason, holds in why.items():
        if holds:
            raise UsageError(f"{setting}: {reason}")


class ProfileSettings(_Settings):
    """`[profile]`: how drift is handled.

    >>> type(ProfileSettings(profile="paper").create(100, LearningSettings().learner("regression", seed=0))).__name__
    'Paper'
    """

    profile: str = "adaptive"
    """How drift is handled: `adaptive`, `experts`, `paper`, or a profile of another package."""
    detector: str = "excess"
    """The drift detector of `adaptive`: `excess`, `glr`, `e-detector`, `river:NAME`, or that of another package."""
    rho_scale: float = Field(1.0, ge=0.0)
    """Profile `paper`: the factor of the thresholds of its tests; less makes them more sensitive."""
    optimistic: Literal["history", "regret"] = "history"
    """Profile `paper`: whether the least possible loss is estimated from old records or from the regret bound."""
    start: Literal["scratch", "warm"] | None = Field(
        None, json_schema_extra={"unset": "scratch with `paper`, warm with `experts`"}
    )
    """Whether new models start untrained, or from the last one that served."""
    order_after_alarm: Literal["reset", "continue"] = "reset"
    """Profile `paper`: whether the order of blocks begins anew after an alarm."""
    max_order: int | Literal["none"] = 8
    """Blocks of `paper` and instances of `experts` have at most 2^max_order rounds, 0 to 20, so that the cost of a
    round stays bounded; `none`: no cap, as their theorems assume."""
    step: float | None = Field(
        None,
        gt=0.0,
        allow_inf_nan=False,
        json_schema_extra={"unset": "1 with `paper`, 16 with `adaptive` and whitened steps"},
    )
    """The largest step size of the profile."""

    @field_validator("profile")
    @classmethod
    def _profile_exists(cls, name: str) -> str:
        named_profile(name)
        return name

    @field_validator("detector")
    @classmethod
    def _detector_exists(cls, name: str) -> str:
        named_detector(name)
        return name

    @field_validator("max_order", mode="before")
    @classmethod
    def _parse_order(cls, value: object) -> object:
        text = str(value)
        if text != "none" and not (text.isdecimal() and int(text) <= HIGHEST_ORDER):
            raise UsageError(
                f"max_order {text}: not an order; give a whole number from 0 to {HIGHEST_ORDER}, or none"
            )
        return text if text == "none" else int(text)

    def create(self, horizon: int, learner: Learner) -> Profile:
        """Return the profile in its initial state, for a stream of `horizon` rounds."""
        return named_profile(self.profile).of(
            ProfileOptions(
                learner=learner,
                horizon=horizon,
                detector=partial(named_detector, self.detector),
                rho_scale=self.rho_scale,
                optimistic=self.optimistic,
                start=self.start,
                order_after_alarm=self.order_after_alarm,
                max_order=None if self.max_order == "none" else self.max_order,
                step=self.step,
            )
        )
