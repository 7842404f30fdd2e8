"""Registries of classes by name: those of this package, and those that other packages register by entry point."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from streamfl.errors import UsageError, did_you_mean

T = TypeVar("T")


@dataclass(frozen=True)
class Registered(Generic[T]):
    """The registered classes of one sort.

    Parameters
    ----------
    what
        The word for one of them in error messages.
    root
        The class from which all of them derive.
    group
        The entry point under which other packages register theirs: a name, and the class.
    own
        The classes of this package by name. No other package can take these names.

    Examples
    --------
    >>> kinds = Registered[int]("number", int, "a.group", {"whole": int, "yes or no": bool})
    >>> kinds.names(), kinds.named("whole")
    (('whole', 'yes or no'), <class 'int'>)
    >>> kinds.named("hole")
    Traceback (most recent call last):
    ...
    streamfl.errors.UsageError: no number is called 'hole': use one of whole, yes or no; did you mean whole?
    """

    what: str
    root: type[Any]
    group: str
    own: Mapping[str, type[T]]

    def names(self) -> tuple[str, ...]:
        """Return all names, without importing the classes."""
        others = sorted({entry.name for entry in entry_points(group=self.group)} - self.own.keys())
        return (*self.own, *others)

    def named(self, name: str) -> type[T]:
        """Return the class of a name.

        Raises
        ------
        UsageError
            There is none, or the package that registers it is at fault.
        """
        if name in self.own:  # looking through the installed packages takes time
            return self.own[name]
        entries = tuple(entry_points(group=self.group, name=name))
        if not entries:
            names = self.names()
            known = f"use one of {', '.join(names)}{did_you_mean(name, names)}"
            raise UsageError(f"no {self.what} is called {name!r}: {known}")
        if len(entries) > 1:
            packages = " and ".join(sorted(_package(entry) for entry in entries))
            raise UsageError(f"{self.what} {name!r} is registered by {packages}: remove one of these packages")
        return self._loaded(entries[0])

    def all(self) -> dict[str, type[T]]:
        """Return every class by its name.

        Raises
        ------
        UsageError
            A package that registers one is at fault.
        """
        return {name: self.named(name) for name in self.names()}

    def _loaded(self, entry: EntryPoint) -> type[T]:
        fault = f"package {_package(entry)}, which registers {self.what} {entry.name!r} as {entry.value}"
        try:
            kind: Any = entry.load()
        except Exception as error:  # another package's code may raise anything
            raise UsageError(f"{fault}, cannot be imported: {error!r}; correct or remove the package") from error
        if not (isinstance(kind, type) and issubclass(kind, self.root)):
            wanted = f"{self.root.__module__}.{self.root.__qualname__}"
            raise UsageError(f"{fault}: it must be a class derived from {wanted}; correct or remove the package")
        made: type[T] = kind
        return made


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.module
