"""The built wheel in an environment that has nothing else: what somebody who installs it gets."""

import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.full, pytest.mark.process]

ROOT = Path(__file__).parents[2]


def ran(*command: object, cwd: Path | None = None) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def readme_lines() -> str:
    """Return the README's lines on River, as they stand there."""
    (lines,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return lines


def assert_product_alone(wheel: Path) -> None:
    """Fail if the wheel holds a benchmark, a test or the development broker, or anything in it needs one or SciPy."""
    with zipfile.ZipFile(wheel) as archive:
        assert {name.split("/")[0] for name in archive.namelist()} == {
            "streamfl",
            "streamfl_connectors",
            next(name.split("/")[0] for name in archive.namelist() if name.endswith("METADATA")),
        }
        page = {f"streamfl/run/page/static/{name}" for name in ("page.html", "page.js", "uplot.js", "uplot.LICENSE")}
        assert {"streamfl/runtime/log/parts.py", "streamfl_connectors/kafka/connector.py"} | page <= set(
            archive.namelist()
        )
        for name in archive.namelist():
            assert not re.search(r"broker|pom\.xml|log4j", name), name
            assert not re.search(rb"(?m)^\s*(import|from|Requires-Dist:)\s+(scipy|deploy)\b", archive.read(name)), (
                name
            )


# What a coordinator saves, and reads back.
STATE = """
from streamfl.wire import state_bytes
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.learning.profiles.adaptive.promotion import Promotion

print(state_bytes.decode(state_bytes.encode(CoordinatorState(Promotion(), entry=3))).entry)
"""


def lowest() -> list[str]:
    """Return each requirement of the package, at the lowest version that it names."""
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert all(">=" in one for one in required)
    return [re.sub(r">=([\d.]+).*", r"==\1", one) for one in required]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel from a source distribution, as an index would."""
    made = tmp_path_factory.mktemp("dist")
    builder = "import sys; from hatchling.build import build_sdist; print(build_sdist(sys.argv[1]))"
    ran(sys.executable, "-c", builder, made, cwd=ROOT)
    (source,) = made.glob("streamfl-*.tar.gz")
    ran(sys.executable, "-m", "pip", "wheel", source, "--no-deps", "--no-build-isolation", "--wheel-dir", made)
    (built,) = made.glob("streamfl-*.whl")
    return built


@pytest.mark.parametrize("requirements", ["lowest", "newest"])
def test_the_wheel_alone_runs_the_lines_of_the_readme(tmp_path, wheel, requirements):
    assert_product_alone(wheel)
    venv.create(tmp_path / "empty")
    python = tmp_path / "empty" / "bin" / "python"
    pinned = lowest() if requirements == "lowest" else []
    install = ("install", "--quiet", "--no-compile", "--timeout", "60")
    ran(sys.executable, "-m", "pip", "--python", python, *install, wheel, *pinned)
    lines = readme_lines()
    assert len(lines.splitlines()) <= 10
    told = ran(python, "-c", lines)
    accuracy, drifted = re.findall(r"[\d.]+%|True|False", told)
    assert float(accuracy.rstrip("%")) > 88.0
    assert drifted == "False"
    assert "streamfl" in ran(tmp_path / "empty" / "bin" / "streamfl", "--help")
    name = "connector_named('kafka').Settings.__name__"
    found = f"from streamfl.live.settings.installed import connector_named; print({name})"
    assert ran(python, "-c", found) == "KafkaSettings\n"
    assert ran(python, "-c", STATE) == "3\n"
