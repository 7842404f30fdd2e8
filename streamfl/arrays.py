"""The array types of the core."""

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
