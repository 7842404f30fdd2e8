"""The model that a process answers with, and where it comes from."""

from dataclasses import dataclass

from streamfl.run.model_file import ServedModel


@dataclass(frozen=True, eq=False)
class Answering:
    """A model that answers, and where it comes from.

    Parameters
    ----------
    model
        The model.
    round
        Its version: the round that it serves.
    epoch
        The epoch of that round.
    entry
        The last entry of the ledger that it has learnt.
    name
        Its version, if that is not the round.
    """

    model: ServedModel
    round: int
    epoch: int
    entry: int
    name: str = ""

    @property
    def version(self) -> str:
        """Return its version, as requests and answers name it."""
        return self.name or str(self.round)
