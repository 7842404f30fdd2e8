"""Old names of settings, options and keys of results: this version still reads them, and warns with the new name."""

import json
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from streamfl.errors import UsageError

# Settings, by table and name.
SETTINGS = {
    "federation.expect": "federation.min_clients",
    "rounds.least": "rounds.min_records",
    "privacy.sums": "privacy.secure_aggregation",
    "privacy.fewest": "privacy.min_clients_per_sum",
}

# Values of settings, by their new names.
VALUES = {
    "federation.members": {"known": "trust_on_first_use"},
    "privacy.secure_aggregation": {"by-client": "off"},
}

# Options of commands, and values of options by their new names.
OPTIONS = {
    "--least": "--min-records",
    "--sums": "--secure-aggregation",
    "--labels-apart": "--label-delay",
    "--missing": "--missing-columns",
}
OF_OPTIONS = {"--secure-aggregation": VALUES["privacy.secure_aggregation"]}

# Keys of `privacy` in a result that `--json` has written.
RESULT = {"sums": "secure_aggregation", "fewest": "min_clients_per_sum"}


def settings_now(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, by table and name, under their new names; warn of each old one.

    >>> settings_now({"rounds": {"size": 5}})
    {'rounds': {'size': 5}}

    Raises
    ------
    UsageError
        A setting is given by its old and by its new name.
    """
    now = {name: dict(table) if isinstance(table, Mapping) else table for name, table in tables.items()}
    for old, new in SETTINGS.items():
        (table, before), (_, after) = old.split("."), new.split(".")
        if before in _table(now, table):
            _warn(old, new, is_double=after in now[table])
            now[table][after] = now[table].pop(before)
    for setting, values in VALUES.items():
        table, name = setting.split(".")
        value = _table(now, table).get(name)
        if isinstance(value, str) and value in values:
            _warn(f"{setting} = {value}", f"{setting} = {values[value]}")
            now[table][name] = values[value]
    return now


def _table(tables: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = tables.get(name)
    return table if isinstance(table, Mapping) else {}


def arguments_now(arguments: Sequence[str], options: Collection[str]) -> list[str]:
    """Return the arguments of a command with its options under their new names; warn of each old one.

    Raises
    ------
    UsageError
        An option is given by its old and by its new name.

    >>> arguments_now(["a.csv", "--seed", "1"], ["--seed", "--min-records"])
    ['a.csv', '--seed', '1']
    """
    given = {argument.partition("=")[0] for argument in arguments}
    now: list[str] = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if OPTIONS.get(name) in options:
            _warn(name, OPTIONS[name], is_double=OPTIONS[name] in given)
            name = OPTIONS[name]
        of = name if equals else (now[-1] if now else "")
        text = value if equals else name
        if text in OF_OPTIONS.get(of, {}):
            _warn(f"{of} {text}", f"{of} {OF_OPTIONS[of][text]}")
            text = OF_OPTIONS[of][text]
        now.append(f"{name}={text}" if equals else text)
    return now


def kept_now(kept: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a saved state, as JSON by their names, under their new names.

    >>> kept_now({"privacy.sums": '"by-client"', "rounds.size": "100"})
    {'privacy.secure_aggregation': '"off"', 'rounds.size': '100'}
    """
    named = {SETTINGS.get(name, name): text for name, text in kept.items()}
    of = {name: {json.dumps(old): json.dumps(new) for old, new in values.items()} for name, values in VALUES.items()}
    return {name: of.get(name, {}).get(text, text) for name, text in named.items()}


def result_now(privacy: Any) -> Any:
    """Return `privacy` of a result under its new keys.

    >>> result_now({"sums": "masked", "fewest": 3})
    {'secure_aggregation': 'masked', 'min_clients_per_sum': 3}
    """
    return {RESULT.get(key, key): value for key, value in privacy.items()} if isinstance(privacy, dict) else privacy


def _warn(old: str, new: str, *, is_double: bool = False) -> None:
    if is_double:
        raise UsageError(f"{old} is the old name of {new}, and both are given; leave {old} out")
    what = f"{old} is the old name of {new}; write {new}, because later versions do not read the old name"
    warnings.warn(what, FutureWarning, stacklevel=3)
