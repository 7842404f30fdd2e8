"""The mutations: each is one fault that could plausibly be made, chosen from the code and not from its tests."""

import hashlib
from dataclasses import dataclass

CLIENT = "streamfl/machines/client/"
COORDINATOR = "streamfl/machines/coordinator/"
LEARNING = "streamfl/learning/"
DRIFT = "streamfl/learning/drift/detectors/"
ADAPTIVE = "streamfl/learning/profiles/adaptive/"
NATIVE = "streamfl/online/native/"
KERNELS = "streamfl/online/native/kernels/"
KAFKA = "connectors/streamfl_connectors/kafka/"


@dataclass(frozen=True)
class Mutation:
    """One fault.

    Parameters
    ----------
    name
        What is broken.
    file
        The source that is changed.
    there
        The text that is replaced; it occurs exactly once.
    instead
        The text that replaces it.
    law
        What an observer can rely on, and no longer can.
    """

    name: str
    file: str
    there: str
    instead: str
    law: str

    @property
    def digest(self) -> str:
        """Return a digest of the change: what was found out about another change does not count."""
        return hashlib.sha256("\0".join((self.file, self.there, self.instead)).encode()).hexdigest()[:12]

    @property
    def is_compiled(self) -> bool:
        """Tell whether the change is in a loop that runs as machine code."""
        return self.file.startswith(KERNELS)


OF_CLIENT = (
    Mutation(
        "rejected records are missing from a client's count of accounted records",
        CLIENT + "ledger/known_ledger.py",
        "self.read += accepted.records + accepted.rejected",
        "self.read += accepted.records",
        "a client and the ledger give a record the same ordinal",
    ),
    Mutation(
        "a client that is sent to another position keeps the records that it has read",
        CLIENT + "intake/intake.py",
        "        self.buffer.clear()\n        return {}, {}\n",
        "        return {}, {}\n",
        "each record is learnt exactly once",
    ),
    Mutation(
        "a client follows a second copy of an answer that it has followed",
        CLIENT + "ledger/known_ledger.py",
        "return joined.question == self.question > self.last_answered",
        "return joined.question == self.question",
        "a late copy of a message takes no client back",
    ),
    Mutation(
        "a client does not notice that the true ledger entry differs from a forged one",
        CLIENT + "ledger/known_ledger.py",
        "return differs or closed.entry > self.entry + 1",
        "return closed.entry > self.entry + 1",
        "a client recovers from forged entries",
    ),
    Mutation(
        "a client trains on the records that it holds out",
        CLIENT + "work/comparison.py",
        "return Comparison(holdout, design), is_new if len(new) else None",
        "return Comparison(holdout, design), None",
        "no held-out record is trained on",
    ),
    Mutation(
        "rejected records count among the records that fill a round",
        CLIENT + "intake/buffer.py",
        "n -= len(taken[-1])",
        "n -= taken[-1].read",
        "a round has as many good records as the settings say",
    ),
    Mutation(
        "after a restart a client reads features from the watermark on, not from the start of its window",
        CLIENT + "intake/intake.py",
        "watermark.partition: max(0, watermark.features - self.window),",
        "watermark.partition: watermark.features,",
        "records that wait for labels survive a restart",
    ),
    Mutation(
        "a start goes on after its number was issued to another start",
        CLIENT + "machine.py",
        "if 0 < self.incarnation <= fenced.incarnation:",
        "if 0 < self.incarnation < fenced.incarnation:",
        "at most one start of a client takes part",
    ),
)

OF_COORDINATOR = (
    Mutation(
        "the check of an update's entry is left out",
        COORDINATOR + "gate/checks.py",
        "if (update.entry, update.epoch) != (opened.entry, opened.epoch):",
        "if update.epoch != opened.epoch:",
        "an update counts only for its own round, and a late one is no fault",
    ),
    Mutation(
        "an update may skip records",
        COORDINATOR + "gate/checks.py",
        "if member.positions.get(span.partition, span.start) != span.start:",
        "if member.positions.get(span.partition, span.start) > span.start:",
        "the ledger has no gaps",
    ),
    Mutation(
        "an update may tell of one record more than it has positions",
        COORDINATOR + "gate/checks.py",
        "if update.records + update.rejected > sum(span.end - span.start for span in update.spans):",
        "if update.records + update.rejected > sum(span.end - span.start for span in update.spans) + 1:",
        "no client counts more records than it has read",
    ),
    Mutation(
        "a client that sends updates again is still counted as missing",
        COORDINATOR + "saved/ledger.py",
        "self.missed, self.refused, self.awaited = 0, 0, True",
        "self.refused, self.awaited = 0, True",
        "only rounds in a row without a client make it expire",
    ),
    Mutation(
        "a start that names a later number than the present one takes its place",
        COORDINATOR + "saved/ledger.py",
        "return nonce != self.nonce and after != self.incarnation",
        "return nonce != self.nonce and after < self.incarnation",
        "only a start that names the present number takes its place",
    ),
    Mutation(
        "a client that nobody has admitted may join after the federation has begun",
        COORDINATOR + "gate/grants.py",
        'return None if state.agreement is None else "nobody has admitted this client"',
        "return None",
        "only admitted clients join",
    ),
    Mutation(
        "recovery from a message forgets the members that have changed since the last commit",
        COORDINATOR + "recovery.py",
        "        state.members.update({client: member.copy() for client, member in unsaved.members.items()})\n",
        "",
        "a message that cannot be handled undoes nothing but itself",
    ),
    Mutation(
        "a mean loss is divided by the records of clients whose losses do not count",
        COORDINATOR + "round/aggregation.py",
        "records, losses = sum([c.records for c in judges]), [c.losses[model.name] for c in judges]",
        "losses = [c.losses[model.name] for c in judges]",
        "a mean is over the records that its sum is of",
    ),
    Mutation(
        "a client whose update was in an aborted entry is counted as missing",
        COORDINATOR + "close/entry.py",
        "excused = closing.updates.keys() | (closing.excluded or frozenset())",
        "excused = closing.updates.keys()",
        "nobody expires because of others",
    ),
    Mutation(
        "a start is told its number before this is saved",
        COORDINATOR + "machine.py",
        "taken: list[CoordinatorDecision] = [Publish(answer) if self.is_scoring else Commit(answer)]",
        "taken: list[CoordinatorDecision] = [Publish(answer)]",
        "no two starts have the same number, also after a kill of the coordinator",
    ),
    Mutation(
        "a client is evicted one refused entry too late",
        COORDINATOR + "close/entry.py",
        "if member.refused >= REFUSALS_IN_A_ROW:",
        "if member.refused > REFUSALS_IN_A_ROW:",
        "a client is evicted after the documented number of refused entries",
    ),
    Mutation(
        "sums of fewer clients than the settings demand are unmasked",
        COORDINATOR + "round_kinds/masked.py",
        "if len(there) < self.settings.min_clients_per_sum:",
        "if not there:",
        "the coordinator sees no sum of fewer clients than the settings say",
    ),
)

OF_LEARNING = (
    Mutation(
        "a sum in fixed point may overflow if none of its parts does",
        LEARNING + "fixed_point.py",
        "if not sum(largest.tolist()) < LIMIT:",
        "if not max(largest.tolist()) < LIMIT:",
        "a sum that overflows is refused",
    ),
    Mutation(
        "a client's history has no effect on its share",
        LEARNING + "influence.py",
        "shares = np.minimum(_share(sizes, middle, size), _share(distances, float(np.median(distances)), history))",
        "shares = _share(sizes, middle, size)",
        "a liar that pushes a little in each round loses its share",
    ),
    Mutation(
        "a client without a share still teaches the online models",
        COORDINATOR + "round_kinds/bounded_influence.py",
        "untrained = replace(update.numbers, differences={}, learnt=None, second_moments=None)",
        "untrained = replace(update.numbers, differences={}, second_moments=None)",
        "what a client without a share sent moves nothing",
    ),
    Mutation(
        "the histories of clients are forgotten after each round",
        COORDINATOR + "close/conclusion.py",
        "state.influence if influence is None else influence.hidden(settings.secret)",
        "state.influence",
        "a history covers many rounds",
    ),
    Mutation(
        "the bound on a client's share of the records is never applied",
        COORDINATOR + "round_kinds/bounded_influence.py",
        "[_of_fewer(update, most, sums, online) if update.records > most else update for update in updates]",
        "list(updates)",
        "no client weighs more than so many times the middle one",
    ),
    Mutation(
        "the losses of a client that counts as fewer records are not reduced",
        COORDINATOR + "round_kinds/bounded_influence.py",
        "losses = {name: _part_of(one, part) for name, one in measured.losses.items()}",
        "losses = dict(measured.losses)",
        "a mean score lies in [0, 1]",
    ),
    Mutation(
        "the squared deviations of a client that counts as fewer values are not reduced",
        "streamfl/protocol/tempered.py",
        "new_m2 = np.minimum(m2 * new_count / np.maximum(count, 1.0), new_count * far**2)",
        "new_m2 = np.minimum(m2, new_count * far**2)",
        "no client moves a scale far",
    ),
    Mutation(
        "the gradient of a whole round includes held-out records",
        LEARNING + "local_round.py",
        "            stacked[:, self.held] = 0.0\n",
        "            pass\n",
        "no held-out record is trained on",
    ),
)

OF_DRIFT = (
    Mutation(
        "evidence about a few clients outlives a restart",
        DRIFT + "excess.py",
        "self.logs, self.begun, self.eased, self.few = {}, {}, [], FewClients()",
        "self.logs, self.begun, self.eased = {}, {}, []",
        "a detector that was reset remembers nothing of the epoch before",
    ),
    Mutation(
        "the margin is never subtracted from a rise",
        DRIFT + "excess.py",
        "return Sample(round(count), mean - MARGIN, variance, uncertain)",
        "return Sample(round(count), mean, variance, uncertain)",
        "a rise too small to matter is no drift",
    ),
    Mutation(
        "the evidence of a start is added up over the rounds before it",
        DRIFT + "few_clients.py",
        "np.moveaxis(seen[::-1].cumsum(axis=0)[::-1], 2, 0)",
        "np.moveaxis(seen.cumsum(axis=0), 2, 0)",
        "drift that has just begun at a few clients is noticed",
    ),
    Mutation(
        "a relabelled model is chosen without being surely better",
        ADAPTIVE + "choice.py",
        "return mean > max(by * error, ROUNDING)",
        "return mean > ROUNDING",
        "labels are renamed only if that surely improves the model",
    ),
    Mutation(
        "a relabelled model pays nothing for records of labels that it does not know",
        ADAPTIVE + "choice.py",
        "sums = {c: answer.clients[c].losses[name] + (renamed[c] - as_it_is[c]) for c in fits}",
        "sums = {c: renamed[c] for c in fits}",
        "candidates are compared on the same records",
    ),
    Mutation(
        "the models from before a restart count as models of the new epoch",
        ADAPTIVE + "promotion.py",
        "self.trail, self.branches, self.latch = Trail(), [], None",
        "self.branches, self.latch = [], None",
        "a candidate from before an alarm is of its own epoch",
    ),
    Mutation(
        "the clients of an ended branch keep the held-out records of the branch's time",
        ADAPTIVE + "promotion.py",
        "        self._renew(branch.clients, t)\n        if branch.has_returned():\n",
        "        if branch.has_returned():\n",
        "a client is compared with records held out under the model that serves it",
    ),
    Mutation(
        "after a restart new records are compared with those of the alarm's round",
        ADAPTIVE + "promotion.py",
        "self.held_since, self.renewed, self.released = t + 1, {}, ()",
        "self.held_since, self.renewed, self.released = t, {}, ()",
        "held-out records are of the epoch",
    ),
)

OF_NATIVE = (
    Mutation(
        "an expert that sleeps still learns",
        KERNELS + "one_record.py",
        "        if not learning.mixing.awake[m]:\n            for c in range(errors.shape[1]):\n"
        "                errors[m, c] = 0.0\n",
        "",
        "a sleeping expert does not change",
    ),
    Mutation(
        "a cell of a fern counts as visited once, however often it was",
        KERNELS + "steps.py",
        "models.visits[cell] += 1",
        "models.visits[cell] = 1",
        "a cell moves by the mean weighted by visits",
    ),
    Mutation(
        "an expert shares its weight with sleeping experts, where it is lost",
        KERNELS + "mixing.py",
        "weights[e] = (1.0 - SHARE) / total * weights[e] + SHARE / count",
        "weights[e] = (1.0 - SHARE) / total * weights[e] + SHARE / len(weights)",
        "weights sum to 1",
    ),
    Mutation(
        "the last answer predicts all records of a batch that is not learnt",
        KERNELS + "one_record.py",
        "centre = predict(learning, remembered, X, rounds, i, i == 0 or len(truths) > 0)",
        "centre = predict(learning, remembered, X, rounds, i, True)",
        "the last answer predicts only the next record",
    ),
    Mutation(
        "predictions of records that are read again count twice",
        NATIVE + "at_client.py",
        "        self.learner.restore()\n        self._served = []\n",
        "        self.learner.restore()\n",
        "a client has one served prediction for each record",
    ),
    Mutation(
        "clients weigh alike in the mean of linear weights, however many records they have",
        NATIVE + "merging/on_grids.py",
        "sent.append((part.records, _in_common(",
        "sent.append((1, _in_common(",
        "linear weights move by the mean over records",
    ),
    Mutation(
        "what rounding keeps back of linear weights is forgotten",
        NATIVE + "merging/on_grids.py",
        "next_steps(parts), replace(kept_back, weights=left))",
        "next_steps(parts), kept_back)",
        "errors of rounding do not add up over rounds",
    ),
    Mutation(
        "clients that drifted alone change the online models of all",
        NATIVE + "merging/agreed_round.py",
        "parts = [part for client, part in learnt.items() if client not in apart]",
        "parts = list(learnt.values())",
        "clients that learn apart add nothing to what is common",
    ),
)

OF_WIRE = (
    Mutation(
        "deflated bytes that were cut off are read as if they were all there",
        "streamfl/wire/primitives.py",
        "if len(whole) > most or not unpacker.eof or unpacker.unused_data:",
        "if len(whole) > most or unpacker.unused_data:",
        "bytes that were cut off are refused",
    ),
    Mutation(
        "a negative zero that is a field's default but for its sign is left out",
        "streamfl/wire/codec.py",
        "return bool(value == default) and math.copysign(1.0, value) == math.copysign(1.0, default)",
        "return bool(value == default)",
        "what is decoded is what was encoded, bit by bit",
    ),
    Mutation(
        "each array may have as many numbers as all arrays together",
        "streamfl/wire/compact.py",
        "        most -= x.size\n",
        "",
        "a few bytes cannot fill the memory",
    ),
    Mutation(
        "the digest of changed models is not compared",
        "streamfl/protocol/changes.py",
        "return models if _digest(models.values()) == message.digest else None",
        "return models",
        "forged changes of models are refused",
    ),
)

OF_LOG = (
    Mutation(
        "a client does not get the first record after the position that it seeks",
        "streamfl/runtime/log/partition.py",
        "rows = rows[decoded.positions[rows] >= self.next]",
        "rows = rows[decoded.positions[rows] > self.next]",
        "no record is lost",
    ),
    Mutation(
        "records that were read before a seek are given after it",
        "streamfl/runtime/log/partition.py",
        "            self._inbox.clear()\n            self.lags, self.sought, self.end",
        "            self.lags, self.sought, self.end",
        "after a seek the records at its position come next",
    ),
    Mutation(
        "the group's offset moves past records that a client without room has skipped",
        "streamfl/runtime/log/partition.py",
        "if at is None or self.wait or at.pending or source.waiting or source.lags:",
        "if at is None or self.wait or at.pending or source.waiting:",
        "the group's offset is before all records that are still needed",
    ),
    Mutation(
        "the bytes of a value that a newer one has replaced stay counted",
        "streamfl/runtime/log/parts.py",
        "            self.held -= whole.held\n            whole = None\n",
        "            whole = None\n",
        "what is counted as held is held",
    ),
    Mutation(
        "pieces of two ledger entries are joined",
        "streamfl/runtime/log/control.py",
        "follows = not self._closed or _same(self._closed[0], closed)",
        "follows = True",
        "a joined entry is one that the coordinator wrote",
    ),
    Mutation(
        "records that are read again are counted again",
        "streamfl/runtime/log/intake.py",
        "self._seen[reader.name] = max(seen, end)",
        "self._seen[reader.name] = end",
        "a record is counted once, however often it is read",
    ),
)

OF_KAFKA = (
    Mutation(
        "a transaction saves the state without the offsets of what was handled",
        KAFKA + "coordinator/transactions.py",
        "state, state_topic.PLACE)\n            self._incoming.commit_handled(self._producer)\n",
        "state, state_topic.PLACE)\n",
        "a coordinator handles each message once, also after a kill",
    ),
    Mutation(
        "every state is written under the same key",
        KAFKA + "coordinator/transactions.py",
        "KEYS[self._saves % len(KEYS)]",
        "KEYS[0]",
        "compaction leaves the state before the last one, too",
    ),
    Mutation(
        "a failed transaction is repeated although it was committed",
        KAFKA + "coordinator/transactions.py",
        "return self._renew(state) != self.saved",
        "self._renew(state)\n        return False",
        "an entry is in the log exactly once",
    ),
    Mutation(
        "an update is sent before the answers that it counts are in the log",
        KAFKA + "hosts/client_links.py",
        "        if isinstance(message, Update):\n            self._before_update()\n",
        "",
        "each answer that an update counts is in the log",
    ),
    Mutation(
        "a standby takes over although there are heartbeats that it has not read",
        KAFKA + "coordinator/standby.py",
        "if end <= consumer.position(partition) and time.monotonic() - asked < silence:",
        "if time.monotonic() - asked < silence:",
        "a slow standby takes over from nobody who is alive",
    ),
    Mutation(
        "a position is off by one after a seek",
        KAFKA + "hosts/feed.py",
        "self._consumer.seek(partition, wanted // self._format.stride)",
        "self._consumer.seek(partition, wanted // self._format.stride + 1)",
        "no record is lost",
    ),
)

OF_ANSWERS = (
    Mutation(
        "the model file answers a client that drifted alone by all models",
        "streamfl/run/model_file.py",
        "        for client, rows in by_branch.items():\n",
        "        for client, rows in NO_BRANCHES.items():\n",
        "a client that drifted alone is answered as its branch mixes all models",
    ),
    Mutation(
        "a follower answers a client that drifted alone by all models",
        CLIENT + "follower.py",
        'branch = serving.opened.branch_of(client) if serving is not self.serving() else ""',
        'branch = ""',
        "a client that drifted alone is answered as its branch mixes all models",
    ),
    Mutation(
        "a meter is said to have moved",
        "streamfl/run/evaluation/changes.py",
        "& (one_way >= ONE_WAY * changes)",
        "& (one_way > changes)",
        "what rises all the time has not moved",
    ),
)

OF_LABELS = (
    Mutation(
        "the label of a rejected record waits for the window's end",
        CLIENT + "intake/waiting.py",
        "        positions = [one[0] for one in (place, bad) if one is not None and one[0] < self._end]\n",
        "        positions = [] if place is None or place[0] >= self._end else [place[0]]\n",
        "one bad record does not stop its client",
    ),
    Mutation(
        "records that were read beyond the one that passed a label count for it",
        CLIENT + "intake/waiting.py",
        "        if self._passes(label, written, first):\n",
        "        if not positions and self._passes(label, written, first):\n",
        "what a label finds does not depend on how far the records were read",
    ),
)

OF_TRUST = (
    Mutation(
        "a client tells totals about records it has told about before",
        CLIENT + "work/disclosure.py",
        "    return sum(map(len, new)) >= min_records or not any(map(len, batches))\n",
        "    return True\n",
        "no combination of totals tells about fewer than min_clients_per_sum clients",
    ),
    Mutation(
        "names that a client brings alone cost it nothing",
        COORDINATOR + "names.py",
        "if name not in taken and name.cost <= left:",
        "if name not in taken:",
        "a member that names ever new things does not slow down all others",
    ),
)

MUTATIONS = (
    *OF_ANSWERS,
    *OF_LABELS,
    *OF_TRUST,
    *OF_CLIENT,
    *OF_COORDINATOR,
    *OF_LEARNING,
    *OF_DRIFT,
    *OF_NATIVE,
    *OF_WIRE,
    *OF_LOG,
    *OF_KAFKA,
)
