"""Pydantic's validation errors of settings, as one sentence that shows no value."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from streamfl.bounds import bounded
from streamfl.errors import did_you_mean

_WHY = {"missing": "it is required", "tuple_type": "it must be a list, in square brackets"}


def first_of(error: ValidationError, model: type[BaseModel]) -> str:
    """Return the first wrong setting and the reason; unknown settings come first, as they may cause the others.

    Parameters
    ----------
    error
        The model's error; messages of its own validators end with the remedy.
    """
    return bounded(_first_of(error, model))


def _first_of(error: ValidationError, model: type[BaseModel]) -> str:
    errors = error.errors(include_input=False, include_url=False)
    first = min(errors, key=lambda one: one["type"] != "extra_forbidden")
    *tables, name = (str(part) for part in first["loc"]) if first["loc"] else ("",)
    place = ".".join((*tables, name))
    if first["type"] == "extra_forbidden":
        return f"{place}: there is no such setting{did_you_mean(name, settings_in(model, tables))}"
    why = _WHY.get(first["type"], first["msg"].removeprefix("Value error, "))
    return f"{place}: {why}" if place else why


def settings_in(model: type[BaseModel], tables: Sequence[str] = ()) -> Sequence[str]:
    """Return the names of the settings of a model, or of a table in it; empty if that is not a model.

    >>> from streamfl.live.settings.settings import FederationSettings
    >>> settings_in(FederationSettings, ["client"])
    ['key', 'coordinator_key', 'host', 'buffer', 'retry', 'stop_within']
    """
    table: Any = model
    for name in tables:
        fields = getattr(table, "model_fields", {})
        table = fields[name].annotation if name in fields else None
    return [field.alias or name for name, field in getattr(table, "model_fields", {}).items()]
