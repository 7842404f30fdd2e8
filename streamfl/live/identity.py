"""With which key a process signs, and whose signatures it asks for: `[federation] members`."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import structlog

from streamfl.errors import UsageError
from streamfl.live.members_file import MembersFile, read_members
from streamfl.machines.coordinator.gate.grants import KeyGrants, TrustOnFirstUse
from streamfl.wire.sealing import Sealing
from streamfl.wire.signing import (
    OPEN,
    Anybody,
    Keys,
    Listed,
    Pinned,
    PrivateKey,
    PublicKey,
    Role,
    Signatures,
    Signer,
    Verifier,
    read_key,
)

if TYPE_CHECKING:
    from streamfl.live.settings.settings import FederationSettings

LOG = structlog.get_logger("streamfl.members")

# What it means that members are open, and what else there is.
OPEN_TO_ALL = (
    "anybody who may write to the topics can join, and can send messages as any client or as the coordinator"
)
REMEDY = (
    "for more than a trial, set members in [federation] before the first start (later, begin another federation), "
    'to "trust_on_first_use" or, if hosts take over for each other, to "file" (docs/kafka.md)'
)

# What a process does with its key: readers, such as `watch`, have none.
Process = Literal["client", "coordinator", "operator", "reader"]

# Next to a host's key: the key of the coordinator that spoke first.
PINNED = ".coordinator"


def signatures(settings: "FederationSettings", process: Process, key: Path | None = None) -> Signatures:
    """Return what a process signs with, and whose signatures it asks for.

    Parameters
    ----------
    key
        The file of an operator's key; other processes name theirs in the settings.

    Raises
    ------
    UsageError
        Its key or the list of members is missing, or cannot be used; or the list does not name the key.
    """
    if settings.federation.members == "open":
        return OPEN
    listed, whole = members_of(settings), settings.federation.members == "trust_on_first_use"
    own = None if process == "reader" else _own(settings, process, key)
    if own is not None:
        _require_listed(settings, listed, process, own)
    federation = settings.federation.name

    def verifier(role: Role, keys: Keys) -> Verifier:
        return Verifier(keys, role, federation)

    return Signatures(
        None if own is None or process == "reader" else Signer(own, process, federation, whole),
        verifier("client", Anybody() if whole else listed.host_keys),
        verifier("coordinator", _coordinators(settings, listed, process, own)),
        verifier("operator", listed.operator_keys),
    )


def members_of(settings: "FederationSettings") -> MembersFile:
    """Return the list of members; an empty one if `trust_on_first_use` has none.

    Raises
    ------
    UsageError
        It cannot be used.
    """
    federation = settings.federation
    if federation.members == "trust_on_first_use" and not federation.members_file.exists():
        return MembersFile()
    return read_members(federation.members_file)


def grants(settings: "FederationSettings") -> TrustOnFirstUse | KeyGrants | None:
    """Return who may speak for which client; None: everybody for every one."""
    match settings.federation.members:
        case "open":
            return None
        case "trust_on_first_use":
            return TrustOnFirstUse()
        case "file":
            return members_of(settings).grants


def secret(settings: "FederationSettings") -> Sealing | None:
    """Return what the coordinator alone knows, and one that stands by with the same key; None: it has no key."""
    if settings.federation.members == "open":
        return None
    return Sealing.of(_own(settings, "coordinator", None), settings.federation.name)


def warn_if_open(settings: "FederationSettings") -> None:
    """Log what it means that anybody may join."""
    if settings.federation.members == "open":
        LOG.warning(OPEN_TO_ALL, members="open", remedy=REMEDY)


def _own(settings: "FederationSettings", process: Process, key: Path | None) -> PrivateKey:
    """Return the private key of a process."""
    named = {"client": settings.client.key, "coordinator": settings.coordinator.key, "operator": key}
    path, members = named[process], settings.federation.members
    if path is None:
        where = "--key F" if process == "operator" else f"[{process}] key"
        raise UsageError(
            f'{where} is missing, and [federation] members is "{members}"; make a key: streamfl members key --out F'
        )
    return read_key(path)


def _require_listed(settings: "FederationSettings", listed: MembersFile, process: Process, own: PrivateKey) -> None:
    """Raise a UsageError if the list must name a process' key, and does not."""
    by_process = {
        "client": {host.key for host in listed.hosts},
        "coordinator": set() if listed.coordinator is None else {listed.coordinator.key},
        "operator": {operator.key for operator in listed.operators},
    }
    is_open_to = {"client": True, "coordinator": listed.coordinator is None, "operator": False}
    may_lack = settings.federation.members == "trust_on_first_use" and is_open_to[process]
    if not may_lack and str(own.public) not in by_process[process]:
        raise UsageError(
            f"{settings.federation.members_file}: {own.public} is not in the list as a key of this {process}; "
            "add it, or name another key"
        )


def _coordinators(
    settings: "FederationSettings", listed: MembersFile, process: Process, own: PrivateKey | None
) -> Keys:
    """Return whose signatures count as the coordinator's."""
    if listed.coordinator is not None:
        former = listed.coordinator.former if process == "coordinator" else ()
        return Listed.of(PublicKey.of(key) for key in (listed.coordinator.key, *former))
    if settings.federation.members == "file":
        raise UsageError(f"{settings.federation.members_file}: [coordinator] key is missing; add its public key")
    if process == "coordinator" and own is not None:
        return Listed.of([own.public])
    return Pinned(_where_pinned(settings) if process == "client" else None)


def _where_pinned(settings: "FederationSettings") -> Path | None:
    """Return where a host keeps the key of the coordinator that spoke first."""
    own, named = settings.client.key, settings.client.coordinator_key
    return named if named is not None or own is None else own.with_name(own.name + PINNED)
