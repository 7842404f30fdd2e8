"""Reads the settings: a TOML file, the environment and flags, in rising order of precedence."""

import json
import os
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, TomlConfigSettingsSource

from streamfl.bounds import bounded
from streamfl.errors import UsageError, did_you_mean
from streamfl.live.settings.installed import connector_named, installed, section
from streamfl.live.settings.paths import from_folder
from streamfl.live.settings.settings import PREFIX, FederationSettings
from streamfl.live.settings.validation import first_of


def load(path: Path, flags: Mapping[str, Any] | None = None) -> FederationSettings:
    """Return the settings of a file, the environment and flags.

    A relative path in the file begins at the file's folder; in the environment and flags, at the working directory.

    Parameters
    ----------
    flags
        Nested like the file; they override all else.

    Raises
    ------
    UsageError
        The file cannot be read, or a setting is wrong; the message names the first one, never its value.
    """
    # A connector's section may be any table: only the model of the chosen connector reads its own.
    sections: dict[str, Any] = {
        name: (dict[str, Any], Field({}, repr=False)) for name in installed() if _may_name_a_section(name)
    }

    class Layered(FederationSettings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            given = InitSettingsSource(settings_cls, dict(flags or {}))
            texts = InitSettingsSource(settings_cls, texts_of(os.environ, sections))
            of_file = from_folder(path.parent, TomlConfigSettingsSource(settings_cls, path).toml_data, _tables())
            return given, texts, env_settings, InitSettingsSource(settings_cls, of_file)

    if not path.is_file():
        raise UsageError(f"{path}: no such file; `streamfl init` writes one for your records")
    loaded = create_model("Loaded", __base__=Layered, **sections)
    _check_environment(os.environ, loaded.model_fields)
    try:
        settings = loaded()
        settings._section = _section_of(settings)
    except ValidationError as error:
        raise UsageError(f"{path}: {first_of(error, loaded)}") from None
    except UsageError as error:  # from a model, a detector or a connector
        raise UsageError(f"{path}: {error}") from error
    except (ValueError, RecursionError) as error:  # not TOML, or not UTF-8
        raise UsageError(f"{path}: {bounded(str(error))}") from error
    return settings


def _tables() -> dict[str, type[BaseModel]]:
    """Return the models of the tables by name."""
    annotated = {name: field.annotation for name, field in FederationSettings.model_fields.items()}
    return {name: model for name, model in annotated.items() if isinstance(model, type)}


def _section_of(settings: FederationSettings) -> BaseModel:
    name = settings.federation.connector
    model = connector_named(name).Settings
    if not _may_name_a_section(name):
        raise UsageError(f"[federation] connector: {name!r} cannot name a section; register it under another name")
    return section(name, model, getattr(settings, name))


def _may_name_a_section(name: str) -> bool:
    """Tell whether a connector's name is free: no table and no other attribute of the settings has it."""
    taken = name in FederationSettings.model_fields or hasattr(FederationSettings, name)
    return not taken and not name.startswith("_")


def texts_of(environment: Mapping[str, str], sections: Collection[str]) -> dict[str, Any]:
    """Return what the environment says of connectors' sections, as text: their own models make numbers of it.

    A list or a table is JSON. All else stays as it is, as it may be a password of digits.

    >>> texts_of({"STREAMFL_KAFKA__SASL_PLAIN_PASSWORD": "007", "STREAMFL_ROUNDS__SIZE": "5"}, ["kafka"])
    {'kafka': {'sasl_plain_password': '007'}}
    """
    found: list[dict[str, Any]] = []
    for variable, text in environment.items():
        table, *names = variable.removeprefix(PREFIX).lower().split("__")
        if variable.startswith(PREFIX) and table in sections and all(names) and names:
            nested: Any = _listed(text)
            for name in reversed(names):
                nested = {name: nested}
            found.append({table: nested})
    return merge(found)


def _listed(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, list | dict) else text


def _check_environment(environment: Mapping[str, str], tables: Collection[str]) -> None:
    """Refuse an environment variable for a table that does not exist: it would be ignored."""
    for variable in environment:
        table, nested, _ = variable.removeprefix(PREFIX).partition("__")
        if variable.startswith(PREFIX) and nested and table.lower() not in tables:
            suggestion = did_you_mean(table.lower(), tables)
            raise UsageError(f"{variable} in the environment: there is no table [{table.lower()}]{suggestion}")


def flag(text: str) -> dict[str, Any]:
    """Return the setting in `--set table.name=value`; a value that is not TOML is text.

    In a connector's section only quotes, lists and tables are TOML: its own model makes numbers of what is meant so,
    and a password of digits stays as it is.

    >>> flag("rounds.size=50"), flag("client.host=plant-7"), flag("kafka.sasl_plain_password=1e5")
    ({'rounds': {'size': 50}}, {'client': {'host': 'plant-7'}}, {'kafka': {'sasl_plain_password': '1e5'}})

    Raises
    ------
    UsageError
        The text has another form.
    """
    name, equals, value = text.partition("=")
    parts = name.strip().split(".")
    if not equals or len(parts) < 2 or not all(parts):
        raise UsageError(f"--set {name}: write table.name=value, for example rounds.size=50")
    nested: Any = _value(value.strip())
    if parts[0] not in FederationSettings.model_fields and not isinstance(nested, str | list | dict):
        nested = value.strip()
    for part in reversed(parts):
        nested = {part: nested}
    setting: dict[str, Any] = nested
    return setting


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):  # the latter: brackets in brackets, too deep to be a value
        return text


def merge(flags: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return several nested mappings merged into one; later ones override earlier ones.

    >>> merge([{"rounds": {"size": 5}}, {"rounds": {"quorum": 2}}, {"rounds": {"size": 6}}])
    {'rounds': {'size': 6, 'quorum': 2}}
    """
    result: dict[str, Any] = {}
    for nested in flags:
        for key, value in nested.items():
            both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
            result[key] = merge([result[key], value]) if both else value
    return result
