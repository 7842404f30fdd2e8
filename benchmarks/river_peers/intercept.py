"""The constant feature that River's softmax regression lacks."""

from typing import Any

from river.base import Transformer


class Intercept(Transformer):
    """Adds a feature that is always 1, behind the scaler, which would make it 0."""

    def transform_one(self, x: dict[Any, Any]) -> dict[Any, Any]:
        return {**x, "intercept": 1.0}
