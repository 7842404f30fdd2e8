"""Where files are that a settings file names: a relative path begins at the settings file's own folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from streamfl.errors import UsageError


def from_folder(folder: Path, given: Mapping[str, Any], tables: Mapping[str, type[BaseModel]]) -> dict[str, Any]:
    """Return what a settings file says, in which each path of a table begins at the file's folder.

    Parameters
    ----------
    folder
        The folder of the settings file.
    given
        What the file says: by table, values by setting.
    tables
        The models of tables. A path that the file does not name has its default there as well.

    Raises
    ------
    UsageError
        A file that is named is only at the working directory, where such paths began until 0.2.0: without it members
        or keys would silently be others.

    Examples
    --------
    >>> class Keys(BaseModel):
    ...     key: Path | None = None
    ...     members: Path = Path("members.toml")
    >>> from_folder(Path("plant"), {"keys": {"key": "host.key"}}, {"keys": Keys})
    {'keys': {'key': 'plant/host.key', 'members': 'plant/members.toml'}}
    >>> from_folder(Path("plant"), {"keys": {"key": "/etc/host.key", "members": 7}}, {"keys": Keys})
    {'keys': {'key': '/etc/host.key', 'members': 7}}
    """
    moved = dict(given)
    for table, model in tables.items():
        said = moved.get(table, {})
        if isinstance(said, Mapping):
            paths = {name: said.get(name, default) for name, default in _paths(model).items()}
            at_folder = {name: str(folder / path) for name, path in paths.items() if isinstance(path, str | Path)}
            for name in sorted(at_folder.keys() & said.keys()):
                _refuse_if_left_behind(Path(paths[name]), Path(at_folder[name]), f"{name} in [{table}]")
            if at_folder:
                moved[table] = {**said, **at_folder}
    return moved


def _refuse_if_left_behind(path: Path, at_folder: Path, setting: str) -> None:
    if path.exists() and not at_folder.exists():
        raise UsageError(
            f"{setting}: {path} is in the working directory, but a relative path begins at the settings file's"
            f" folder; move it to {at_folder}, or write its absolute path"
        )


def _paths(model: type[BaseModel]) -> dict[str, Any]:
    """Return the settings of a table that are paths, with their defaults."""
    fields = model.model_fields.items()
    return {name: one.default for name, one in fields if one.annotation is Path or Path in get_args(one.annotation)}
