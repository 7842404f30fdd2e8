"""`members.toml`: the public keys of a federation's processes and operators, and the clients of each host."""

import tomllib
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from streamfl.bounds import NAME_BYTES
from streamfl.errors import UsageError, did_you_mean
from streamfl.live.settings.validation import first_of
from streamfl.machines.coordinator.gate.grants import KeyGrants
from streamfl.wire.signing import Listed, PublicKey

# The most hosts and operators, and the most patterns of one of them.
MOST_LISTED, MOST_PATTERNS = 10_000, 1_000


def _public(text: str) -> str:
    try:
        return str(PublicKey.of(text))
    except UsageError as error:
        raise ValueError(str(error)) from None


def _starred(text: str) -> str:
    if text.count("*") > 1:
        raise ValueError(f"{text!r}: a name may contain only one *")
    return text


Name = Annotated[str, Field(min_length=1, max_length=NAME_BYTES)]
Public = Annotated[str, AfterValidator(_public)]
Patterns = Annotated[tuple[Annotated[Name, AfterValidator(_starred)], ...], Field(max_length=MOST_PATTERNS)]


class _MembersTable(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Named(_MembersTable):
    name: Name
    key: Public


class ListedCoordinator(_MembersTable):
    """`[coordinator]`: its public key, and former ones, with which a state that it continues from may be signed."""

    key: Public
    former: tuple[Public, ...] = Field((), max_length=MOST_PATTERNS)


class ListedOperator(_Named):
    """`[[operators]]`: a person or program whose commands count."""


class Group(_MembersTable):
    """`[groups.NAME]`: clients that several hosts may bring."""

    clients: Patterns


class ListedHost(_Named):
    """`[[hosts]]`: a host, its public key, and the names of the clients that it may bring, with at most one `*`."""

    clients: Patterns = ()
    groups: tuple[Name, ...] = Field((), max_length=MOST_PATTERNS)

    @model_validator(mode="after")
    def _brings_some(self) -> Self:
        if not (self.clients or self.groups):
            raise ValueError(f"{self.name}: name the clients that this host may run, in clients or groups")
        return self


class MembersFile(_MembersTable):
    """The list of members.

    >>> of = MembersFile.model_validate
    >>> host = {"name": "h", "key": str(PublicKey(bytes(32))), "clients": ["lab"], "groups": ["north"]}
    >>> listed = of({"hosts": [host], "groups": {"north": {"clients": ["plant-7.*"]}}})
    >>> list(listed.grants.by_signer.values())
    [('lab', 'plant-7.*')]
    """

    coordinator: ListedCoordinator | None = None
    operators: tuple[ListedOperator, ...] = Field((), max_length=MOST_LISTED)
    groups: dict[Name, Group] = Field(default_factory=dict, max_length=MOST_LISTED)
    hosts: tuple[ListedHost, ...] = Field((), max_length=MOST_LISTED)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        keys: dict[str, str] = {}
        coordinator = [] if self.coordinator is None else [("the coordinator", self.coordinator.key)]
        for name, key in (*coordinator, *((one.name, one.key) for one in self._named)):
            if keys.setdefault(key, name) != name:
                raise ValueError(f"{keys[key]} and {name} have the same key; each needs its own")
        for host in self.hosts:
            for group in host.groups:
                if group not in self.groups:
                    raise ValueError(f"{host.name}: there is no group {group!r}{did_you_mean(group, self.groups)}")
        return self

    @property
    def _named(self) -> tuple[_Named, ...]:
        return (*self.operators, *self.hosts)

    @property
    def grants(self) -> KeyGrants:
        """Return which clients each key speaks for; two entries of one key count together."""
        by_signer: dict[str, tuple[str, ...]] = {}
        for host in self.hosts:
            of_groups = (name for group in host.groups for name in self.groups[group].clients)
            by_signer[host.key] = (*by_signer.get(host.key, ()), *host.clients, *of_groups)
        return KeyGrants(by_signer)

    @property
    def host_keys(self) -> Listed:
        """Return the keys of all hosts."""
        return Listed.of(PublicKey.of(host.key) for host in self.hosts)

    @property
    def operator_keys(self) -> Listed:
        """Return the keys of all operators."""
        return Listed.of(PublicKey.of(operator.key) for operator in self.operators)

    @property
    def names(self) -> dict[str, str]:
        """Return the names of hosts and operators by their keys."""
        return {one.key: one.name for one in self._named}


def read_members(path: Path) -> MembersFile:
    """Return the list of members in a file.

    Raises
    ------
    UsageError
        It cannot be read, or something in it is wrong; the message names the first.
    """
    try:
        return MembersFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{path}: the list of members cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise UsageError(f"{path}: {first_of(error, MembersFile)}") from None
    except RecursionError:
        raise UsageError(f"{path}: brackets are nested too deeply for TOML") from None
    except ValueError as error:  # not TOML, or not UTF-8
        raise UsageError(f"{path}: {error}") from error
