"""Numbers with a unit are numbers, if a column has one unit; a model remembers which."""

from pathlib import Path

import numpy as np
import pytest

from streamfl.records.encoding import Encoding
from streamfl.records.files.readers import read
from streamfl.records.table import Table

N = 120


def csv(tmp_path: Path, column: list[str], header: str = "p|a|y", **options: object) -> Table:
    path = tmp_path / "f.csv"
    path.write_text("\n".join([header, *(f"{cell}|{i % 7}|{i % 2}" for i, cell in enumerate(column))]) + "\n")
    return read(str(path), separator="|", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("form", "unit"),
    [("{}.5 mV", "mV"), ("{}.5°C", "°C"), ("{}.5 %", "%"), ("{},5 kW", "kW"), ("€ {}.5", "€"), ("{}.5 m3/h", "m3/h")],
)
def test_a_column_of_one_unit_is_read_as_numbers_and_told_once(form: str, unit: str, tmp_path: Path) -> None:
    for n in (N, 6000):
        table = csv(tmp_path, [form.format(i % 90) for i in range(n)])
        np.testing.assert_array_equal(table.X[:, 0], [i % 90 + 0.5 for i in range(n)])
        assert table.notes == (f"numbers with their unit, read as numbers: p ({unit})",)
        assert table.units == {"p": unit}


def test_few_values_of_one_unit_are_numbers_too(tmp_path: Path) -> None:
    table = csv(tmp_path, ["20 W", "40 W", "60 W"] * 40)
    assert (table.features, table.X[:3, 0].tolist()) == (("p", "a"), [20.0, 40.0, 60.0])


def test_two_units_are_not_converted_and_both_are_named(tmp_path: Path) -> None:
    table = csv(tmp_path, [f"{i} mV" if i % 2 else f"{i / 1000} V" for i in range(N)])
    assert (table.features, table.left_out) == (("a",), ("p",))
    assert 'such as "0.0 V" and "1 mV"; write them in one unit' in table.notes[0]


def test_another_unit_later_is_missing_and_counted(tmp_path: Path) -> None:
    table = csv(tmp_path, [*(f"{i} mV" for i in range(2000)), "2 V", "", "7"])
    np.testing.assert_array_equal(table.X[-3:, 0], [np.nan, np.nan, 7.0])
    assert 'column p: 1 cell (line 2002) is not a number and counts as missing, such as "2 V"' in table.notes


def test_targets_may_have_a_unit(tmp_path: Path) -> None:
    table = csv(tmp_path, [f"{i}.5 kW" for i in range(N)], header="y|a|b")
    assert (table.labels, table.y[:2].tolist(), table.units) == ((), [0.5, 1.5], {"y": "kW"})


def test_codes_of_letters_and_digits_stay_texts(tmp_path: Path) -> None:
    table = csv(tmp_path, ["A4", "B5", "on"] * 40)
    assert table.features == ("p=A4", "p=B5", "p=on", "a")


def test_a_model_reads_the_unit_of_its_training_and_no_other() -> None:
    encoding = Encoding(("p",), {}, units={"p": "mV"})
    _, X, odd = encoding.encoded({"p": ["5 mV", "5 V", "5", "--"]})
    np.testing.assert_array_equal(X[:, 0], [5.0, np.nan, 5.0, np.nan])
    assert odd == {"p": {1: '"5 V" is not a number'}}
