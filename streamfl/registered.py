"""Classes by name: those of this package, and those that other packages register under an entry point."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from streamfl.core.errors import UsageError, did_you_mean

T = TypeVar("T")


@dataclass(frozen=True)
class Registered(Generic[T]):
    """The classes of one sort that there are.

    Parameters
    ----------
    what
        What one of them is called.
    root
        The class that all of them derive from.
    group
        The entry point under which other packages register theirs: a name, and the class.
    own
        Those of this package by name; no other package can take these names.

    Examples
    --------
    >>> kinds = Registered[int]("number", int, "a.group", {"whole": int, "yes or no": bool})
    >>> kinds.names(), kinds.named("whole")
    (('whole', 'yes or no'), <class 'int'>)
    >>> kinds.named("hole")
    Traceback (most recent call last):
    ...
    streamfl.core.errors.UsageError: no number is called 'hole': take one of whole, yes or no; did you mean whole?
    """

    what: str
    root: type[Any]
    group: str
    own: Mapping[str, type[T]]

    def names(self) -> tuple[str, ...]:
        """Return all names, without importing what they stand for."""
        others = sorted({entry.name for entry in entry_points(group=self.group)} - self.own.keys())
        return (*self.own, *others)

    def named(self, name: str) -> type[T]:
        """Return the class of a name.

        Raises
        ------
        UsageError
            There is none, or the package that registers it is at fault.
        """
        if name in self.own:  # to look through what is installed takes time
            return self.own[name]
        found = tuple(entry_points(group=self.group, name=name))
        if not found:
            names = self.names()
            known = f"take one of {', '.join(names)}{did_you_mean(name, names)}"
            raise UsageError(f"no {self.what} is called {name!r}: {known}")
        if len(found) > 1:
            packages = " and ".join(sorted(_package(entry) for entry in found))
            raise UsageError(f"{self.what} {name!r} is registered by {packages}: remove one of these packages")
        return self._loaded(found[0])

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
            raise UsageError(f"{fault}, cannot be imported: {error!r}; mend or remove it") from error
        if not (isinstance(kind, type) and issubclass(kind, self.root)):
            wanted = f"{self.root.__module__}.{self.root.__qualname__}"
            raise UsageError(f"{fault}: that is no class that derives from {wanted}; mend or remove it")
        made: type[T] = kind
        return made


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.module
