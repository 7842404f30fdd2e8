"""What all parts of a result have in common."""

from pydantic import BaseModel, ConfigDict


class ResultPart(BaseModel):
    """A part of a result: it cannot be changed, and a key that it does not have is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")
