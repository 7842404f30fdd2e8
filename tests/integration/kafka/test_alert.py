"""An alert fires in a real Prometheus when the stream of a real federation changes."""

import json
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from small_stream import ROUNDS, SWAP
from tools import ROOT, tool

from deploy.broker.ports import free_port

pytestmark = pytest.mark.full

MONITORING = ROOT / "deploy" / "monitoring"


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[Callable[[], dict[str, str]]]:
    """Run Prometheus with the rules that are deployed; yield what returns the state of each alert."""
    tool("prometheus")
    told = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    told["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    told["rule_files"] = [str(MONITORING / "alerts.yml")]
    told["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(told))
    port = free_port()
    command = [tool("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "prometheus.log").open("wb") as log:
        running = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=subprocess.STDOUT
        )

    def asked(path: str) -> dict[str, object]:
        assert running.poll() is None, (folder / "prometheus.log").read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", timeout=10) as reply:
                data: dict[str, object] = json.load(reply)["data"]
                return data
        except OSError:
            return {}

    def states() -> dict[str, str]:
        """Return the state of each alert that is pending or fires; `scraped` while the target is."""
        alerts = {one["labels"]["alertname"]: one["state"] for one in asked("alerts").get("alerts", ())}
        seen = asked("query?query=streamfl_rounds_total").get("result", ())
        return alerts | ({"scraped": seen[0]["value"][1]} if seen else {})

    try:
        yield states
    finally:
        running.terminate()
        running.wait(30.0)


def test_an_imposed_drift_fires_the_alert_and_nothing_before_it(federate, small, tmp_path):
    address = f"127.0.0.1:{free_port()}"
    federation = federate(small)
    federation.start("coordinator", "--set", f'telemetry.address="{address}"')
    with prometheus(tmp_path, address) as states:
        federation.start("a")
        small.write(until=SWAP - 1)
        federation.until("rounds are seen", lambda: states().get("scraped") == str(SWAP - 1))
        assert set(states()) == {"scraped"}
        small.write(until=ROUNDS)
        federation.until("the alert fires", lambda: states().get("StreamflDrift") == "firing")
        (first, *_) = federation.restarts()
        assert first.round >= SWAP
        small.end()
        federation.until("the end", lambda: all(one.popen.poll() is not None for one in federation.running))
