"""The grids on which clients send what native models learnt, and the coordinator publishes what they agree on."""

from dataclasses import dataclass, replace

# Exponents beyond these bounds are not published. No targets lead beyond them.
LEAST, MOST = -110, 110

# The most times that steps are halved; and that a client doubles them, to keep its budget of bytes.
FINEST, COARSEST = 8, 8


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps of grids, as exponents of 2.

    They follow from what clients sent in the round before, and are published, so that they are the same at every
    client. In the first round nothing is published: each client chooses its own.

    Examples
    --------
    >>> Steps().are_known, Steps((-5, -7), (-9,), half=3).are_sound(2, 1), Steps((-5, -200), (-9,)).are_sound(2, 1)
    (False, True, False)
    """

    # The step of each model's linear weights, length M; empty while nothing is published.
    weights: tuple[int, ...] = ()
    table: tuple[int, ...] = ()  # the step of the cells of each kind of fern: depth by depth, each by rate
    half: int = 0  # the exponent of sqrt(n), n the records of a client
    finer: int = 0  # so many times the steps of weights and table are halved; at least 0

    def coarser(self, times: int) -> "Steps":
        """Return steps that are doubled so many times; `finer` may then be negative, as it is not published.

        >>> Steps((-5,), (-9,), finer=1).coarser(3)
        Steps(weights=(-5,), table=(-9,), half=0, finer=-2)
        """
        return replace(self, finer=self.finer - times)

    @property
    def are_known(self) -> bool:
        """Tell whether there are steps."""
        return bool(self.weights)

    def are_sound(self, models: int, kinds: int) -> bool:
        """Tell whether they are of so many models and kinds of ferns, and within bounds; or not known."""
        if not self.are_known:
            return not self.table and not self.half and not self.finer
        exponents = (*self.weights, *self.table, self.half)
        shapes = (len(self.weights), len(self.table)) == (models, kinds)
        return shapes and LEAST <= min(exponents) <= max(exponents) <= MOST and 0 <= self.finer <= FINEST
