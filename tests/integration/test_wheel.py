"""The built wheel in an environment that has nothing else: what somebody who installs it gets."""

import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def ran(*command: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
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
        page = {
            f"streamfl/services/page/static/{name}" for name in ("page.html", "page.js", "uplot.js", "uplot.LICENSE")
        }
        assert {"streamfl/log/parts.py", "streamfl_connectors/kafka/connector.py"} | page <= set(archive.namelist())
        for name in archive.namelist():
            assert not re.search(r"broker|pom\.xml|log4j", name), name
            assert not re.search(rb"(?m)^\s*(import|from|Requires-Dist:)\s+(scipy|deploy)\b", archive.read(name)), (
                name
            )


def test_the_wheel_alone_runs_the_lines_of_the_readme(tmp_path):
    ran(sys.executable, "-m", "pip", "wheel", ROOT, "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path)
    (wheel,) = tmp_path.glob("streamfl-*.whl")
    assert_product_alone(wheel)
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    ran(python, "-m", "pip", "install", "--quiet", wheel)
    lines = readme_lines()
    assert len(lines.splitlines()) <= 10
    told = ran(python, "-c", lines)
    accuracy, drifted = re.findall(r"[\d.]+%|True|False", told)
    assert float(accuracy.rstrip("%")) > 88.0
    assert drifted == "False"
    assert "streamfl" in ran(tmp_path / "empty" / "bin" / "streamfl", "--help")
    found = (
        "from streamfl.services.installed import connector_named; print(connector_named('kafka').Settings.__name__)"
    )
    assert ran(python, "-c", found) == "KafkaSettings\n"
