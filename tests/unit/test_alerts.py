"""The rules of alerts, by Prometheus' own tool: they are rules, and fire when they should and not otherwise."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools import tool

pytestmark = pytest.mark.process

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
RULES: list[dict[str, Any]] = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"][0]["rules"]
TRIED: list[dict[str, Any]] = [
    tried
    for test in yaml.safe_load((MONITORING / "alerts.test.yml").read_text())["tests"]
    for tried in test["alert_rule_test"]
]


def told(*words: object) -> str:
    done = subprocess.run([tool("promtool"), *map(str, words)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_accepts_the_rules_of_the_alerts() -> None:
    assert f"SUCCESS: {len(RULES)} rules found" in told("check", "rules", MONITORING / "alerts.yml")


def test_prometheus_accepts_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    drawn = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    drawn += [annotation["expr"] for annotation in dashboard["annotations"]["list"]]
    filled_in = [expression.replace("$__rate_interval", "1m") for expression in drawn]
    rules = [{"record": f"drawn:{n}", "expr": expression} for n, expression in enumerate(filled_in)]
    (tmp_path / "drawn.yml").write_text(yaml.safe_dump({"groups": [{"name": "drawn", "rules": rules}]}))
    assert f"SUCCESS: {len(rules)} rules found" in told("check", "rules", tmp_path / "drawn.yml")


def test_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    here = (MONITORING / "prometheus.yml").read_text().replace("/etc/prometheus", str(MONITORING))
    (tmp_path / "prometheus.yml").write_text(here)
    assert "SUCCESS" in told("check", "config", tmp_path / "prometheus.yml")


def test_each_alert_fires_when_it_should_and_not_otherwise() -> None:
    assert "SUCCESS" in told("test", "rules", MONITORING / "alerts.test.yml")


@pytest.mark.parametrize("rule", [rule["alert"] for rule in RULES])
def test_every_alert_is_tried_both_ways(rule: str) -> None:
    fires = {bool(tried["exp_alerts"]) for tried in TRIED if tried["alertname"] == rule}
    assert fires == {True, False}
