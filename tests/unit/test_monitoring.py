"""Alerts, dashboard and the page on them name metrics that processes show, and these alone."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard, Panel

ROOT = Path(__file__).parents[2]
LIVE = ROOT / "streamfl" / "live"
SHOWN = {
    name
    for file in [*LIVE.glob("*.py"), *LIVE.glob("metrics/*.py")]
    for name in re.findall(r'"(streamfl_[a-z_]+)"', file.read_text())
}
PAGE = (ROOT / "docs" / "operate.md").read_text()
RULES: list[dict[str, Any]] = yaml.safe_load((ROOT / "deploy" / "monitoring" / "alerts.yml").read_text())["groups"][
    0
]["rules"]
DASHBOARD = json.loads((ROOT / "deploy" / "monitoring" / "dashboard.json").read_text())
TARGETS = {
    f"{panel['title']}: {target['refId']}": target for panel in DASHBOARD["panels"] for target in panel["targets"]
}
LABELS = set(re.findall(r"`([a-z]+)`", "".join(re.findall(r"\|[^|]*\| (`[a-z`, ]+`) \|", PAGE))))
ADDED = {"instance", "job", "le"}  # by Prometheus


def named(expression: str) -> set[str]:
    """Return the metrics of streamfl that an expression names."""
    return set(re.findall(r"\bstreamfl_[a-z_]+", expression))


def test_the_page_names_all_metrics_and_no_others() -> None:
    assert named(PAGE) == SHOWN
    assert len(SHOWN) > 40


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_is_of_metrics_that_are_shown_and_the_page_explains_it(rule: dict[str, Any]) -> None:
    assert named(rule["expr"])
    assert named(rule["expr"]) <= SHOWN
    assert re.search(rf"^\| `{rule['alert']}` \| [^|]+ \| [^|]+ \|$", PAGE, re.MULTILINE)
    labels = set(re.findall(r"\$labels\.([a-z]+)", rule["annotations"]["summary"]))
    assert labels <= LABELS | ADDED
    assert rule["labels"]["severity"] in ("info", "warning", "critical")


def test_the_page_explains_no_other_alerts() -> None:
    assert set(re.findall(r"^\| `(Streamfl\w+)`", PAGE, re.MULTILINE)) == {rule["alert"] for rule in RULES}


@pytest.mark.parametrize("target", TARGETS)
def test_the_dashboard_is_of_metrics_that_are_shown(target: str) -> None:
    expression = TARGETS[target]["expr"]
    assert named(expression) <= SHOWN
    assert named(expression) or expression.startswith("process_")
    assert set(re.findall(r"{{([a-z]+)}}", TARGETS[target]["legendFormat"])) <= LABELS | ADDED


def test_grafanas_own_models_know_every_field_of_the_dashboard() -> None:
    register_default_plugins()
    known = json.loads(JSONEncoder().encode(Dashboard.from_json(copy.deepcopy(DASHBOARD))))
    for annotation in DASHBOARD["annotations"]["list"]:
        # A field of annotations from Prometheus, which the models of Grafana's kit leave to the data source.
        known["annotations"]["list"][0]["titleFormat"] = annotation["titleFormat"]
    assert within(DASHBOARD, known)


def within(some: Any, more: Any) -> bool:
    """Tell whether all fields of the one are those of the other, which may have more."""
    if isinstance(some, dict):
        return isinstance(more, dict) and all(name in more and within(some[name], more[name]) for name in some)
    if isinstance(some, list):
        return isinstance(more, list) and len(some) == len(more) and all(map(within, some, more))
    return bool(some == more)


def test_a_field_that_grafana_does_not_know_is_found() -> None:
    panel = {**DASHBOARD["panels"][0], "titel": "misspelt"}
    known = json.loads(JSONEncoder().encode(Panel.from_json(copy.deepcopy(panel))))
    assert not within(panel, known)
    assert within(DASHBOARD["panels"][0], known)


def test_the_dashboard_has_no_panel_twice_or_over_another() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in DASHBOARD["panels"]]
    assert len(set(places)) == len(places) == len({panel["id"] for panel in DASHBOARD["panels"]})
