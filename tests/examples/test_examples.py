"""Every example runs as it stands, as its reader would run it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from suites.parameters import full

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


# Two that differ from another one in the model only.
DEAR = ("federate_numpy_model", "federate_sklearn_model")


def test_the_examples_are_those_that_are_tested():
    assert {path.stem for path in EXAMPLES} == {
        "embed_a_federation",
        "embed_in_river",
        "federate_river_model",
        "replay_a_csv",
        *DEAR,
    }


@pytest.mark.parametrize(
    "path", [full(path) if path.stem in DEAR else path for path in EXAMPLES], ids=lambda path: path.stem
)
def test_every_example_runs_and_prints_something(path: Path, tmp_path: Path):
    ran = subprocess.run([sys.executable, path], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.strip()


@pytest.mark.process
@pytest.mark.full
def test_the_notebook_runs_from_its_first_cell_to_its_last(tmp_path: Path):
    """Its cells are run as one program, which needs no Jupyter."""
    notebook = json.loads((EXAMPLES[0].parent / "first_hour.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in notebook["cells"] if cell["cell_type"] == "code")
    ends = "assert by_hour.result.accuracy.prequential > accuracy.prequential; assert answers == ['hot', 'cold']"
    program = [sys.executable, "-c", "\n".join([*cells, ends])]
    ran = subprocess.run(program, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "for certain at client site=east" in ran.stdout
    assert "Federating is worth it here" in ran.stdout
