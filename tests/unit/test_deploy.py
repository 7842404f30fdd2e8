"""What is deployed fits the program: its commands parse, its files are there, its units are units."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import dockerfile
import pytest
import yaml
from command_lines import parse
from tools import tool

from streamfl.live.settings.addresses import address
from streamfl.live.settings.loading import load

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = dockerfile.parse_file(str(DEPLOY / "docker" / "Dockerfile"))  # by Docker's own parser
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())
OWN = {name: one for name, one in COMPOSE["services"].items() if one["image"] == "streamfl"}
COMMANDS = ("coordinator", "client", "score", "page", "produce")
WITHOUT_METRICS = ("page", "produce")
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
KEYS = DEPLOY / "systemd" / "keys"


def image(instruction: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the flags and the words of each such instruction of the Dockerfile."""
    return [(one.flags, one.value) for one in DOCKERFILE if one.cmd == instruction]


@pytest.mark.parametrize("service", OWN)
def test_a_service_of_the_composition_runs_a_command_that_there_is(
    service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert parse([str(word) for word in OWN[service]["command"]]) in COMMANDS
    for name, value in OWN[service]["environment"].items():
        monkeypatch.setenv(name, str(value))
    assert load(DEPLOY / "federation.toml").telemetry.host_names


@pytest.mark.process
def test_docker_compose_reads_the_composition() -> None:
    done = subprocess.run(
        [tool("compose-spec"), "-format", "json", "compose.yaml"],
        cwd=DEPLOY / "docker", check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout)["services"]
    assert read.keys() == COMPOSE["services"].keys()
    built = {(one["build"]["context"], one["build"]["dockerfile"]) for one in read.values() if "build" in one}
    assert built == {(str(ROOT), "deploy/docker/Dockerfile")}
    mounted = [Path(volume["source"]) for one in read.values() for volume in one.get("volumes", ())]
    assert all(path.is_file() for path in mounted if path.is_absolute())


def test_a_process_without_metrics_is_not_checked_for_them() -> None:
    for name, one in OWN.items():
        assert ("healthcheck" in one) == (one["command"][0] in WITHOUT_METRICS), name


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_files_that_services_mount_are_there(name: str) -> None:
    mounted = [one.split(":")[0] for one in COMPOSE["services"][name].get("volumes", ())]
    for path in mounted:
        assert path in COMPOSE["volumes"] or (DEPLOY / "docker" / path).resolve().is_file(), path


def test_prometheus_reads_every_process_that_shows_itself_and_the_rules() -> None:
    told = yaml.safe_load((DEPLOY / "monitoring" / "prometheus.yml").read_text())
    (scraped,) = told["scrape_configs"]
    targets = {target for one in scraped["static_configs"] for target in one["targets"]}
    ((_, words),) = image("ENV")
    environment = dict(zip(words[::2], words[1::2], strict=True))
    _, port = address(environment["STREAMFL_TELEMETRY__ADDRESS"])
    running = {name for name, one in OWN.items() if one["command"][0] not in WITHOUT_METRICS}
    assert targets == {f"{name}:{port}" for name in running}
    for name in running:  # else they refuse it
        assert name in json.loads(OWN[name]["environment"]["STREAMFL_TELEMETRY__HOST_NAMES"])
    mounted = {one.split(":")[1] for one in COMPOSE["services"]["prometheus"]["volumes"]}
    assert set(told["rule_files"]) < mounted


def test_the_dashboard_is_where_grafana_looks_for_it() -> None:
    mounted = {one.split(":")[1] for one in COMPOSE["services"]["grafana"]["volumes"]}
    home = COMPOSE["services"]["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    (provider,) = yaml.safe_load((DEPLOY / "monitoring" / "dashboards.yml").read_text())["providers"]
    assert home in mounted
    assert Path(home).parent == Path(provider["options"]["path"])
    (source,) = yaml.safe_load((DEPLOY / "monitoring" / "grafana.yml").read_text())["datasources"]
    host, _, port = source["url"].removeprefix("http://").partition(":")
    assert COMPOSE["services"][host]["ports"][0].endswith(f":{port}")


def test_the_image_is_made_of_files_that_are_there_with_extras_that_there_are() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    copied = [path for flags, words in image("COPY") if not flags for path in words[:-1]]
    assert copied
    assert all((ROOT / path).exists() for path in copied)
    assert "--constraint requirements/lock.txt" in image("RUN")[0][1][0]
    install, _, compile_ = (words[0] for _, words in image("RUN"))
    assert set(re.findall(r'"\.\[(.*)\]"', install)[0].split(",")) <= project["optional-dependencies"].keys()
    assert parse(compile_.split()[1:]) == "compile"
    assert {words[0] for _, words in image("FROM")} == {
        f"python:{project['requires-python'].removeprefix('>=')}-slim"
    }
    ((_, (user,)),) = image("USER")
    assert int(user) > 0, "not root"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_runs_a_command_that_there_is_on_a_port_of_its_own(unit: Path) -> None:
    text = unit.read_text()
    (line,) = re.findall(r"^ExecStart=/opt/streamfl/bin/streamfl (.*)$", text, re.MULTILINE)
    assert unit.name.startswith(f"streamfl-{parse(line.replace('%i', 'a').split())}")
    where = [re.findall(r"(?:TELEMETRY__ADDRESS=|--address )(\S+)", other.read_text()) for other in UNITS]
    ports = [address(port)[1] for named in where for port in named]
    assert len(set(ports)) == len(ports) == len(UNITS) - 1 == 4, "all but the one that sends alerts listen"


@pytest.mark.process
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_finds_no_fault_with_a_unit(unit: Path, tmp_path: Path) -> None:
    copy = tmp_path / unit.name.replace("@", "@a")
    copy.write_text(unit.read_text().replace("/opt/streamfl/bin/streamfl", "/bin/true"))
    if (keys := KEYS / f"{unit.name}.d").exists():
        shutil.copytree(keys, tmp_path / f"{copy.name}.d")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], check=False, capture_output=True, text=True
    )
    about = [line for line in done.stderr.splitlines() if copy.stem in line]
    assert about == []


@pytest.mark.parametrize("unit", sorted(KEYS.iterdir()), ids=lambda unit: unit.name)
def test_a_unit_names_the_key_that_systemd_hands_it_as_the_setting_of_its_process(
    unit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, (role,) = (unit / "key.conf").read_text(), re.findall(r"-(\w+)", unit.name)
    (given,) = re.findall(r"^LoadCredential=(\w+):/etc/streamfl/keys/\S+\.key$", text, re.MULTILINE)
    assert UNITS[0].with_name(unit.name.removesuffix(".d")).is_file()
    for name, value in re.findall(r"^Environment=(\w+)=(\S+)$", text, re.MULTILINE):
        monkeypatch.setenv(name, value.replace("%d", "/run/keys"))
    assert getattr(load(DEPLOY / "federation.toml"), role).key == Path("/run/keys") / given


def test_two_machines_may_run_the_coordinator() -> None:
    assert "--standby" in (DEPLOY / "systemd" / "streamfl-coordinator.service").read_text()


def test_the_settings_of_the_example_are_those_of_the_composition() -> None:
    assert load(DEPLOY / "federation.toml", {}).federation.min_clients == 12
    produced = OWN["records"]["command"]
    assert produced[produced.index("--clients") + 1] == "12"
