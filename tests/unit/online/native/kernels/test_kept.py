"""Machine code: compiled anew when anything that is compiled in has changed, read back when not, never in the way."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest
from numba.core import event

from streamfl.online.native.kernels import kept
from streamfl.online.native.kernels.kept import CORE, KERNELS, SOURCES, VERSIONS, Kept, version

pytestmark = pytest.mark.compiles

PACKAGE = CORE

# Standardises 100 after values of mean 0 and variance 1, and mixes two experts; tells that and what was compiled.
PROGRAM = """
import numpy as np
from numba.core import event
from streamfl.online.native.kernels.mixing import mix_labels
from streamfl.online.native.mixture import Mixture, room
from streamfl.online.native.running_scaler import RunningScaler
from streamfl.protocol.moments import Moments
with event.install_recorder("numba:compile") as compiled:
    scaler = RunningScaler.of(Moments(("x",), np.array([2.0]), np.zeros(1), np.array([2.0])), ("x",))
    (z,) = scaler.scaled(np.array([[100.0]]), count=False)[0]
    predictions = room(2, 2)
    predictions.by_expert[:] = [[0.9, 0.1], [0.4, 0.6]]
    mix_labels(Mixture(2).mixing, predictions)
print(z, round(predictions.mixed[0], 2), len(compiled.buffer) > 0)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(PACKAGE, folder / "streamfl", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def begun(copy: Path) -> subprocess.Popen[str]:
    """Begin the program with a copy of the package, which keeps its machine code beside itself."""
    env = os.environ | {"PYTHONPATH": str(copy), "NUMBA_CACHE_DIR": "", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.Popen(command, env=env, cwd=copy, stdout=subprocess.PIPE, text=True)


def told(copy: Path) -> tuple[float, float, bool]:
    """Return what the program finds, and whether it had to compile."""
    process = begun(copy)
    out, _ = process.communicate()
    assert process.returncode == 0
    z, p, compiled = out.split()
    return float(z), float(p), compiled == "True"


def changed(copy: Path, file: str, old: str, new: str) -> None:
    source = copy / "streamfl" / file
    assert source.read_text().count(old) == 1
    source.write_text(source.read_text().replace(old, new))


@pytest.mark.process
@pytest.mark.full
def test_what_is_compiled_in_is_compiled_anew_and_nothing_else_is(copy):
    both = [begun(copy) for _ in range(2)]  # at once, in an empty place
    assert [process.communicate()[0].split() for process in both] == [["5.0", "0.69", "True"]] * 2
    assert told(copy) == (5.0, 0.69, False)
    changed(copy, "online/native/learner.py", "FAR_OFF = 1e6", "FAR_OFF = 1e7")
    (copy / "streamfl" / "protocol" / "native" / "settings.py").touch()
    assert told(copy) == (5.0, 0.69, False)
    # A constant of another package, and what a function calls in another file.
    changed(copy, "protocol/native/settings.py", "FARTHEST = 5.0", "FARTHEST = 4.0")
    assert told(copy) == (4.0, 0.69, True)
    changed(copy, "online/native/kernels/softmax.py", "math.exp(outputs[m, c] - largest)", "1.0")
    assert told(copy) == (4.0, 0.55, True)
    assert told(copy) == (4.0, 0.55, False)


def test_loops_import_nothing_that_is_not_looked_at():
    """Else what it defines could be compiled in, and change unseen."""
    packages = {"streamfl.online.native.kernels": KERNELS}
    for source in SOURCES:
        if source.parent != KERNELS:
            continue
        for node in ast.walk(ast.parse(source.read_text())):
            assert not isinstance(node, ast.Import) or not any(
                name.name.startswith("streamfl") for name in node.names
            )
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("streamfl"):
                file = PACKAGE.parent / f"{node.module.replace('.', '/')}.py"
                assert node.module in packages or file in SOURCES, f"{source.name} imports {node.module}"


def test_constants_that_loops_import_are_defined_where_it_is_looked():
    """Else they would change with a file that is not looked at."""
    for source in SOURCES:
        if source.parent == KERNELS:
            continue
        for node in ast.parse(source.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("streamfl"):
                constants = [name.name for name in node.names if name.name.isupper()]
                assert not constants or PACKAGE.parent / f"{node.module.replace('.', '/')}.py" in SOURCES


# --- places ------------------------------------------------------------------------------------------------------


def doubled(x: int) -> int:
    return 2 * x


def compiled_when_called(cache: Kept | None = None) -> bool:
    """Call a function that is to be found, and tell whether it had to be compiled."""
    function = numba.njit(doubled)
    function._cache = cache or Kept(doubled)
    with event.install_recorder("numba:compile") as events:
        assert function(21) == 42
    return bool(events.buffer)


@pytest.fixture
def nowhere(tmp_path) -> Path:
    """A folder that cannot be made, also not by root."""
    (tmp_path / "file").touch()
    return tmp_path / "file" / "folder"


def test_the_next_place_is_taken_where_one_cannot_be_written_to(monkeypatch, nowhere, tmp_path):
    monkeypatch.setattr(kept, "places", lambda: [nowhere, tmp_path / "b"])
    assert compiled_when_called()
    assert Kept(doubled).cache_path == str(tmp_path / "b" / f"streamfl-{version()}")
    assert not compiled_when_called()


def test_what_was_kept_in_a_place_that_is_read_only_by_now_is_read(monkeypatch, tmp_path):
    monkeypatch.setattr(kept, "places", lambda: [tmp_path / "image", tmp_path / "own"])
    assert compiled_when_called()
    monkeypatch.setattr(kept, "_saved", None)  # would be called, and fail
    assert not compiled_when_called()
    assert not (tmp_path / "own").exists()


def test_without_any_place_every_process_compiles_for_itself(monkeypatch, nowhere):
    monkeypatch.setattr(kept, "places", lambda: [nowhere])
    assert compiled_when_called()
    assert compiled_when_called()
    assert Kept(doubled).cache_path is None


@pytest.mark.parametrize("end", ["nbi", "nbc"])
def test_a_file_that_was_cut_off_is_said_and_made_anew(monkeypatch, tmp_path, caplog, end):
    monkeypatch.setattr(kept, "places", lambda: [tmp_path])
    assert compiled_when_called()
    (file,) = tmp_path.glob(f"*/*.{end}")
    file.write_bytes(file.read_bytes()[:100])
    assert compiled_when_called()
    assert "cannot be read, so it is compiled again" in caplog.text
    assert not compiled_when_called()
    assert len(list(tmp_path.glob("*/*"))) == 2


def test_a_place_keeps_the_newest_versions_and_what_is_not_ours(monkeypatch, tmp_path):
    monkeypatch.setattr(kept, "places", lambda: [tmp_path])
    for age in range(VERSIONS + 2):
        old = tmp_path / f"streamfl-{age}"
        old.mkdir()
        (old / "code.nbc").touch()
        os.utime(old, (1e9 - age, 1e9 - age))
    (tmp_path / "learner.cpython-311.pyc").touch()
    assert compiled_when_called()
    left = {f"streamfl-{age}" for age in range(VERSIONS - 1)}
    assert {path.name for path in tmp_path.iterdir()} == left | {f"streamfl-{version()}", "learner.cpython-311.pyc"}


def test_checked_indices_are_another_version(monkeypatch):
    assert version.__wrapped__() == version()
    monkeypatch.setattr(kept, "checked", lambda: not bool(os.environ.get("NUMBA_BOUNDSCHECK") == "1"))
    assert version.__wrapped__() != version()


@pytest.mark.parametrize("difference", ["processor", "checked", "SOURCES", "llvmlite"])
def test_code_that_the_package_carries_is_used_unless_anything_differs(monkeypatch, nowhere, tmp_path, difference):
    monkeypatch.setattr(kept, "places", lambda: [tmp_path / "built"])
    assert compiled_when_called()
    Kept(doubled).copy(tmp_path / "carried")
    monkeypatch.setattr(kept, "places", lambda: [nowhere])
    monkeypatch.setattr(kept, "CARRIED", tmp_path / "none")
    assert compiled_when_called()
    assert not kept.unfit()
    monkeypatch.setattr(kept, "CARRIED", tmp_path / "carried")
    assert not compiled_when_called()
    assert not kept.unfit()
    assert Kept(doubled).cache_path == str(tmp_path / "carried" / f"streamfl-{version()}")
    changed_source = tmp_path / "loops.py"
    changed_source.write_text("changed")
    monkeypatch.setattr(
        kept,
        difference,
        {
            "processor": lambda: ("x86_64-unknown-linux-gnu", "pentium", "-avx"),
            "checked": lambda: not bool(os.environ.get("NUMBA_BOUNDSCHECK") == "1"),
            "SOURCES": (*SOURCES, changed_source),
            "llvmlite": SimpleNamespace(__version__="0.0"),
        }[difference],
    )
    monkeypatch.setattr(kept, "version", version.__wrapped__)  # which does not remember
    assert kept.unfit()
    assert compiled_when_called()


def test_code_is_not_written_to_where_the_package_carries_it(monkeypatch, nowhere, tmp_path):
    monkeypatch.setattr(kept, "places", lambda: [nowhere])
    monkeypatch.setattr(kept, "CARRIED", tmp_path / "carried")
    (tmp_path / "carried").mkdir()
    assert compiled_when_called()
    assert not list((tmp_path / "carried").iterdir())


def test_the_version_names_the_processor_that_code_is_made_for():
    platform, name, features = kept.processor()
    assert platform.count("-") >= 2
    assert name
    assert "+" in features or "-" in features


def test_the_named_place_comes_first_then_beside_the_loops_then_the_user_s_own(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    named, beside, user = kept.places()
    assert (named, beside) == (tmp_path, KERNELS / "__pycache__")
    assert user.is_relative_to(Path.home()) or "XDG_CACHE_HOME" in os.environ
