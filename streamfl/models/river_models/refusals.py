"""Why other models of River cannot be federated, and what to take instead."""

from typing import Any

LINEAR = "linear_model.SoftmaxRegression, LogisticRegression or LinearRegression"
SCALER = "preprocessing.StandardScaler"

GROWN = f"trees grown on different records have no mean: take {LINEAR}, or streamfl's own models"
KEPT = f"it keeps records, which do not leave their client: take {LINEAR}"
RESAMPLED = f"its members are drawn and judged on one client's stream: take one model, such as {LINEAR}"
FACTORS = f"factors start at random and have no common order: take {LINEAR} over PolynomialExtender"
SEVERAL = "a record has one label: take a model for a single label"
UNLABELLED = "it predicts no label"
ARRIVAL = "its state depends on the order in which records arrive, which differs between clients"
RANDOM = "every client would draw other random numbers"
CHOOSES = f"it judges models on one client's stream: use one of them, such as {LINEAR}"

# By module of River.
MODULES: dict[str, str] = {
    "active": "it chooses which labels to ask for, and clients have all labels: take the model in it",
    "anomaly": UNLABELLED,
    "cluster": UNLABELLED,
    "compat": f"it is a model of another library, with a state that streamfl does not know: take {LINEAR}",
    "conf": f"its interval is that of one client's errors: take {LINEAR}",
    "drift": "streamfl finds drift itself, in all clients' losses: take the model in it",
    "ensemble": RESAMPLED,
    "facto": FACTORS,
    "forest": GROWN,
    "imblearn": "it resamples by one client's labels: take the model in it",
    "misc": KEPT,
    "model_selection": CHOOSES,
    "multioutput": SEVERAL,
    "neighbors": KEPT,
    "reco": "users and items start at random: take a model of features",
    "rules": f"rules grown on different records have no mean: take {LINEAR}",
    "time_series": "a series has one order, clients' records have none in common: take linear_model.LinearRegression",
    "tree": GROWN,
}

# By class, if the module has others that can be federated, or there is a better remedy.
CLASSES: dict[str, str] = {
    "compose.Grouper": f"it keeps a transformer for each group: take {SCALER} without groups",
    "compose.TargetTransformRegressor": "its functions may keep targets: scale them beforehand",
    "dummy.NoChangeClassifier": ARRIVAL,
    "dummy.PriorClassifier": "it uses no feature: take naive_bayes.BernoulliNB",
    "dummy.StatisticRegressor": "it uses no feature: take linear_model.LinearRegression",
    "feature_extraction.Agg": f"{ARRIVAL}: aggregate before",
    "feature_extraction.RBFSampler": f"{RANDOM} when it first sees a feature: sample beforehand",
    "feature_extraction.RandomTreesEmbedding": f"{RANDOM} when it first sees a feature: embed beforehand",
    "feature_extraction.TFIDF": "documents are counted in one client only: take feature_extraction.BagOfWords",
    "feature_extraction.TargetAgg": f"{ARRIVAL}: aggregate before",
    "feature_selection.PoissonInclusion": f"{RANDOM}: take compose.Select",
    "feature_selection.SelectKBest": "every client would select other features: take compose.Select",
    "feature_selection.VarianceThreshold": "every client would select other features: take compose.Select",
    "linear_model.AdPredictor": "means and variances of beliefs have no weighted mean: take LogisticRegression",
    "linear_model.BayesianLinearRegression": "its matrix is not merged yet: take LinearRegression",
    "multiclass.OneVsOneClassifier": "take multiclass.OneVsRestClassifier",
    "multiclass.OutputCodeClassifier": f"{RANDOM}: take multiclass.OneVsRestClassifier",
    "preprocessing.AdaptiveStandardScaler": f"{ARRIVAL}: take {SCALER}",
    "preprocessing.GapEncoder": "topics start at random and have no common order: take feature_extraction.BagOfWords",
    "preprocessing.GaussianRandomProjector": f"{RANDOM} when it first sees a feature: project beforehand",
    "preprocessing.LDA": "topics start at random and have no common order: take feature_extraction.BagOfWords",
    "preprocessing.PredClipper": "take the regressor in it, and clip what it predicts",
    "preprocessing.PreviousImputer": f"{ARRIVAL}: impute before",
    "preprocessing.RobustScaler": f"quantiles of parts do not give those of the whole: take {SCALER}",
    "preprocessing.SparseRandomProjector": f"{RANDOM} when it first sees a feature: project beforehand",
    "preprocessing.StatImputer": "statistics of any kind cannot be merged: impute beforehand",
    "preprocessing.TargetMinMaxScaler": "its targets' scale is not merged: take the regressor in it",
    "preprocessing.TargetStandardScaler": "its targets' scale is not merged: take the regressor in it",
}


def refusal_of(kind: type[Any]) -> str:
    """Return why a class cannot be federated, and what to take instead.

    >>> from river import neighbors
    >>> refusal_of(neighbors.KNNClassifier)
    'it keeps records, which do not leave their client: take linear_model.SoftmaxRegression, ...'
    """
    package, _, rest = kind.__module__.partition(".")
    module = rest.partition(".")[0]
    if package == "river" and (reason := CLASSES.get(f"{module}.{kind.__name__}") or MODULES.get(module)):
        return reason
    return f"streamfl does not know what it learns: take {LINEAR}, or a pipeline that ends in one"
