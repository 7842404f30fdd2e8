"""Answers that a live federation has given, as lines of its `NAME.predictions`, for the replay of its records."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from streamfl.errors import UsageError
from streamfl.records.files.lines import whole_lines
from streamfl.records.values.cells import listed
from streamfl.run.dealing.dealing import Log
from streamfl.runtime.log.predictions import Prediction, is_usable, read
from streamfl.runtime.log.recorded import Recorded

Place = tuple[str, int, int]


@dataclass
class AnswersFile:
    """The first answer of each client to each record, by place; what a scorer has answered is left out."""

    path: Path  # the file: messages of `NAME.predictions`, one a line
    targets: bool  # whether answers are targets, not labels
    _of: dict[str, dict[Place, Prediction]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, *, targets: bool) -> "AnswersFile":
        """Read a file.

        Raises
        ------
        UsageError
            It cannot be read, or a line is no answer.
        """
        answers = cls(path, targets)
        try:
            with path.open("rb") as stream:
                for number, line in enumerate(whole_lines(stream), 1):
                    answers._add(number, line)
        except OSError as error:
            raise UsageError(f"--answers {path}: {error.strerror}") from error
        return answers

    def _add(self, number: int, line: bytes | None) -> None:
        if line is not None and not line.strip():
            return
        answer = read(line)
        if answer is None or not is_usable(answer, targets=self.targets):
            kind = "targets" if self.targets else "labels"
            raise self._refusal(
                f"line {number} is not an answer with {kind}; give messages of the topic NAME.predictions"
            )
        if isinstance(answer.client, str):
            place = (answer.topic, answer.partition, answer.offset)
            self._of.setdefault(answer.client, {}).setdefault(place, answer)

    def recorded(self, logs: Mapping[str, Log]) -> dict[str, Recorded]:
        """Return the answers by client; those of a client belong to its good records, in order.

        Raises
        ------
        UsageError
            A client has more or fewer answers than good records, or its records were in several partitions.
        """
        if strangers := sorted(self._of.keys() - logs.keys()):
            raise self._refusal(f"it has answers of clients that are not in the replay: {listed(strangers)}")
        return {name: self._of_client(name, log) for name, log in logs.items()}

    def _of_client(self, name: str, log: Log) -> Recorded:
        answers = sorted(self._of.get(name, {}).items())
        if any(one[:2] != other[:2] for (one, _), (other, _) in pairwise(answers)):
            raise self._refusal(f"the records of {name} were in several partitions, so their order is not known")
        if len(answers) != len(log.rows):
            raise self._refusal(f"it has {len(answers)} answers of {name}, which has {len(log.rows)} valid records")
        bad = [rejection.position for rejection in log.rejected]
        recorded = Recorded(self.targets)
        for position, (_, answer) in zip(np.setdiff1d(np.arange(len(log)), bad).tolist(), answers, strict=True):
            known = answer.known if isinstance(answer.known, str | float) else None
            recorded.add(position, answer.prediction, known)
        return recorded

    def _refusal(self, what: str) -> UsageError:
        return UsageError(f"--answers {self.path}: {what}")
