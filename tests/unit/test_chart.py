"""The chart for Kubernetes: its resources are what the schemas ask for, and run commands that there are."""

import subprocess
import tomllib
from typing import Any

import kubernetes_validate
import pytest
import yaml
from command_lines import parse
from tools import ROOT, tool

from streamfl import __version__

pytestmark = pytest.mark.process

CHART = ROOT / "deploy" / "helm" / "streamfl"
SETTINGS = ROOT / "deploy" / "federation.toml"
EVERYTHING = {
    "scorers.replicas": "2",
    "scorers.http": "true",
    "page.enabled": "true",
    "imagePullSecrets[0].name": "registry",
    "nodeSelector.disk": "fast",
    "tolerations[0].operator": "Exists",
    "networkPolicy.monitoring.matchLabels.team": "watch",
    "networkPolicy.users.matchLabels.team": "plant",
    "networkPolicy.egress[0].ports[0].port": "4318",
    "extraEnv[0].name": "HTTPS_PROXY",
    "extraEnv[0].value": "http://proxy:3128",
    "extraVolumes[0].name": "tokens",
    "extraVolumes[0].emptyDir.medium": "Memory",
    "extraVolumeMounts[0].name": "tokens",
    "extraVolumeMounts[0].mountPath": "/var/run/tokens",
    **{f"secrets.{kind}.{role}": f"{kind}-{role}" for kind in ("environment", "files") for role in ("hosts", "page")},
}
WITH_MEMBERS = {f"secrets.files.{role}": f"files-{role}" for role in ("coordinator", "hosts", "scorers", "page")}
OPERATED = {"prometheusOperator.enabled": "true", "prometheusOperator.labels.release": "prometheus"}
Document = dict[str, Any]


def rendered(**values: str) -> list[Document]:
    """Return the documents of a release `forest` of the chart."""
    given = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    command = [tool("helm"), "template", "forest", str(CHART), "--kube-version", "1.31.0"]
    done = subprocess.run(
        [*command, "--set-file", f"settings={SETTINGS}", *given], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


@pytest.fixture(scope="module")
def everything() -> list[Document]:
    return rendered(**EVERYTHING)


def named(documents: list[Document], kind: str) -> dict[str, Document]:
    return {one["metadata"]["name"]: one for one in documents if one["kind"] == kind}


def pods(documents: list[Document]) -> dict[str, Document]:
    """Return the specification of the pods of each workload."""
    workloads = named(documents, "StatefulSet") | named(documents, "Deployment")
    return {name: one["spec"]["template"]["spec"] for name, one in workloads.items()}


def test_helm_finds_no_fault_with_the_chart() -> None:
    command = [tool("helm"), "lint", "--strict", str(CHART), "--set-file", f"settings={SETTINGS}"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_chart_without_settings_says_what_to_give() -> None:
    command = [tool("helm"), "template", "forest", str(CHART), "--kube-version", "1.31.0"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert "give the federation's settings file, --set-file settings=federation.toml" in done.stderr


@pytest.mark.parametrize(
    "values", [{}, EVERYTHING, EVERYTHING | WITH_MEMBERS], ids=["default", "everything", "members"]
)
@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_every_resource_is_what_kubernetes_takes(values: dict[str, str], version: str) -> None:
    documents = rendered(**values)
    assert len(documents) >= 8
    for document in documents:
        kubernetes_validate.validate(document, version, strict=True)


def test_by_default_there_are_two_coordinators_three_hosts_and_nothing_else() -> None:
    sets = named(rendered(), "StatefulSet")
    assert {name: one["spec"]["replicas"] for name, one in sets.items()} == {
        "forest-coordinator": 2,
        "forest-hosts": 3,
    }


def test_processes_run_commands_that_there_are(everything: list[Document]) -> None:
    (settings,) = named(everything, "ConfigMap").values()
    text = settings["data"]["federation.toml"]
    assert tomllib.loads(text) == tomllib.loads(SETTINGS.read_text())
    run = {name: spec["containers"][0]["args"] for name, spec in pods(everything).items()}
    assert {name: words[0] for name, words in run.items()} == {
        "forest-coordinator": "coordinator",
        "forest-hosts": "client",
        "forest-scorers": "score",
        "forest-page": "page",
    }
    assert "--standby" in run["forest-coordinator"]
    for name, words in run.items():
        mounts = pods(everything)[name]["containers"][0]["volumeMounts"]
        assert words[2] in {mount["mountPath"] for mount in mounts}
        assert parse([str(SETTINGS) if word == words[2] else word for word in words]) == words[0]


def test_no_process_may_more_than_it_must(everything: list[Document]) -> None:
    for spec in pods(everything).values():
        (container,) = spec["containers"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == 10001
        assert spec["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        assert container["image"] == f"streamfl:{__version__}"


def test_probes_and_services_lead_to_ports_that_there_are(everything: list[Document]) -> None:
    ports = {
        name: {one["name"]: one["containerPort"] for one in spec["containers"][0]["ports"]}
        for name, spec in pods(everything).items()
    }
    assert ports["forest-scorers"] == {"http": 8000, "telemetry": 9464, "health": 9465}
    for name, one in (named(everything, "StatefulSet") | named(everything, "Deployment")).items():
        scraped = one["spec"]["template"]["metadata"]["annotations"].get("prometheus.io/port")
        assert scraped == ("9464" if "telemetry" in ports[name] else None)
    for name, spec in pods(everything).items():
        container = spec["containers"][0]
        probes = [container[key] for key in ("startupProbe", "livenessProbe", "readinessProbe") if key in container]
        assert probes
        telemetry = {one["name"]: one.get("value") for one in container["env"]}.get("STREAMFL_TELEMETRY__HEALTH")
        assert telemetry == ("0.0.0.0:9465" if "health" in ports[name] else None)
        for probe in probes:
            action = probe.get("httpGet") or probe["tcpSocket"]
            assert action["port"] in ports[name]
            assert action.get("path", "/ready") in {"/live", "/ready"}
        for service_port in named(everything, "Service")[name]["spec"]["ports"]:
            assert service_port["targetPort"] in ports[name]
    open_to = [
        one["port"]
        for rule in named(everything, "NetworkPolicy")["forest"]["spec"]["ingress"]
        for one in rule["ports"]
    ]
    assert {port for of in ports.values() for name, port in of.items() if name != "health"} == set(open_to)
    assert 9465 not in open_to  # a node's probes pass without a rule, and nobody else is to take their connections


def test_secrets_are_named_and_never_written(everything: list[Document]) -> None:
    assert named(everything, "Secret") == {}
    hosts, coordinator = pods(everything)["forest-hosts"], pods(everything)["forest-coordinator"]
    assert hosts["containers"][0]["envFrom"] == [{"secretRef": {"name": "environment-hosts"}}]
    assert {"name": "keys", "secret": {"secretName": "files-hosts", "defaultMode": 0o440}} in hosts["volumes"]
    assert "envFrom" not in coordinator["containers"][0]


def test_with_members_every_process_finds_its_key_in_a_folder_that_nobody_can_write_to() -> None:
    for name, spec in pods(rendered(**EVERYTHING | WITH_MEMBERS)).items():
        (mount,) = [one for one in spec["containers"][0]["volumeMounts"] if one["name"] == "keys"]
        assert mount == {"name": "keys", "mountPath": "/etc/streamfl/keys", "readOnly": True}
        (volume,) = [one for one in spec["volumes"] if one["name"] == "keys"]
        assert volume["secret"]["secretName"] == f"files-{name.removeprefix('forest-')}"


def test_the_prometheus_operator_gets_the_alerts_of_the_documentation_and_every_process_with_metrics() -> None:
    documents = rendered(**OPERATED)
    (rule,), (monitor,) = (named(documents, kind).values() for kind in ("PrometheusRule", "ServiceMonitor"))
    assert rule["spec"] == yaml.safe_load((ROOT / "deploy" / "monitoring" / "alerts.yml").read_text())
    assert {one["metadata"]["labels"]["release"] for one in (rule, monitor)} == {"prometheus"}
    for service in named(documents, "Service").values():
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert monitor["spec"]["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}
    for one in named(documents, "StatefulSet").values():
        assert "prometheus.io/port" not in one["spec"]["template"]["metadata"]["annotations"]  # not scraped twice


def test_a_value_that_there_is_not_is_refused() -> None:
    command = [tool("helm"), "template", "forest", str(CHART), "--set-file", f"settings={SETTINGS}"]
    for wrong in ("host.replicas=3", "hosts.replicas=none"):
        done = subprocess.run([*command, "--set", wrong], check=False, capture_output=True, text=True)
        assert "values don't meet the specifications of the schema" in done.stderr


def test_a_change_of_the_settings_starts_pods_anew_and_one_at_a_time_is_taken_away(
    everything: list[Document],
) -> None:
    for one in named(everything, "StatefulSet").values():
        assert len(one["spec"]["template"]["metadata"]["annotations"]["checksum/settings"]) == 64
        budget = named(everything, "PodDisruptionBudget")[one["metadata"]["name"]]
        assert budget["spec"]["maxUnavailable"] == 1
        assert budget["spec"]["selector"] == one["spec"]["selector"]


def test_the_version_of_the_chart_is_that_of_the_package() -> None:
    told = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert told["version"] == told["appVersion"] == __version__
