"""Registries by name: what this package has, and what other packages register by entry point."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pkgutil import resolve_name
from typing import Any, TypeVar

from streamfl.errors import UsageError, did_you_mean

T = TypeVar("T")


@dataclass(frozen=True)
class Registered(Mapping[str, T]):
    """All of one sort by name: classes that derive from one, or functions.

    Examples
    --------
    >>> kinds = Registered[type[int]]("number", int, "a.group", {"whole": int, "yes or no": bool})
    >>> kinds.names(), kinds.find("whole"), kinds.listing()
    (('whole', 'yes or no'), <class 'int'>, 'whole or yes or no')
    >>> kinds.find("hole")
    Traceback (most recent call last):
    ...
    streamfl.errors.UsageError: no number is called 'hole': use one of whole, yes or no; did you mean whole?
    """

    what: str  # the word for one of them in error messages
    root: type[Any] | None  # the class from which all of them derive; None: they are functions
    group: str  # the entry point under which other packages register theirs

    # Those of this package by name, one that is slow to import as `module:name`. No other package can take these
    # names.
    own: Mapping[str, T | str]
    others: tuple[str, ...] = ()  # what else may be named, for error messages
    # What a class must have that does not derive from `root`; empty: it must derive from it.
    methods: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> T:
        """Return `find`, for those who know that there is one."""
        return self.find(name)

    def __iter__(self) -> Iterator[str]:
        """Yield all names."""
        return iter(self.names())

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.names())

    def names(self) -> tuple[str, ...]:
        """Return all names, without importing what they name."""
        installed = sorted({entry.name for entry in entry_points(group=self.group)} - self.own.keys())
        return (*self.own, *installed)

    def listing(self, form: str = "{}") -> str:
        """Return all names as a text for people, each in a form.

        >>> Registered("n", None, "a.group", {"a": abs, "b": min, "c": max}).listing(".{}")
        '.a, .b or .c'
        """
        *first, last = [form.format(name) for name in (*self.names(), *self.others)]
        return f"{', '.join(first)} or {last}" if first else last

    def find(self, name: str) -> T:
        """Return what has a name.

        Raises
        ------
        UsageError
            There is none, or the package that registers it is at fault.
        """
        if name in self.own:  # looking through the installed packages takes time
            own = self.own[name]
            return resolve_name(own) if isinstance(own, str) else own
        entries = tuple(entry_points(group=self.group, name=name))
        if not entries:
            names = (*self.names(), *self.others)
            nothing = f"no installed package registers one as {self.group}; install the one that does"
            known = f"use one of {', '.join(names)}{did_you_mean(name, names)}" if names else nothing
            raise UsageError(f"no {self.what} is called {name!r}: {known}")
        if len(entries) > 1:
            packages = " and ".join(sorted(_package(entry) for entry in entries))
            raise UsageError(f"{self.what} {name!r} is registered by {packages}: remove one of these packages")
        return self._loaded(entries[0])

    def _loaded(self, entry: EntryPoint) -> T:
        fault = f"package {_package(entry)}, which registers {self.what} {entry.name!r} as {entry.value}"
        try:
            kind: Any = entry.load()
        except Exception as error:  # another package's code may raise anything
            raise UsageError(f"{fault}, cannot be imported: {error!r}; correct or remove the package") from error
        root = self.root
        if root is None and not callable(kind):
            raise UsageError(f"{fault}: it must be a function; correct or remove the package")
        if root is not None and not (isinstance(kind, type) and (issubclass(kind, root) or self.has_methods(kind))):
            wanted = f"{root.__module__}.{root.__qualname__}"
            instead = f", or one with the methods {', '.join(self.methods)}" if self.methods else ""
            raise UsageError(
                f"{fault}: it must be a class derived from {wanted}{instead}; correct or remove the package"
            )
        made: T = kind
        return made

    def has_methods(self, kind: object) -> bool:
        """Tell whether it is a class with `methods`, if there are any."""
        callables = [callable(getattr(kind, name, None)) for name in self.methods]
        return isinstance(kind, type) and bool(callables) and all(callables)


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.module
