"""River's stateless steps: the same at every client, because all clients have the same parameters."""

from typing import Any

from river import compose, feature_extraction, preprocessing

from streamfl.models.river_models.form import Form


def _unseeded(model: Any) -> str | None:
    return "every client would hash differently: give a seed" if model.seed is None else None


def _learns_values(model: Any) -> str | None:
    if model.drop_zeros or model.categories is not None:
        return None
    return "it learns which values occur: give drop_zeros=True, or categories"


def _learns_codes(model: Any) -> str | None:
    if model.categories is not None:
        return None
    return "its codes follow the order in which values arrive, which differs between clients: give categories"


_STATELESS = Form()

FORMS: dict[type[Any], Form] = {
    compose.Discard: _STATELESS,
    compose.FuncTransformer: _STATELESS,  # River requires a pure function
    compose.Prefixer: _STATELESS,
    compose.Renamer: _STATELESS,
    compose.Select: _STATELESS,
    compose.SelectType: _STATELESS,
    compose.Suffixer: _STATELESS,
    feature_extraction.BagOfWords: _STATELESS,
    feature_extraction.PolynomialExtender: _STATELESS,
    preprocessing.Binarizer: _STATELESS,
    preprocessing.Normalizer: _STATELESS,
    preprocessing.FeatureHasher: Form(obstacle=_unseeded),
    preprocessing.OneHotEncoder: Form(obstacle=_learns_values),
    preprocessing.OrdinalEncoder: Form(obstacle=_learns_codes),
}
