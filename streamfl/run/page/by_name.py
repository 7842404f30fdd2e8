"""What the newest announcements say of each feature and each label, as tables of the page."""

from collections.abc import Sequence
from typing import Any

from streamfl.run.page.view import Card, View
from streamfl.run.report.words import count, counted, quantity

# What announcements are called on the page.
KINDS = {
    "restart": "Restart",
    "local drift": "Local drift",
    "inputs moved": "Inputs moved",
    "inputs stuck": "Stuck sensors",
    "notice": "Notice",
}

# The same of a label: the only notice is of the mix of classes.
OF_LABEL = KINDS | {"notice": "Mix of classes"}

# How many features, and how many labels, are listed.
MOST = 50


def by_name(view: View) -> list[dict[str, Any]]:
    """Return a table of the features that moved, of those that are stuck, and of the labels that changed, if any did.

    All have the newest first, and say how often the announcements that the page keeps have named each.
    """
    heads = ["feature", "#mean before", "#mean since", "at", "since", "#times"]
    features = [
        (feature, [quantity(before), quantity(after), counted(clients, "client") if clients else "all clients"], card)
        for card in view.cards
        for feature, before, after, clients in card.change.moved
    ]
    stuck = [
        (feature, [client, quantity(value)], card)
        for card in view.cards
        for feature, client, value in card.change.stuck
    ]
    labels = [
        (label, [OF_LABEL.get(card.change.kind, card.change.kind)], card)
        for card in view.cards
        for label in card.change.labels
    ]
    made = [
        _table("Features that moved", heads, features),
        _table("Stuck sensors", ["feature", "client", "#value", "since", "#times"], stuck),
        _table("Labels that changed", ["label", "newest change", "since", "#times"], labels),
    ]
    return [one for one in made if one["rows"]]


def _table(title: str, heads: list[str], told: Sequence[tuple[str, list[str], Card]]) -> dict[str, Any]:
    """Return a table with the newest of what was told of each name, and how often something was."""
    times: dict[str, int] = {}
    newest: dict[str, list[str]] = {}
    for name, cells, card in told:
        newest.pop(name, None)  # so that the order is that of the newest
        times[name] = times.get(name, 0) + 1
        newest[name] = [name, *cells, _since(card), count(times[name])]
    return {"title": title, "heads": heads, "rows": [*newest.values()][: -MOST - 1 : -1]}


def _since(card: Card) -> str:
    change = card.change
    return f"round {count(change.since)}{f', {change.began}' if change.began else ''}"
