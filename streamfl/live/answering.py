"""The model that a process answers with, and where it comes from."""

from dataclasses import dataclass

from streamfl.run.model_file import ServedModel


@dataclass(frozen=True, eq=False)
class Answering:
    """A model that answers, and where it comes from."""

    model: ServedModel
    round: int  # the round that it serves
    epoch: int  # the epoch of that round
    entry: int  # the last entry of the ledger that it has learnt
    name: str = ""  # its version, if that is not the round

    @property
    def version(self) -> str:
        """Return its version, as requests and answers name it."""
        return self.name or str(self.round)
