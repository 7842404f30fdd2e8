"""Who may speak for which client, by the key that has signed; whether a signature is right is checked outside.

A signer is the text of a public key. Without grants everybody may speak for every client.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from streamfl.errors import did_you_mean
from streamfl.machines.coordinator.saved.state import CoordinatorState

# The most names that are searched for the one that was meant.
MOST_SEARCHED = 200

NOT_SIGNED = "its signature is missing or not valid"


@dataclass(frozen=True, slots=True)
class TrustOnFirstUse:
    """A client belongs to the key of the host that brought it first; new names come before round 1, or are admitted.

    Examples
    --------
    >>> from streamfl.learning.profiles.experts import Experts
    >>> state = CoordinatorState(Experts(), keys={"lab": "k1", "new": ""})
    >>> [TrustOnFirstUse().refusal("lab", signer, state) for signer in ("k1", "k2", "")]
    [None, 'another key than that of its host has signed it', 'its signature is missing or not valid']
    >>> TrustOnFirstUse().refusal("new", "k2", state)
    """

    def refusal(self, client: str, signer: str, state: CoordinatorState) -> str | None:
        """Return why a signer may not speak for a client, or None."""
        if not signer:
            return NOT_SIGNED
        key = state.keys.get(client)
        if key is None:
            return None if state.agreement is None else "nobody has admitted this client"
        return None if key in ("", signer) else "another key than that of its host has signed it"

    def suggestion(self, client: str, state: CoordinatorState) -> str:
        """Return the end of a sentence that names the closest client that there is."""
        return _closest(client, state.keys)


@dataclass(frozen=True, slots=True)
class KeyGrants:
    """Each key may speak for the clients that a list grants it.

    Examples
    --------
    >>> from streamfl.learning.profiles.experts import Experts
    >>> granted, state = KeyGrants({"k1": ("lab", "plant-7.*"), "k2": ("plant-8.*",)}), CoordinatorState(Experts())
    >>> [granted.refusal(client, "k1", state) for client in ("lab", "plant-7.a", "labb")]
    [None, None, 'no host may speak for it']
    >>> granted.refusal("plant-7.a", "k2", state), granted.suggestion("labb", state)
    ('its signer may not speak for it', '; did you mean lab?')
    """

    by_signer: Mapping[str, tuple[str, ...]]  # by key, patterns of the clients' names, each with at most one `*`

    def refusal(self, client: str, signer: str, state: CoordinatorState) -> str | None:
        """Return why a signer may not speak for a client, or None."""
        if not signer:
            return NOT_SIGNED
        if any(matches(name, client) for name in self.by_signer.get(signer, ())):
            return None
        return "its signer may not speak for it" if self._is_granted(client) else "no host may speak for it"

    def suggestion(self, client: str, state: CoordinatorState) -> str:
        """Return the end of a sentence that names the closest client that is granted to any host."""
        return "" if self._is_granted(client) else _closest(client, (*self._names, *state.members))

    def _is_granted(self, client: str) -> bool:
        return any(matches(name, client) for name in self._names)

    @property
    def _names(self) -> Iterator[str]:
        return (name for granted in self.by_signer.values() for name in granted)


def matches(pattern: str, client: str) -> bool:
    """Tell whether a client's name is one that a pattern stands for; `*` is any text that is not empty.

    >>> [matches("plant-7.*", name) for name in ("plant-7.a", "plant-7.", "plant-70.a")], matches("lab", "lab")
    ([True, False, False], True)
    """
    before, star, after = pattern.partition("*")
    if not star:
        return client == pattern
    is_longer = len(client) > len(before) + len(after)
    return is_longer and client.startswith(before) and client.endswith(after)


def _closest(client: str, names: Iterable[str]) -> str:
    others = sorted(set(names))
    return "" if client in others else did_you_mean(client, others[:MOST_SEARCHED])
