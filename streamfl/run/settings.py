"""Settings that users choose, with their defaults; only this module turns them into settings of the core."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from streamfl.bounds import MOST
from streamfl.errors import UsageError
from streamfl.learning.algorithms.base import RADIUS, Algorithm, AlgorithmOptions, Average
from streamfl.learning.algorithms.mirror_maps import MIRROR_MAPS
from streamfl.learning.local_round import Learner
from streamfl.learning.model import Task
from streamfl.learning.objectives import Accuracy, Balanced, BestKappa, Cost, Objective
from streamfl.learning.online_models import OnlineModels
from streamfl.learning.pooling.masks import FEWEST as FEWEST_CLIENTS
from streamfl.learning.pooling.masks import Sums
from streamfl.learning.pooling.noise import Noise
from streamfl.learning.profiles.base import (
    HIGHEST_ORDER,
    Optimistic,
    OrderAfterAlarm,
    Profile,
    ProfileOptions,
    Start,
)
from streamfl.machines.client.budget import RAW, Budget
from streamfl.online.external.online_models import ExternalOnlineModels
from streamfl.online.native.online_models import NativeOnlineModels
from streamfl.plugins.algorithms import ALGORITHMS
from streamfl.plugins.detectors import DETECTORS, named_detector
from streamfl.plugins.models import AUTO, MODELS, check_model, external_model, is_external, loss_of
from streamfl.plugins.profiles import PROFILES
from streamfl.protocol.external.interface import ExternalModel
from streamfl.protocol.messages import Update
from streamfl.protocol.messages.decision_rule import LARGEST, LEAST
from streamfl.protocol.native.settings import NativeSettings
from streamfl.protocol.registered import Registered

# Options that only some algorithms use.
OF_SOME = {option.name for option in fields(AlgorithmOptions)} - {"radius"}

# Options that say how the step of a round is made: with another one than the default, a round is one step.
STEPS = ("model", "algorithm", "l2", "local_batch", "gamma")

# A price and its label, which may have commas and equals signs itself.
_PRICE = re.compile("(.+?)=([^=,]+)(?:,|$)", re.DOTALL)

# No update takes fewer bytes, however coarse: with one feature, two labels and ten records it takes at least 617
# (auto), 585 (ferns) or 368 (linear); with eight features and 100 records 976, 951 or 447.
FEWEST = {"auto": 570, "ferns": 540, "linear": 340}


def _registered(registry: Registered[Any]) -> dict[str, Any]:
    """Return the values of a setting that names what is registered, for the reference: ours, and those of others."""
    return {"enum": [*registry.own, *registry.others], "registered": True}


def known_to(find: Callable[[str], object]) -> AfterValidator:
    """Return what refuses a name that `find` does not know."""

    def check(name: str) -> str:
        find(name)
        return name

    return AfterValidator(check)


def _price_of(label: str, price: object) -> float:
    try:
        value = float(str(price))
    except ValueError:
        value = math.nan
    if not LEAST <= value <= LARGEST:
        raise UsageError(f"costs: the price of {label} is {price}; give a number from {LEAST:g} to {LARGEST:g}")
    return value


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class LearningSettings(_Settings):
    """`[learning]`: the model and the base algorithm.

    With a River model or a model of another package that is federated by its weights, `features`, `neighbours` and
    `last_answer` have no effect, and the model `auto` detects drift.

    >>> LearningSettings(algorithm="fedomd", l1=0.01).learner("classification", seed=0).algorithm.l1
    0.01
    >>> LearningSettings().features, LearningSettings(l2=0.1).features
    ('auto', 'rounds')
    """

    model: Any = Field(AUTO, json_schema_extra=_registered(MODELS))
    """The model that clients train once per round (`auto`: softmax for labels, squared for targets); a River model
    such as `river:linear_model.SoftmaxRegression`, which learns and predicts record by record; or a model of another
    package, whose weights are averaged after each round."""
    algorithm: Annotated[str, known_to(ALGORITHMS.find)] = Field("fedavg", json_schema_extra=_registered(ALGORITHMS))
    """The base algorithm with which clients train in a round."""
    mirror: Annotated[str, known_to(MIRROR_MAPS.find)] = Field("p-norm", json_schema_extra=_registered(MIRROR_MAPS))
    """The mirror map of `fedomd`; with `euclidean` it is FedAvg."""
    average: Average = "primal"
    """The space in which `fedomd` averages the clients' models."""
    l1: float = Field(0.0, ge=0.0, allow_inf_nan=False)
    """The weight of the L1 penalty of `fedomd`."""
    mu: float = Field(0.01, ge=0.0, le=1e6)
    """How strongly `fedprox` pulls local steps back to the round's model; 0 is FedAvg."""
    l2: float = Field(0.0, ge=0.0, allow_inf_nan=False)
    """The weight of the squared (L2) penalty."""
    radius: float = Field(RADIUS, gt=0.0)
    """The largest norm that a model's weights may have."""
    local_batch: int | None = Field(
        None, ge=1, le=MOST, json_schema_extra={"unit": "records", "unset": "one step a round"}
    )
    """The number of records in a client's training step."""
    gamma: float = Field(1.0, gt=0.0, le=1.0)
    """The share of a round's records that a client trains on."""
    features: Literal["auto", "linear", "ferns", "rounds"] = "auto"
    """The models that learn record by record: `linear` models, `ferns` (fast random trees), both (`auto`), or none
    (`rounds`: a round is one step); the default is `rounds` if the profile is not `adaptive`, or if `model`,
    `algorithm`, `l2`, `local_batch`, `gamma` or `profile.step` is set."""
    neighbours: bool = True
    """Whether each client also predicts from the most similar of its own last records, which it does not send."""
    last_answer: bool = True
    """Whether each client also predicts from a model of its own, which it does not send, and from the last label or
    target that it learnt."""
    objective: Literal["accuracy", "balanced", "kappa", "cost"] = Field(
        "accuracy", json_schema_extra={"decides": False}
    )
    """What predicted labels are to be good at: right answers (`accuracy`), the mean recall of the labels
    (`balanced`), agreement beyond chance (`kappa`), or the price of wrong ones (`cost`); what is learnt does not
    depend on it, and all but `accuracy` need models that learn record by record."""
    costs: dict[str, float] = Field(default_factory=dict, json_schema_extra={"unset": "`{}`", "decides": False})
    """With the objective `cost`, the price of missing a record of a label, such as `{ failure = 20 }`; that of any
    other label is 1."""
    bytes: float | Literal["auto", "raw"] = Field("auto", json_schema_extra={"unit": "bytes a record"})
    """The limit on the size of each client's updates from round 5 on, a positive number; `raw`: the bytes of the
    records' features as float32; `auto`: no limit."""

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
        check_model(model)
        return model

    @field_validator("costs", mode="before")
    @classmethod
    def _parse_costs(cls, value: object) -> object:
        form = "the price of each label as LABEL=PRICE, such as failure=20"
        if not isinstance(value, str | Mapping):
            raise UsageError(f"costs {value}: give {form}, or a table of them")
        given = value.items() if isinstance(value, Mapping) else _PRICE.findall(value)
        if isinstance(value, str) and (not given or _PRICE.sub("", value) or value.endswith(",")):
            raise UsageError(f"costs {value}: write {form}")
        prices: dict[str, float] = {}
        for label, price in given:
            name = str(label).strip() if isinstance(value, str) else label
            if name in prices:
                raise UsageError(f"costs: {name} has two prices; give one")
            prices[name] = _price_of(name, price)
        return prices

    @model_validator(mode="after")
    def _objective_has_its_costs(self) -> Self:
        if (self.objective == "cost") != bool(self.costs):
            needed = "give the price of missing a label, such as failure=20"
            idle = "which has no prices; set it to cost, or leave costs out"
            why = needed if self.objective == "cost" else idle
            raise UsageError(f"costs: the objective is {self.objective}, {why}")
        return self

    def check_objective(self, task: Task) -> None:
        """Check that predictions can serve the objective with these settings, which hold with a profile.

        Raises
        ------
        UsageError
            There are no labels, or models that learn record by record do not predict them.

        >>> rounds = LearningSettings(objective="balanced", features="rounds")
        >>> rounds.check_objective("classification")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        streamfl.errors.UsageError: objective balanced: it needs models that learn record by record; leave it ...
        """
        if self.objective == "accuracy":
            return
        if task == "regression":
            raise UsageError(f"objective {self.objective}: it is about labels, but these are numbers; leave it out")
        if self.features == "rounds" or is_external(self.model):
            raise UsageError(
                f"objective {self.objective}: it needs models that learn record by record; leave it out, or set "
                "features to auto, linear or ferns, without a model of another library or secure aggregation"
            )

    @property
    def objective_chosen(self) -> Objective:
        """Return what answers are to be good at, as the core has it.

        >>> LearningSettings(objective="cost", costs="failure=20,ok=1").objective_chosen
        Cost(costs={'failure': 20.0, 'ok': 1.0})
        """
        others: dict[str, Objective] = {"accuracy": Accuracy(), "balanced": Balanced(), "kappa": BestKappa()}
        return others.get(self.objective, Cost(self.costs))

    @field_validator("bytes", mode="before")
    @classmethod
    def _parse_bytes(cls, value: object) -> object:
        if value in ("auto", "raw"):  # what is given need not be hashable
            return value
        try:
            number = math.nan if isinstance(value, bool) else float(str(value))
        except ValueError:
            number = math.nan
        if not 0.0 < number < math.inf:
            raise UsageError(
                f"bytes {value}: this is not a number of bytes per record; give a positive number, raw or auto"
            )
        return number

    @model_validator(mode="after")
    def _options_have_an_effect(self) -> Self:
        idle = sorted((OF_SOME & self.model_fields_set) - set(ALGORITHMS.find(self.algorithm).takes))
        if idle:
            names = " and ".join(idle)
            others = " or ".join(name for name, kind in ALGORITHMS.items() if set(idle) <= set(kind.takes))
            raise UsageError(
                f"{names}: only for {others}, but the algorithm is {self.algorithm}; use {others}, or leave {names} "
                "out"
            )
        if ALGORITHMS.find(self.algorithm).of_several_steps and self.local_batch is None:
            raise UsageError(
                f"algorithm {self.algorithm}: with one step a round it is fedavg; set local_batch, a step's records"
            )
        return self

    def resolved_with(self, profile: "ProfileSettings", privacy: "PrivacySettings") -> Self:
        """Return the settings as they hold with a profile, and with what is told of records.

        Unless `features` is given, it is `rounds` with a profile other than `adaptive`, or with a step of its own, or
        where only sums over all clients are told.

        >>> LearningSettings().resolved_with(ProfileSettings(profile="paper"), PrivacySettings()).features
        'rounds'
        """
        plain = profile.profile == "adaptive" and profile.step is None and privacy.secure_aggregation == "off"
        return (
            self if plain or "features" in self.model_fields_set else self.model_copy(update={"features": "rounds"})
        )

    def budget(self, size_of: Callable[[Update], int]) -> Budget | None:
        """Return the budget of a client's updates, whose bytes `size_of` returns; None without one."""
        if self.bytes == "auto":
            return None
        return Budget(size_of, of_value=RAW) if self.bytes == "raw" else Budget(size_of, of_record=self.bytes)

    def check_budget(self, size: int | None) -> None:
        """Check that a budget can be kept with these settings, which hold with a profile.

        Parameters
        ----------
        size
            The records of a client's round; None if rounds are closed by the clock.

        Raises
        ------
        UsageError
            The models cannot be rounded more coarsely, or no update of this many records keeps the budget.

        >>> LearningSettings(bytes=12.5).check_budget(46)
        >>> LearningSettings(bytes=12.5).check_budget(45)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        streamfl.errors.UsageError: bytes 12.5: an update of 45 records could then have 562 bytes, but needs ...
        """
        if self.bytes == "auto":
            return
        if self.features == "rounds" or is_external(self.model):
            given = self.bytes if self.bytes == "raw" else f"{self.bytes:g}"
            what = "the model of rounds" if self.features == "rounds" else "a model of another library"
            raise UsageError(
                f"bytes {given}: what {what} sends cannot be rounded; leave bytes out, or set features to "
                "auto, linear or ferns without such a model"
            )
        fewest = FEWEST[self.features]
        # As few bytes as the raw records of a small round take, no update has: it comes as near as it can.
        if self.bytes != "raw" and size is not None and self.bytes * size < fewest:
            raise UsageError(
                f"bytes {self.bytes:g}: an update of {size} records could then have {self.bytes * size:.0f} bytes, "
                f"but needs at least {fewest}; give {math.ceil(fewest / size)} or more, or make rounds larger"
            )

    def external_model(self, task: Task) -> ExternalModel | None:
        """Return the model of another library, or of the user, to federate; None: it is one of streamfl's own.

        Raises
        ------
        UsageError
            The model is for the other task.
        """
        return external_model(self.model, task)

    def learner(self, task: Task, seed: int) -> Learner:
        """Return the settings of the core for learning.

        Raises
        ------
        UsageError
            The model is for the other task.
        """
        return Learner(
            model=MODELS[self.loss(task)](),
            algorithm=self._algorithm(),
            l2=self.l2,
            local_batch=self.local_batch,
            gamma=self.gamma,
            seed=seed,
            online=self._online(task, seed),
        )

    def _online(self, task: Task, seed: int) -> OnlineModels[Any, Any] | None:
        """Return the online models: a model of others, native models, or None."""
        external = self.external_model(task)
        if external is not None:
            return ExternalOnlineModels(external)
        if self.features == "rounds":
            return None
        own = {"neighbours": self.neighbours, "last_answer": self.last_answer}
        return NativeOnlineModels(NativeSettings(self.features, **own, targets=task == "regression", seed=seed))

    def loss(self, task: Task) -> str:
        """Return the loss, with `auto` resolved.

        Raises
        ------
        UsageError
            The loss is for the other task.
        """
        own = loss_of(self.model)
        if own is None:
            return "softmax" if task == "classification" else "squared"
        if (own.link == "identity") != (task == "regression"):
            what = "numbers, but these are labels" if task == "classification" else "labels, but these are numbers"
            raise UsageError(f"model {self.model} predicts {what}; leave model out, or set the other task")
        return str(self.model)

    @property
    def weighs_by_steps(self) -> bool:
        """Whether what a client's difference counts depends on its number of local steps."""
        algorithm = self._algorithm()
        return algorithm.work(1) != algorithm.work(2)

    def _algorithm(self) -> Algorithm:
        return ALGORITHMS.find(self.algorithm).of(
            AlgorithmOptions(radius=self.radius, mirror=self.mirror, average=self.average, l1=self.l1, mu=self.mu)
        )


class PrivacySettings(_Settings):
    """`[privacy]`: what the coordinator, and everybody who reads the log, may know of the numbers about records.

    With `noise`, totals are differentially private for each record. With `masked`, the clients in a total share the
    noise, so at least `min_clients_per_sum` of them must be honest. With `pooled`, each client adds all of it.
    """

    secure_aggregation: Sums = "off"
    """What the coordinator sees: what each client sends (`off`), only totals over the clients of a round
    (`masked`, secure aggregation), or the same totals without masks, for comparison, which protects nothing
    (`pooled`)."""
    min_clients_per_sum: int = Field(FEWEST_CLIENTS, ge=2, le=MOST, json_schema_extra={"unit": "clients"})
    """With `masked`, the minimum number of clients in a total, and the number of clients that must name a feature or
    label in one round before the federation registers it."""
    noise: float = Field(0.0, ge=0.0, allow_inf_nan=False)
    """The noise multiplier of the Gaussian mechanism, which hides each record in the totals; 0: no noise."""
    radius: float = Field(1.0, gt=0.0, allow_inf_nan=False)
    """With `noise`, each record's features, together with the constant 1, are clipped to this norm."""
    delta: float = Field(1e-6, gt=0.0, lt=1.0, json_schema_extra={"decides": False})
    """With `noise`, the delta for which a replay reports epsilon; a live federation reports none."""

    @property
    def mechanism(self) -> Noise | None:
        """Return the noise on sums; None: there is none."""
        if not self.noise:
            return None
        return Noise(self.noise, self.radius, self.min_clients_per_sum if self.secure_aggregation == "masked" else 1)

    @property
    def fewest_clients(self) -> int:
        """Return the number of clients without which nothing can be learnt."""
        return 1 if self.secure_aggregation == "off" else self.min_clients_per_sum

    def check_clients(self, clients: int, remedy: str) -> None:
        """Raise a UsageError that ends with the remedy if so many clients are too few for a total.

        >>> PrivacySettings(secure_aggregation="masked").check_clients(2, "choose more --clients")
        Traceback (most recent call last):
        streamfl.errors.UsageError: privacy.secure_aggregation masked: a total is over 3 clients or more
        (min_clients_per_sum), and there are 2: choose more --clients
        """
        if clients < self.fewest_clients:
            there = "there is 1" if clients == 1 else f"there are {clients:,}"
            raise UsageError(
                f"privacy.secure_aggregation {self.secure_aggregation}: a total is over {self.fewest_clients:,} "
                f"clients or more (min_clients_per_sum), and {there}: {remedy}"
            )

    def check_noise(self, learning: LearningSettings, profile: "ProfileSettings", *, scaling: bool) -> None:
        """Check that noise can hide a record in all that is sent.

        Raises
        ------
        UsageError
            It cannot: something that a record can change without bound is sent, or old records are used again.

        >>> PrivacySettings(secure_aggregation="pooled", noise=1.0).check_noise(
        ...     LearningSettings(features="rounds"), ProfileSettings(), scaling=False
        ... )
        Traceback (most recent call last):
        streamfl.errors.UsageError: privacy.noise: the detector excess uses held-out records again; use glr
        """
        if not self.noise:
            return
        why = {
            "with the numbers of single clients it would need far more noise; set secure_aggregation to masked": (
                self.secure_aggregation == "off"
            ),
            "one record can change the moments of features without limit; scale the features beforehand, and set "
            "scaling to false": scaling,
            f"the profile {profile.profile} uses old records or whole steps, which noise cannot hide; use adaptive": (
                profile.profile != "adaptive"
            ),
            profile.scores_again: bool(profile.scores_again),
            f"the detector {profile.detector} needs scores by label, which noise leaves out; use glr": (
                named_detector(profile.detector).scouts
            ),
            "one record can change such a step without limit; leave out algorithm, l2, local_batch, gamma and step": (
                learning.algorithm != "fedavg"
                or learning.local_batch is not None
                or learning.l2 > 0.0
                or learning.gamma != 1.0
            ),
        }
        _refuse("privacy.noise", why)

    def check(self, learning: LearningSettings, profile: "ProfileSettings", task: Task, aggregation: str) -> None:
        """Check that a federation can learn from totals alone.

        Parameters
        ----------
        learning, profile
            As they hold with the other settings.
        task, aggregation
            What is learnt, and how differences are combined.

        Raises
        ------
        UsageError
            It cannot: something needs the numbers of each client; or old records are scored again under masks.

        >>> PrivacySettings(secure_aggregation="masked").check(
        ...     LearningSettings(features="rounds"), ProfileSettings(), "regression", "mean"
        ... )  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        streamfl.errors.UsageError: privacy.secure_aggregation masked: regression needs a median over clients, ...
        """
        if self.secure_aggregation == "off":
            return
        external = is_external(learning.model)
        why = {
            "regression needs a median over clients, which sums cannot give; the task must be classification": task
            == "regression",
            "what a model of another library learns cannot be sent as a sum; leave learning.model out": external,
            "what online models learn cannot be sent as a sum of fixed length; set learning.features to rounds": (
                learning.features != "rounds"
            ),
            "sums hide the number of steps of each client; set algorithm to fedavg": learning.weighs_by_steps,
            f"the aggregation {aggregation} compares clients, which sums hide; use mean": aggregation != "mean",
            f"two totals could reveal one client, because {profile.scores_again}": (
                self.secure_aggregation == "masked" and bool(profile.scores_again)
            ),
        }
        _refuse(f"privacy.secure_aggregation {self.secure_aggregation}", why)


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

    profile: Annotated[str, known_to(PROFILES.find)] = Field("adaptive", json_schema_extra=_registered(PROFILES))
    """How the federation handles drift."""
    detector: Annotated[str, known_to(named_detector)] = Field("excess", json_schema_extra=_registered(DETECTORS))
    """The drift detector of `adaptive`, where `river:NAME` is one of River's; with masked and pooled sums the default
    is `glr`, because `excess` scores old records again."""
    rho_scale: float = Field(1.0, ge=0.0)
    """Profile `paper`: the factor by which the thresholds of its tests are multiplied; smaller values make the tests
    more sensitive."""
    optimistic: Optimistic = "history"
    """Profile `paper`: whether to estimate the lowest possible loss from old records or from the regret bound."""
    start: Start | None = Field(None, json_schema_extra={"unset": "scratch with `paper`, warm with `experts`"})
    """Whether new models start untrained (`scratch`), or from the model that predicted last (`warm`)."""
    order_after_alarm: OrderAfterAlarm = "reset"
    """Profile `paper`: whether the order of blocks starts again at 0 after an alarm, or continues."""
    max_order: int | Literal["none"] = 8
    """The cap on blocks of `paper` and instances of `experts`, which have at most 2^max_order rounds (0 to 20), so
    that the cost of a round stays bounded; `none`: no cap, as the theorems assume."""
    step: float | None = Field(
        None,
        gt=0.0,
        allow_inf_nan=False,
        json_schema_extra={"unset": "1 with `paper`, 16 with `adaptive` and whitened steps"},
    )
    """The largest step size of the profile."""

    @field_validator("max_order", mode="before")
    @classmethod
    def _parse_order(cls, value: object) -> object:
        text = str(value)
        if text != "none" and not (text.isdecimal() and int(text) <= HIGHEST_ORDER):
            raise UsageError(
                f"max_order {text}: this is not an order; give a whole number from 0 to {HIGHEST_ORDER}, or none"
            )
        return text if text == "none" else int(text)

    def resolved_with(self, privacy: PrivacySettings) -> Self:
        """Return the settings as they hold with what is told of records: see `detector`.

        >>> ProfileSettings().resolved_with(PrivacySettings(secure_aggregation="masked")).detector
        'glr'
        """
        given = privacy.secure_aggregation == "off" or "detector" in self.model_fields_set
        return self if given else self.model_copy(update={"detector": "glr"})

    @property
    def scores_again(self) -> str:
        """Return what scores records of earlier rounds again, and what to take instead; "" if nothing does."""
        if self.profile == "adaptive" and named_detector(self.detector).compares:
            return f"the detector {self.detector} uses held-out records again; use glr"
        if self.profile == "paper" and self.optimistic == "history":
            return "the profile paper uses old records again; set optimistic to regret"
        return ""

    def create(self, horizon: int, learner: Learner) -> Profile:
        """Return the profile in its initial state, for a stream of `horizon` rounds."""
        return PROFILES.find(self.profile).of(
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
