"""The array types of the core, and rows of tables."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
# Of 32 or 64 bits.
RealArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
# Values as a file stores them.
Numbers = npt.NDArray[np.number] | npt.NDArray[np.bool_]

# The `__pydantic_config__` of saved dataclasses: the codec validates fields, and takes arrays as they are.
HOLDS_ARRAYS: dict[str, object] = {"arbitrary_types_allowed": True, "extra": "ignore"}


def put_rows(table: RealArray, cells: IntArray, rows: RealArray) -> None:
    """Set rows of a table, shape (rows, ...), in their first columns.

    A whole row is moved as one item of its bytes: that takes an eighth of the time of an index of its numbers.

    >>> table = np.zeros((3, 1, 2), np.float32)
    >>> put_rows(table, np.array([2]), np.array([[[5.0, 6.0]]]))
    >>> put_rows(table, np.array([0]), np.array([[[7.0]]]))
    >>> table[:, 0].tolist()
    [[7.0, 0.0], [0.0, 0.0], [5.0, 6.0]]
    """
    columns = rows.shape[-1]
    if not rows.size or columns < table.shape[-1] or not table.flags.c_contiguous:
        table[cells, :, :columns] = rows
    else:
        _items(table)[cells] = _items(np.ascontiguousarray(rows, table.dtype))


def _items(table: RealArray) -> npt.NDArray[np.void]:
    return table.reshape(len(table), -1).view(np.dtype((np.void, table[0].nbytes)))[:, 0]
