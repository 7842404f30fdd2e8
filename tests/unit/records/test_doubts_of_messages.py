"""What looks wrong in messages is reported by `check`, by the rules for files, and changes nothing that is read."""

import json

import numpy as np
import pytest

from streamfl.live.operator.check import Doubting
from streamfl.records.doubts_of_messages import doubts
from streamfl.records.files.readers import read
from streamfl.records.formats import FieldMap, JsonRecords, Packed
from streamfl.runtime.log.sample import judged

N = 200
A = 20.0 + np.arange(N) % 7
WITH_CODE = np.where(np.arange(N) % 10, A, -999.0)


def remarks(records, **fields):
    form = Doubting(JsonRecords.of(FieldMap(**fields)), FieldMap(**fields))
    values = [json.dumps(record).encode() for record in records]
    plain = form.form.fresh().decode(range(len(values)), values)
    found = form.fresh().decode(range(len(values)), values)
    np.testing.assert_array_equal(found.X, plain.X)  # nothing is dropped
    return found.remarks, judged("t/0", found, 1, "d")


def test_codes_and_counters_are_remarked_once_by_field_and_are_a_warning():
    records = [{"label": "ab"[i % 2], "t": WITH_CODE[i], "no": i, "x": i % 9} for i in range(N)]
    told, finding = remarks(records)
    code, counter = told
    assert code.startswith("t (10.0% of records): -999 repeats far outside the other values; if it stands for a")
    assert (
        counter.startswith("no only rises, or only falls, from record to record") and "with drop in [rec" in counter
    )
    assert (finding.state, finding.remedy) == ("warning", f"{code}; {counter}")


def test_what_the_settings_say_is_not_remarked():
    records = [{"label": "ab"[i % 2], "t": WITH_CODE[i], "no": i, "x": i % 9} for i in range(N)]
    for said in ("-999", "not:-999"):
        assert remarks(records, drop=("no",), missing_values=(said,))[0] == ()


def test_a_code_among_targets_is_remarked():
    records = [{"label": WITH_CODE[i] + 0.5 * (i % 10 > 0), "x": i % 9} for i in range(N)]
    (told,) = remarks(records, task="regression")[0]
    assert told.startswith("the target is -999 in 10.0% of the records")


def test_a_counter_of_each_client_is_one():
    records = [{"label": "ab"[i % 2], "no": i // 2 + 500 * (i % 2), "x": i % 9, "c": f"c{i % 2}"} for i in range(N)]
    (told,) = remarks(records, client="c")[0]
    assert told.startswith("no only rises")


def test_values_of_texts_are_not_looked_at_and_few_records_tell_nothing():
    records = [{"label": "ab"[i % 2], "on": "yes" if i > 3 else "no", "x": i % 9} for i in range(N)]
    assert remarks(records, categories={"on": ("yes", "no")})[0] == ()
    assert remarks([{"label": "a", "no": i, "x": 1} for i in range(40)])[0] == ()


def test_packed_messages_are_looked_at_too():
    form = Doubting(Packed("classification"), FieldMap())
    message = Packed("classification").encode(("t", "x"), np.column_stack([WITH_CODE, A]), np.zeros(N), ("a", "b"))
    assert "-999 repeats" in form.decode([0], [message]).remarks[0]


@pytest.mark.parametrize("code", [-999.0, 9999.0, -200.0, 5000.0])
def test_files_and_messages_have_the_same_codes(code, tmp_path):
    column = np.where(np.arange(N) % 10, A, code)
    found = doubts(("t", "x"), np.column_stack([column, A]))
    file = tmp_path / "f.csv"
    file.write_text("t,x,y\n" + "".join(f"{t},{x},{i % 2}\n" for i, (t, x) in enumerate(zip(column, A, strict=True))))
    table = read(str(file))
    assert {name: tuple(c.value for c in some if c.is_usual) for name, some in found.codes.items()} == (
        dict(table.codes) or {"t": ()}
    )
    assert f"{code:.10g} repeats far outside the other values" in " ".join(table.notes)
