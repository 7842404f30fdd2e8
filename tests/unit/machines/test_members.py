"""Who may speak for which client: grants, what operators command, and messages that are sent again by others."""

import random
from typing import Any

import pytest
from unit.machines.script import (
    LEARNER,
    PROFILES,
    answer,
    broadcast,
    federation,
    feed,
    join,
    leave,
    plain,
    refusals,
    scores,
    uncounted,
)

from streamfl.bounds import NAMED, Limits
from streamfl.learning.profiles.experts import Experts
from streamfl.machines.coordinator.commands import wrong_command
from streamfl.machines.coordinator.gate.admission import BARRED
from streamfl.machines.coordinator.gate.grants import NOT_SIGNED, KeyGrants, TrustOnFirstUse
from streamfl.machines.coordinator.machine import MOST_WARNED, Coordinator
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.events import Ordered, Signed, Tick, Unusable
from streamfl.protocol.messages import (
    Command,
    Fenced,
    FromClient,
    FromCoordinator,
    Joined,
    MemberChanged,
    Refusal,
    Restarted,
    RoundClosed,
    RoundOpened,
    Score,
)
from streamfl.wire import state_bytes

OTHERS = "another key than that of its host has signed it"


def coordinator(
    grants: TrustOnFirstUse | KeyGrants | None = None, *, min_clients: int = 2, **settings: Any
) -> Coordinator:
    told = CoordinatorSettings(LEARNER, min_clients=min_clients, scaling=False, **settings)
    return Coordinator(told, CoordinatorState(plain()), grants=grants)


def begun(machine: Coordinator, **signers: str) -> RoundOpened:
    joins = (Signed(join(name), signer) for name, signer in signers.items())
    (opened,) = broadcast(feed(machine, *joins), RoundOpened)
    return opened


def command(action: Any, client: str, number: int) -> Ordered:
    return Ordered(Command(action=action, client=client, number=number), by="k0")


# --- known -----------------------------------------------------------------------------------------------------


def test_a_client_belongs_to_the_key_that_brought_it_first_also_before_round_1_and_after_a_kill():
    machine = coordinator(TrustOnFirstUse())
    feed(machine, Signed(join("c0"), "k1"))
    assert refusals(feed(machine, Signed(join("c0", start=2), "k2"))) == [("c0", OTHERS)]
    opened = begun(machine, c1="k2")
    for restarted in (False, True):
        if restarted:
            machine = Coordinator(machine.settings, saved(machine), grants=TrustOnFirstUse())
            feed_start(machine)
        for message in (join("c0", start=2), leave("c0"), answer(opened, "c0")):
            assert refusals(feed(machine, Signed(message, "k2"))) == [("c0", OTHERS)]
            assert refusals(feed(machine, message)) == [("c0", NOT_SIGNED)]
        assert machine.waited_for == {"c0", "c1"}
    (rejoined,) = broadcast(feed(machine, Signed(join("c0", start=2), "k1")), Joined)  # by another host of the key
    assert rejoined.incarnation == 2


def saved(machine: Coordinator) -> CoordinatorState:
    return state_bytes.decode(state_bytes.encode(machine.state))


def feed_start(machine: Coordinator) -> None:
    assert machine.start(0.0)


def test_a_new_name_after_round_1_joins_nothing_until_it_is_admitted():
    machine = coordinator(TrustOnFirstUse())
    begun(machine, lab="k1", c1="k2")
    told = feed(machine, *(Signed(join("labb", start=n), "k3") for n in (1, 1, 2)))
    assert refusals(told) == [("labb", "nobody has admitted this client; did you mean lab?")] * 3
    assert "labb" not in machine.state.members
    (refusal,) = broadcast(machine.announce(9.0), Refusal)
    assert (refusal.client, refusal.evicted) == ("labb", False)
    assert not feed(machine, Signed(join("labb"), "k3")) or not broadcast(machine.announce(99.0), Refusal)

    feed(machine, command("admit", "labb", 1))
    assert broadcast(feed(machine, Signed(join("labb"), "k3")), Joined)
    assert refusals(feed(machine, Signed(join("labb", start=2), "k4"))) == [("labb", OTHERS)]


def test_names_that_come_and_go_before_round_1_fill_no_memory():
    machine = coordinator(TrustOnFirstUse(), min_clients=9, limits=Limits(clients=4))
    for n in range(20):
        feed(machine, Signed(join(f"s{n}"), "k"), Signed(leave(f"s{n}"), "k"))
    assert len(machine.state.keys) == 4


# --- file ------------------------------------------------------------------------------------------------------


def test_hosts_of_one_grant_take_over_from_one_another_and_no_other_does():
    machine = coordinator(KeyGrants({"k1": ("c*",), "k2": ("c0", "d"), "k3": ("d",)}))
    opened = begun(machine, c0="k1", c1="k1")
    assert refusals(feed(machine, Signed(join("c0", start=2), "k3"))) == [("c0", "its signer may not speak for it")]
    (taken,) = broadcast(feed(machine, Signed(join("c0", start=2), "k2")), Joined)
    assert taken.incarnation == 2
    assert machine.state.keys == {"c0": "k2", "c1": "k1"}
    assert refusals(feed(machine, Signed(answer(opened, "c0"), "k1"))) == [
        ("c0", "another start of the client has taken its place")
    ]
    told = feed(machine, Signed(answer(opened, "c1"), "k1"), Signed(answer(opened, "c0", attempt="2-1"), "k2"))
    (closed,) = broadcast(told, RoundClosed)
    assert [one.client for one in closed.accepted] == ["c0", "c1"]


def test_what_others_send_in_a_members_name_never_counts_against_it():
    machine = coordinator(KeyGrants({"k1": ("c*",)}))
    opened = begun(machine, c0="k1", c1="k1")
    for _ in range(10):
        feed(machine, Unusable("c0", "it is not signed"), answer(opened, "c0"), Signed(leave("c0"), "k9"))
    assert machine.waited_for == {"c0", "c1"}
    assert machine.state.refused == 30
    for _ in range(3):
        feed(machine, Unusable("c1", "no message", signer="k1"))
    assert machine.waited_for == {"c0"}


# --- commands --------------------------------------------------------------------------------------------------


def test_an_evicted_client_is_out_at_once_and_until_it_is_admitted():
    machine = coordinator()
    opened = begun(machine, c0="k", c1="k")
    told = feed(machine, answer(opened, "c0"), command("evict", "c1", 1))
    (changed,) = broadcast(told, MemberChanged)
    assert (changed.action, changed.client, changed.by, changed.entry) == ("evict", "c1", "k0", 2)
    (refusal,) = broadcast(told, Refusal)
    assert (refusal.client, refusal.incarnation, refusal.evicted, refusal.reason) == ("c1", 1, True, BARRED)
    (closed,) = broadcast(told, RoundClosed)  # which waited for it
    assert [one.client for one in closed.accepted] == ["c0"]
    for message in (join("c1"), join("c1", start=2), answer(opened, "c1"), leave("c1")):
        assert refusals(feed(machine, message)) == [("c1", BARRED)]
    feed(machine, command("admit", "c1", 2))
    (joined,) = broadcast(feed(machine, join("c1", start=2)), Joined)
    assert (joined.incarnation, joined.read) == (2, 0)


def test_what_a_client_sent_before_its_eviction_counts_in_the_open_entry():
    machine = coordinator()
    opened = begun(machine, c0="k", c1="k")
    feed(machine, answer(opened, "c1"))
    feed(machine, command("evict", "c1", 1))
    (closed,) = broadcast(feed(machine, answer(opened, "c0")), RoundClosed)
    assert [one.client for one in closed.accepted] == ["c0", "c1"]


def test_a_client_that_was_reset_belongs_to_the_key_that_comes_next():
    machine = coordinator(TrustOnFirstUse())
    opened = begun(machine, c0="k1", c1="k1")
    feed(machine, command("reset", "c0", 1))
    assert refusals(feed(machine, Signed(answer(opened, "c0"), "k2"))) == [("c0", "it is not a member")]
    told = feed(machine, Signed(join("c0"), "k1"))  # the start before: it is told that its place was taken
    assert [fenced.incarnation for fenced in broadcast(told, Fenced)] == [2]
    assert machine.state.keys["c0"] == ""
    (joined,) = broadcast(feed(machine, Signed(join("c0", start=3), "k2")), Joined)
    assert joined.incarnation == 3
    assert refusals(feed(machine, Signed(join("c0", start=4), "k1"))) == [("c0", OTHERS)]


@pytest.mark.parametrize("begins", [False, True])
def test_a_command_counts_once_and_in_its_turn(begins):
    machine = coordinator()
    if begins:
        begun(machine, c0="k", c1="k")
    feed(machine, command("evict", "c7", 1), command("admit", "c7", 2))
    before = uncounted(machine) if begins else None
    for number in (0, 1, 2, 4, -1, 2**70):
        ((client, reason),) = refusals(feed(machine, command("evict", "c7", number)))
        assert (client, reason[:18]) == ("", f"command {number}, where 3"[:18])
    if begins:
        assert uncounted(machine) == before
    assert machine.state.barred == ()
    assert refusals(feed(machine, command("evict", "x" * 300, 3)))
    assert not refusals(feed(machine, command("evict", "c7", 3)))


def test_an_introduced_client_that_is_evicted_is_not_waited_for():
    machine = coordinator()
    feed(machine, join("c0"), command("evict", "c0", 1))
    assert machine.waiting_clients == 0
    assert not broadcast(feed(machine, join("c1")), RoundOpened)
    assert broadcast(feed(machine, join("c2")), RoundOpened)


# --- replays ---------------------------------------------------------------------------------------------------


class Replaying:
    """Delivers every message again, now and then, in any order: somebody has read the log, and writes to it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.of_clients: list[FromClient] = []
        self.told: list[FromCoordinator] = []

    def some(self, of: list[Any]) -> list[Any]:
        return self.rng.sample(of, min(len(of), 3)) if self.rng.random() < 0.3 else []


@pytest.mark.parametrize("profile", list(PROFILES))
def test_no_replay_changes_a_byte(profile, monkeypatch):
    undisturbed, attacked, replaying = federation(profile), federation(profile), Replaying(5)
    undisturbed.run()
    to_coordinator, to_clients = attacked._coordinator, attacked._tell

    def coordinator_hears(event: FromClient) -> None:
        replaying.of_clients.append(event)
        to_coordinator(event)
        for message in replaying.some(replaying.of_clients):
            to_coordinator(message)

    def clients_hear(told: Any) -> None:
        replaying.told += told
        to_clients([*told, *replaying.some(replaying.told)])

    monkeypatch.setattr(attacked, "_coordinator", coordinator_hears)
    monkeypatch.setattr(attacked, "_tell", clients_hear)
    attacked.run()
    assert len(replaying.of_clients) > 40
    ledgers = [one.of(RoundClosed) for one in (undisturbed, attacked)]
    first, second = ([(c.entry, c.model, c.records, c.epoch) for c in once(closed)] for closed in ledgers)
    assert first == second


def once(closed: list[RoundClosed]) -> list[RoundClosed]:
    return list({one.entry: one for one in closed}.values())


def test_the_closest_name_is_looked_for_once_for_each_client_and_not_for_ever(monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(KeyGrants, "suggestion", lambda _, client, __: asked.append(client) or "; did you mean lab?")
    machine = coordinator(KeyGrants({"k1": ("lab",)}))
    for n in (*range(MOST_WARNED), *range(2 * MOST_WARNED)):
        ((_, reason),) = refusals(feed(machine, Signed(join(f"s{n}"), "k1")))
        assert reason == "no host may speak for it" + ("; did you mean lab?" if n < MOST_WARNED else "")
    assert asked == [f"s{n}" for n in range(MOST_WARNED)]


# --- commands about the federation -----------------------------------------------------------------------------


def about_all(action, number, model=""):
    return Ordered(Command(action=action, client="", number=number, model=model), by="k0")


def test_a_federation_that_is_held_closes_nothing_until_it_goes_on():
    machine = coordinator(deadline=5.0)
    opened = begun(machine, c0="k", c1="k")
    (told,) = broadcast(feed(machine, about_all("hold", 1)), MemberChanged)
    assert (told.action, told.client, told.by) == ("hold", "", "k0")
    decisions = feed(machine, answer(opened, "c0"), answer(opened, "c1"), Tick(), now=100.0)
    assert broadcast(decisions, RoundClosed) == []
    assert machine.wakes_at is None, "its deadline would be due again and again"
    decisions = feed(machine, about_all("resume", 2), now=100.0)
    (closed,) = broadcast(decisions, RoundClosed)
    assert [one.client for one in closed.accepted] == ["c0", "c1"]


def test_a_deadline_begins_anew_when_a_federation_goes_on():
    machine = coordinator(deadline=5.0)
    opened = begun(machine, c0="k", c1="k")
    feed(machine, about_all("hold", 1), answer(opened, "c0"))
    feed(machine, about_all("resume", 2), now=100.0)
    assert machine.wakes_at == 105.0


@pytest.mark.parametrize(
    ("model", "chosen"),
    [
        ("", "incumbent"),
        ("scratch", "scratch"),
        ("unheard of", "incumbent"),
        ("round-1", "round-1"),
        ("round-0", "incumbent"),
    ],
)
def test_a_restart_begins_an_epoch_when_the_round_closes(model, chosen):
    machine = coordinator()
    opened = begun(machine, c0="k", c1="k")
    feed(machine, about_all("restart", 1, model))
    decisions = feed(machine, answer(opened, "c0"), answer(opened, "c1"))
    (asked,) = broadcast(decisions, Score)
    updates = machine._unsaved.updates
    decisions = feed(machine, *(scores(updates[name], asked, 0.9) for name in ("c0", "c1")))
    while more := broadcast(decisions, Score):
        decisions = feed(machine, *(scores(updates[name], more[0], 0.9) for name in ("c0", "c1")))
    (restarted,) = broadcast(decisions, Restarted)
    assert (restarted.cause, restarted.chosen, restarted.epoch) == ("operator", chosen, 2)
    (opened,) = broadcast(decisions, RoundOpened)
    again = feed(machine, answer(opened, "c0", start=4), answer(opened, "c1", start=4))
    assert broadcast(again, Restarted) == broadcast(again, Score) == [], "one command, one restart"


def test_commands_about_the_federation_name_no_client_and_need_a_profile_with_epochs():
    machine = coordinator()
    begun(machine, c0="k", c1="k")
    named = Ordered(Command(action="hold", client="c0", number=1), by="k0")
    assert "names a client" in refusals(feed(machine, named))[0][1]
    state = CoordinatorState(Experts())
    wrong = wrong_command(Command(action="restart", client="", number=1), state, NAMED)
    assert wrong == "profile experts has no restarts, or a model of no name was named"
