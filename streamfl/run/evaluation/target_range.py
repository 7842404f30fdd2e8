"""The least and the largest target that a replay has seen."""

from collections.abc import Mapping
from dataclasses import dataclass

from streamfl.protocol.native.extremes import Extremes, extremes, of_all
from streamfl.run.dealing.dealing import Log
from streamfl.run.summary import RoundSummary


@dataclass
class TargetRange:
    """The least and the largest target of the rounds that have closed; of labels nothing."""

    logs: Mapping[str, Log]  # of each client
    targets: bool  # whether its records have targets
    extremes: Extremes = ()

    def take(self, closed: RoundSummary) -> None:
        """Take the targets of a round."""
        for span in (span for one in closed.accepted for span in one.spans if self.targets):
            log = self.logs[span.partition]
            y = log.y[log.good_before(span.start) : log.good_before(span.end)]
            self.extremes = of_all((self.extremes, extremes(y)))
