"""Classes that are saved with a coordinator and read back by the name of their kind, from any package."""

import abc
from collections.abc import Iterator
from typing import Any, ClassVar, Self


class Kind(abc.ABC):
    """The base of a family of dataclasses; in saved values a field with the kind's name tells them apart.

    Attributes
    ----------
    named_by
        The name of that field. Its default is the name of the kind: `kind: Literal["glr"] = "glr"`.
    classes
        The number of classes so far, including abstract ones. A reader of saved values is rebuilt when it changes.
    """

    named_by: ClassVar[str]
    classes: ClassVar[int] = 0

    def __init_subclass__(cls, **options: Any) -> None:
        """Count the classes."""
        super().__init_subclass__(**options)
        Kind.classes += 1

    @classmethod
    def known(cls) -> dict[str, type[Self]]:
        """Return the imported concrete subclasses of this class, by kind.

        A subclass of a kind that keeps its name is of the same kind.

        >>> from streamfl.learning.drift.detector import Detector
        >>> from streamfl.learning.drift.detectors.glr import GLRDetector
        >>> Detector.known()["glr"].__name__
        'GLRDetector'
        """
        by_name: dict[str, type[Self]] = {}
        for kind in _below(cls):
            name = getattr(kind, cls.named_by, None)
            if isinstance(name, str) and not kind.__abstractmethods__ and not issubclass(kind, by_name.get(name, ())):
                by_name[name] = kind
        return by_name

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Read a value as the class of its kind; the core itself does not import pydantic."""
        if not source.__abstractmethods__:
            return handler(source)
        choices = {name: handler.generate_schema(kind) for name, kind in cls.known().items()}
        return {"type": "tagged-union", "discriminator": cls.named_by, "choices": choices}


def _below(root: type[Kind]) -> Iterator[Any]:
    """Yield the subclasses of a class, in the order of their definition."""
    for kind in root.__subclasses__():
        yield kind
        yield from _below(kind)
