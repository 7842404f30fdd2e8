"""The reference of all settings, made from their models: `streamfl settings`, and docs/settings.md."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from streamfl.bounds import MOST
from streamfl.live.settings.installed import connector_named, installed
from streamfl.live.settings.kept_settings import KEPT, is_fixed
from streamfl.live.settings.settings import FederationSettings

HEAD = """\
# Settings

This page lists every setting of a live federation: what it does, its default, and whether you may change it later.
`streamfl settings` prints this page; `streamfl settings rounds` prints one table.

Settings come from the TOML file that `--settings` names, from the environment (`STREAMFL_ROUNDS__SIZE=100` is `size`
in `[rounds]`) and from flags (`--set rounds.size=100`). Flags override the environment, which overrides the file.
`streamfl init` writes a file for records that you have. `deploy/federation.toml` is an example with comments.
`streamfl check` tests the settings. A setting that does not exist is an error, which names the closest one. No count
and no number of seconds or milliseconds may be above a billion; the limits of bytes are in their rows. A relative
path in the file starts at the folder of that file; in a flag or the environment, at the working directory. In the
sections of connectors (`[kafka]`, `[confluent]`) and in `command` of `[alerts]` it always starts at the working
directory, so write absolute paths there.

**Change** says whether you may change the value of a federation that has already started. *yes*: restart its
processes with the new value. *no*: the coordinator refuses to start and names the setting
([operate.md](operate.md#change-settings)). *starts a new federation*: it begins with round 1 and knows nothing of the
old one.

**Equal bytes** says how the setting affects the promise that the same records give the same model to the last byte.
*same*: it has no effect on the model. *other*: another value gives another model. *not promised*: with such a value
two runs may differ; coordinator and hosts log this when they start."""

COLUMNS = ("setting", "value", "default", "what it does", "change", "equal bytes")


def reference(table: str | None = None) -> str:
    """Return the reference as Markdown.

    Parameters
    ----------
    table
        Only this table; None: all, with an introduction.

    Raises
    ------
    KeyError
        There is no such table.

    Examples
    --------
    >>> print(reference("logs"))  # doctest: +ELLIPSIS
    ## `[logs]`
    <BLANKLINE>
    What processes log on standard error.
    <BLANKLINE>
    | setting | value | default | what it does | change | equal bytes |
    | --- | --- | --- | --- | --- | --- |
    | `level` | `"debug"`, `"info"`, `"warning"` or `"error"` | `"info"` | The lowest severity that is ... | yes |
    same |
    """
    found = dict(tables())
    if table is not None:
        return _section(table, found[table])
    return "\n\n".join((HEAD, *(_section(name, schema) for name, schema in found.items())))


def tables() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the JSON schema of each table, that of inner tables and of connectors as well."""
    for name, field in FederationSettings.model_fields.items():
        yield from _with_inner(name, field.annotation)
    for name in sorted(installed()):
        yield from _with_inner(name, connector_named(name).Settings)


def _with_inner(name: str, model: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    yield name, model.model_json_schema()
    for inner, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _with_inner(f"{name}.{inner}", field.annotation)


def settings_of(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the settings of a table by name; not its inner tables, and not what another setting sets."""
    found = schema["properties"].items()
    return {name: field for name, field in found if "$ref" not in field and "set_by" not in field}


def _section(name: str, schema: Mapping[str, Any]) -> str:
    told = schema["description"].partition(": ")[2]
    paragraphs = [_line(text) for text in told.split("\n\n") if not text.startswith((">>>", "Raises", "Examples"))]
    paragraphs[0] = paragraphs[0][:1].upper() + paragraphs[0][1:]
    rows = [_row(name, setting, field) for setting, field in settings_of(schema).items()]
    lines = [_cells(COLUMNS), _cells(["---"] * len(COLUMNS)), *(_cells(row) for row in rows)]
    return "\n\n".join([f"## `[{name}]`", *paragraphs, "\n".join(lines)])


def _cells(texts: Any) -> str:
    return f"| {' | '.join(texts)} |"


def _line(text: str) -> str:
    return " ".join(text.split())


def _row(table: str, name: str, field: Mapping[str, Any]) -> tuple[str, ...]:
    what = _line(field["description"])
    return (f"`{name}`", _value(field), _default(field), what, _change(table, name, field), _bytes(table, field))


def _value(field: Mapping[str, Any]) -> str:
    """Return what may stand there, with range and unit.

    >>> _value({"type": "number", "exclusiveMinimum": 0.0, "maximum": 1.0, "unit": "seconds"})
    'number, above 0, at most 1, seconds'
    >>> _value({"anyOf": [{"type": "integer", "minimum": 1}, {"const": "all"}]})
    'whole number, at least 1; or `"all"`'
    """
    choices = [one for one in field.get("anyOf", [field]) if one.get("type") != "null"]
    parts = ["; or ".join(_kind(one) for one in choices), field.get("unit")]
    return ", ".join(part for part in parts if part)


KINDS = {"integer": "whole number", "number": "number", "boolean": "`true` or `false`", "string": "text"}

RANGE = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
    "minItems": "at least",
    "maxLength": "at most",
}

OF = {"minItems": " of them", "maxLength": " characters"}


def _kind(one: Mapping[str, Any]) -> str:
    if "const" in one or "enum" in one:
        *first, last = [_literal(value) for value in one.get("enum", [one.get("const")])]
        if one.get("registered"):
            return f"{', '.join([*first, last])} or that of another package"
        return f"{', '.join(first)} or {last}" if first else last
    kind = "file" if one.get("format") == "path" else _of_json(one)
    limits = [
        f"{words} {one[key]:,}".removesuffix(".0") + OF.get(key, "")
        for key, words in RANGE.items()
        if key in one and one[key] != MOST
    ]
    return ", ".join([kind, *limits])


def _of_json(one: Mapping[str, Any]) -> str:
    if one.get("type") == "array":
        return f"list of {'whole numbers' if one.get('items', {}).get('type') == 'integer' else 'texts'}"
    if one.get("type") == "object":
        kind = _of_json(one["additionalProperties"])
        return f"table of {'lists of texts' if kind == 'list of texts' else f'{kind}s'}"
    return KINDS[one.get("type", "string")]


def _default(field: Mapping[str, Any]) -> str:
    if "unset" in field:
        return str(field["unset"])
    return _literal(field["default"]) if "default" in field else "required"


def _literal(value: Any) -> str:
    """Return a value as TOML has it.

    >>> _literal(True), _literal("a"), _literal(()), _literal(10_000)
    ('`true`', '`"a"`', '`[]`', '`10000`')
    """
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str):
        return f'`"{value}"`'
    return f"`{value!r}`".replace("()", "[]")


def _change(table: str, name: str, field: Mapping[str, Any]) -> str:
    if "change" in field:
        return str(field["change"])
    return "no" if is_fixed(f"{table}.{name}") else "yes"


def _bytes(table: str, field: Mapping[str, Any]) -> str:
    decides = table.partition(".")[0] in KEPT and field.get("decides", True)
    meaning = "other" if decides else "same"
    return f"{meaning}; not promised {field['unequal']}" if "unequal" in field else meaning
