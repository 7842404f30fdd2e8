"""Arguments kept for compiled functions, which are passed as one pointer."""

import operator
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, infer_getattr, lower_getattr_generic, models, register_model, unbox

A = TypeVar("A", bound=tuple[object, ...])

WORD = 8  # bytes

# The bit of an array's flags that makes no difference to Numba.
OWNS_DATA = 4

# The types by the kinds of all parts; learners of labels and of targets have the same one.
_TYPES: dict[tuple[object, ...], "KeptType"] = {}
MOST_TYPES = 64


def kept(arguments: A) -> A:
    """Return arguments as compiled functions take them at many calls: see `KeptArguments`."""
    return cast(A, KeptArguments(arguments))


class KeptArguments:
    """Arguments kept for compiled functions: to pass forty arrays at every call costs as much as the work itself.

    Compiled functions take it in place of the tuple. They read and write the arrays where these are, so an array must
    not be resized.

    Parameters
    ----------
    inside
        A named tuple of arrays, whole numbers and such tuples. A truth value may only be the very last.

    Raises
    ------
    TypeError
        Something else is in it.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> import numpy as np
    >>> from streamfl.online.native.kernels.compiled import compiled
    >>> class Two(NamedTuple):
    ...     a: np.ndarray
    ...     b: np.ndarray
    >>> kept = KeptArguments(Two(np.ones(2), np.ones(3)))
    >>> compiled(lambda two: two.a[1] + two.b[2])(kept)
    2.0
    """

    def __init__(self, inside: Any) -> None:
        self.inside = inside  # else the arrays could be freed
        words: list[int] = []
        kinds: list[object] = []
        _flatten(inside, words, kinds)
        self._words = np.array(words, np.int64)
        self.address = self._words.ctypes.data
        self._numba_type_ = _type_of(tuple(kinds), inside, len(words))


def _flatten(argument: Any, words: list[int], kinds: list[object]) -> None:
    """Append the machine words by which Numba represents an argument (see its `_arraystruct.h`), and its kind."""
    if isinstance(argument, tuple):
        kinds += type(argument), len(argument)
        for part in argument:
            _flatten(part, words, kinds)
    elif isinstance(argument, np.ndarray):
        kinds += argument.dtype, argument.ndim, argument.flags.num & ~OWNS_DATA
        references, parent = 0, 0  # not counted
        words += references, parent, argument.size, argument.itemsize, argument.ctypes.data
        words += (*argument.shape, *argument.strides)
    else:
        words.append(operator.index(argument))
        kinds += type(argument), words[-1].bit_length() > 31


def _type_of(kinds: tuple[object, ...], inside: Any, words: int) -> "KeptType":
    """Return the compiled type of arguments; Numba takes a millisecond to find it, longer than a round of records."""
    if kinds not in _TYPES:
        while len(_TYPES) >= MOST_TYPES:
            _TYPES.pop(next(iter(_TYPES)), None)
        _TYPES[kinds] = KeptType(numba.typeof(inside), words)
    return _TYPES[kinds]


class KeptType(types.Type):
    """The compiled type of `KeptArguments`."""

    def __init__(self, inside: Any, words: int) -> None:
        self.inside, self.words = inside, words
        super().__init__(f"Kept({inside})")


register_model(KeptType)(models.OpaqueModel)


@unbox(KeptType)
def _pointer(_: KeptType, kept: Any, c: Any) -> Any:
    """Return the pointer to the words."""
    address = c.pyapi.object_getattr_string(kept, "address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return NativeValue(pointer)


@infer_getattr
class _Field(AttributeTemplate):
    key = KeptType

    def generic_resolve(self, kept: KeptType, name: str) -> Any:  # type: ignore[override]
        """Return the type of a field."""
        return kept.inside[kept.inside.fields.index(name)] if name in kept.inside.fields else None


@lower_getattr_generic(KeptType)
def _read(context: Any, builder: Any, kept: KeptType, pointer: Any, name: str) -> Any:
    """Read a field from the words.

    Raises
    ------
    NotImplementedError
        Another version of Numba represents them otherwise.
    """
    represented = context.data_model_manager[kept.inside].get_data_type()
    if context.get_abi_sizeof(represented) != WORD * kept.words:
        raise NotImplementedError("this version of Numba represents arrays in another way: install the pinned one")
    field = kept.inside.fields.index(name)
    place = cgutils.gep_inbounds(builder, builder.bitcast(pointer, represented.as_pointer()), 0, field)
    model = context.data_model_manager[kept.inside[field]]
    if model.get_data_type() == model.get_value_type():  # as that of arrays, in one instruction for all of a tuple
        return builder.load(place)
    return model.load_from_data_pointer(builder, place)
