"""What signatures cost: seconds and bytes of a round, next to the round itself.

    python benchmarks/signing.py [--clients 20] [--size 100] [--rounds 60] [--features auto] [--seed 0]

A replay of covtype gives the messages of every round, and the seconds of one core that each round takes without a log
or a network. The same messages are then signed and verified as on Kafka: a host signs each update, the coordinator
verifies it and signs what it tells, and one host verifies that. Each figure is the median over the rounds.
"""

import argparse
import hashlib
import statistics
from collections.abc import Sequence
from time import process_time

from streamfl.protocol.messages import FromClient, RoundClosed, Update
from streamfl.records.files.covtype import covtype
from streamfl.records.table import shuffled
from streamfl.run.dealing.dealing import Log, deal
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings
from streamfl.wire import messages
from streamfl.wire.signing import Listed, PrivateKey, Role, Signer, Verifier

Round = tuple[float, list[bytes], list[bytes]]  # seconds, updates, what the coordinator tells


def rounds_of(options: argparse.Namespace) -> list[Round]:
    """Return the rounds of a replay, without the first ones: these compile, and their updates are larger."""
    table = shuffled(covtype(), options.seed)
    n = options.size * options.rounds
    logs = deal(table, options.clients, "round-robin", options.seed)
    cut = {name: Log(log.rows[:n], log.y[:n]) for name, log in logs.items()}
    settings = ReplaySettings(round_size=options.size, learning=LearningSettings(features=options.features))
    replay, found, passed, began = Replay(table, cut, settings), [], [], process_time()

    def add(message: object) -> None:
        nonlocal began
        passed.append(message)
        if isinstance(message, RoundClosed):
            seconds = process_time() - began
            sent = [messages.encode(one) for one in passed if isinstance(one, Update)]
            told = [messages.encode(one) for one in passed if not isinstance(one, FromClient)]
            found.append((seconds, sent, told))
            passed.clear()
            began = process_time()

    replay._traffic.add = add
    replay.run()
    return found[len(found) // 4 :]


def signed(signer: Signer, data: Sequence[bytes]) -> tuple[list[bytes], float]:
    """Return the stamps of some messages, and the seconds that they take."""
    began = process_time()
    stamps = [signer.stamp("place", hashlib.sha256(one).digest()) for one in data]
    return stamps, process_time() - began


def verified(verifier: Verifier, data: Sequence[bytes], stamps: Sequence[bytes]) -> float:
    """Return the seconds that it takes to verify some messages."""
    began = process_time()
    for one, stamp in zip(data, stamps, strict=True):
        verifier.signer("place", hashlib.sha256(one).digest(), stamp)
    return process_time() - began


def both(role: Role, batches: Sequence[Sequence[bytes]]) -> tuple[float, float]:
    """Return the median seconds of signing and of verifying the messages of a round."""
    key = PrivateKey(role.encode().ljust(32))
    signer, verifier = Signer(key, role, "forest"), Verifier(Listed.of([key.public]), role, "forest")
    signing, verifying = [], []
    for data in batches:
        stamps, took = signed(signer, data)
        signing.append(took)
        verifying.append(verified(verifier, data, stamps))
    return statistics.median(signing), statistics.median(verifying)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("clients", 20), ("size", 100), ("rounds", 60), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--features", default="auto")
    options = parser.parse_args()

    rounds = rounds_of(options)
    whole = statistics.median(took for took, _, _ in rounds)
    sizes = [len(data) for _, sent, _ in rounds for data in sent]
    print(
        f"{options.clients} clients, {options.size} records, {options.features}: a round takes {1e3 * whole:.1f} ms"
    )
    print(f"updates of {min(sizes)} to {max(sizes)} bytes, median {statistics.median(sizes):.0f}")
    hosts, coordinator = both("client", [sent for _, sent, _ in rounds])
    tells, host = both("coordinator", [told for _, _, told in rounds])
    parts = {"hosts sign": hosts, "coordinator verifies": coordinator, "it signs": tells, "a host verifies": host}
    for name, took in {**parts, "all": sum(parts.values())}.items():
        print(f"{name}: {1e3 * took:.2f} ms, {took / whole:.1%} of the round")


if __name__ == "__main__":
    main()
