"""Classes that are saved with a coordinator, and read again by the name of their kind, whatever package has them."""

import abc
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self


class Kind(abc.ABC):
    """The root of several classes of dataclasses; a field with a name tells them apart where one is saved.

    Attributes
    ----------
    named_by
        The name of that field, whose default is the name of the kind: `kind: Literal["glr"] = "glr"`.
    removed
        Kinds that there were, by name, with the reason why one cannot be read and the remedy.
    classes
        How many classes there are by now, abstract ones counted: what reads saved ones has to know a new one, too.
    """

    named_by: ClassVar[str]
    removed: ClassVar[Mapping[str, str]] = {}
    classes: ClassVar[int] = 0

    def __init_subclass__(cls, **options: Any) -> None:
        """Count the classes."""
        super().__init_subclass__(**options)
        Kind.classes += 1

    @classmethod
    def known(cls) -> dict[str, type[Self]]:
        """Return the classes below this one by kind, abstract ones left out, whose modules have been imported.

        What derives from a class and has its name is of its kind.

        >>> from streamfl.core.drift.detector import Detector
        >>> from streamfl.core.drift.detectors.glr import GLRDetector
        >>> Detector.known()["glr"].__name__
        'GLRDetector'
        """
        found: dict[str, type[Self]] = {}
        for kind in _below(cls):
            name = getattr(kind, cls.named_by, None)
            if isinstance(name, str) and not kind.__abstractmethods__ and not issubclass(kind, found.get(name, ())):
                found[name] = kind
        return found

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Read a value as whichever class has its kind; the core itself knows nothing of pydantic."""
        if not source.__abstractmethods__:
            return handler(source)
        choices = {name: handler.generate_schema(kind) for name, kind in cls.known().items()}
        return {
            "type": "function-before",
            "function": {"type": "no-info", "function": _refusing(cls.named_by, cls.removed)},
            "schema": {"type": "tagged-union", "discriminator": cls.named_by, "choices": choices},
        }


def _below(root: type[Kind]) -> Iterator[Any]:
    """Yield the classes below one in the order in which they were made."""
    for kind in root.__subclasses__():
        yield kind
        yield from _below(kind)


def _refusing(named_by: str, removed: Mapping[str, str]) -> Callable[[Any], Any]:
    """Return a function that refuses values of kinds that were removed, and returns all others."""

    def check(value: Any) -> Any:
        name = value.get(named_by) if isinstance(value, dict) else None
        if isinstance(name, str) and name in removed:
            raise ValueError(removed[name])
        return value

    return check
