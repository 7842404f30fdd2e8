"""The array types that the core speaks in."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

# Set as `__pydantic_config__` of what is written down: the codec validates fields, and takes arrays as they are.
HOLDS_ARRAYS: dict[str, object] = {"arbitrary_types_allowed": True, "extra": "ignore"}
