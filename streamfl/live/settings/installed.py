"""The installed connectors, by entry point `streamfl.connectors`, and their own settings."""

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points

from pydantic import BaseModel, ValidationError

from streamfl.errors import UsageError
from streamfl.live.settings.validation import first_of
from streamfl.runtime.ports import Connector

GROUP = "streamfl.connectors"


def installed() -> Mapping[str, EntryPoint]:
    """Return the connectors by name; none is imported.

    >>> "kafka" in installed()
    True
    """
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def connector_named(name: str) -> type[Connector]:
    """Return the connector of a name.

    Raises
    ------
    UsageError
        No connector of that name is installed, or it cannot be imported, or it has no settings model.
    """
    connectors = installed()
    if name not in connectors:
        raise UsageError(
            f"[federation] connector: no {name!r} is installed; there are {', '.join(sorted(connectors))}"
        )
    try:
        connector: type[Connector] = connectors[name].load()
    except (ImportError, AttributeError) as error:
        raise UsageError(f"[federation] connector: {name!r} cannot be imported: {error}; install it again") from error
    model = getattr(connector, "Settings", None)
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise UsageError(f"[federation] connector: {name!r} has no model `Settings`; ask its authors for one")
    return connector


def section(name: str, model: type[BaseModel], table: Mapping[str, object]) -> BaseModel:
    """Return the settings of a connector.

    Raises
    ------
    UsageError
        Names the first setting that is wrong, never its value.

    Examples
    --------
    >>> section("kafka", connector_named("kafka").Settings, {"part_bytes": 0, "bootstrap_servers": "b:9092"})
    Traceback (most recent call last):
    streamfl.errors.UsageError: [kafka] part_bytes: Input should be greater than or equal to 1000
    """
    try:
        return model.model_validate(table)
    except ValidationError as error:
        raise UsageError(f"[{name}] {first_of(error, model)}") from None
